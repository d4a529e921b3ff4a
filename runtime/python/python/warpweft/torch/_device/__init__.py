"""`torch.device("warpweft")`: tensors of PyTorch whose elements are lazy tensors of Warpweft.

PyTorch keeps all that a tensor is but for its elements: shape, strides, offset, storage, version, gradients. `_memory` says what storages hold, `_dispatch`
what an op is, `_fallback` how the host runs one, `_metas` what a call would give, `_special` what moves memory. All is registered from Python: nothing is
compiled when the package is installed.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

NAME = "warpweft"


class _Module:
    """What PyTorch asks of `torch.warpweft`."""

    def is_initialized(self) -> bool:
        """Always."""
        return True

    def is_available(self) -> bool:
        """Always."""
        return True

    def current_device(self) -> int:
        """The only one."""
        return 0

    def device_count(self) -> int:
        """One: the host."""
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        """Nothing: numbers are drawn by the generator of the host, which `torch.manual_seed` sets."""

    def manual_seed_all(self, seed: int) -> None:
        """As `manual_seed`."""

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        """That of the host's generator."""
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        """That of the host's generator."""
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[Any]:
        """Types that autocast may choose."""
        return [torch.bfloat16, torch.float16]

    def synchronize(self, device: Any = None) -> None:
        """Computes all that was put off."""
        from warpweft.torch._device._memory import flush

        flush()


@functools.cache
def register() -> bool:
    """Makes the device known; false where PyTorch has another under the key of devices of others."""
    from torch.utils import backend_registration

    try:
        backend_registration._setup_privateuseone_for_python_backend(rename=NAME, backend_module=_Module())
    except (RuntimeError, AttributeError) as error:
        warnings.warn(f'torch.device("{NAME}") is not there: {error}', stacklevel=2)
        return False
    from warpweft.torch._device import _registry

    _registry.register()
    return True
