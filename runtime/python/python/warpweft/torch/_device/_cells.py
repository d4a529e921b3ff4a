"""Cells of LSTM and GRU, which PyTorch asks of each device but the CPU as one op, and their derivatives: written as ops of tensors.

The workspaces are the gates after their functions: of an LSTM input, forget, cell and output side by side; of a GRU reset, update and new, the old state, and the
new gate's hidden part. Tests: tests/test_device.py compares steps of training with those of the CPU.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

Tensor = torch.Tensor


def _plus(gates: Tensor, bias: Optional[Tensor]) -> Tensor:
    return gates if bias is None else gates + bias


def lstm(input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """The new state and cell, and the gates."""
    gates = _plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_backward(grad_hy: Optional[Tensor], grad_cy: Optional[Tensor], cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    """By gates, the old cell, and the bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    wave = cy.tanh()
    grad_o = torch.zeros_like(o) if grad_hy is None else grad_hy * wave
    grad_cell = torch.zeros_like(cx) if grad_cy is None else grad_cy
    if grad_hy is not None:
        grad_cell = grad_cell + grad_hy * o * (1 - wave * wave)
    parts = [grad_cell * g * i * (1 - i), grad_cell * cx * f * (1 - f), grad_cell * i * (1 - g * g), grad_o * o * (1 - o)]
    gates = torch.cat(parts, 1)
    return gates, grad_cell * f, gates.sum(0) if has_bias else None


def gru(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    """The new state, and what its derivative needs."""
    ir, iz, new_input = _plus(input_gates, input_bias).chunk(3, 1)
    hr, hz, new_hidden = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (new_input + reset * new_hidden).tanh()
    return (hx - new) * update + new, torch.cat([reset, update, new, hx, new_hidden], 1)


def gru_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    """By the gates of the input and of the state, the old state, and both biases."""
    reset, update, new, hx, new_hidden = workspace.chunk(5, 1)
    grad_new = grad_hy * (1 - update) * (1 - new * new)
    grad_update = grad_hy * (hx - new) * update * (1 - update)
    grad_reset = grad_new * new_hidden * reset * (1 - reset)
    inputs = torch.cat([grad_reset, grad_update, grad_new], 1)
    hidden = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, grad_hy * update, *biases
