"""The judge of results by itself: what it takes for right, and what it must not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from judging import agree, is_nearer  # noqa: E402
from opinfo import entries, full_name, settled, stated_tolerances  # noqa: E402

INFINITY, NAN = float("inf"), float("nan")


def nearer(eager: list[float], ours: list[float], exact: list[float], dtype: Any = torch.float32) -> bool:
    """The judge's word on one tensor."""
    return is_nearer([torch.tensor(eager, dtype=dtype)], [torch.tensor(ours, dtype=dtype)], [torch.tensor(exact, dtype=torch.float64)])


@pytest.mark.parametrize(
    ("eager", "ours", "exact"),
    [
        ([1.0, 2.5], [1.0, 2.25], [1.0, 2.0]),
        ([NAN, 1.0], [NAN, 1.0], [3.0, 1.0]),
        ([3.0, 1.0], [NAN, 1.0], [NAN, 1.0]),
        # What eager PyTorch cannot tell, and is right in float64.
        ([INFINITY, 1.0], [3.0, 1.0], [3.0, 1.0]),
    ],
)
def test_what_is_no_further_off_than_eager_is_right(eager: list[float], ours: list[float], exact: list[float]) -> None:
    assert nearer(eager, ours, exact)


@pytest.mark.parametrize(
    ("eager", "ours", "exact"),
    [
        ([1.0, 2.25], [1.0, 2.5], [1.0, 2.0]),
        # A number where both have none.
        ([NAN, 1.0], [0.0, 1.0], [NAN, 1.0]),
        ([INFINITY, 1.0], [5.0, 1.0], [INFINITY, 1.0]),
        # None where both have one, or another one.
        ([2.0, 1.0], [NAN, 1.0], [2.0, 1.0]),
        ([INFINITY, 1.0], [-INFINITY, 1.0], [INFINITY, 1.0]),
        # An error of eager PyTorch that is not finite allows none of ours.
        ([INFINITY, 1.0], [4.0, 1.0], [3.0, 1.0]),
        ([INFINITY, 1.0], [3.0, 2.0], [3.0, 1.0]),
    ],
)
def test_what_is_further_off_is_wrong(eager: list[float], ours: list[float], exact: list[float]) -> None:
    assert not nearer(eager, ours, exact)


def test_halves_may_be_some_steps_off_of_the_largest() -> None:
    step = 100 * torch.finfo(torch.float16).eps
    assert nearer([100.0, 1.0], [100.0 + 3 * step, 1.0], [100.0, 1.0], torch.float16)
    assert not nearer([100.0, 1.0], [100.0 + 5 * step, 1.0], [100.0, 1.0], torch.float16)
    # Small numbers have small steps.
    assert not nearer([0.001], [0.003], [0.001], torch.float16)


def test_the_database_may_state_a_wider_tolerance_of_its_own() -> None:
    stated = {full_name(entry): stated_tolerances(entry) for entry in entries()}
    assert stated["nn.functional.scaled_dot_product_attention"][torch.float32] == {"atol": 5e-5, "rtol": 5e-6}
    # One for another device, or for one test alone, says nothing about us.
    assert not stated["nn.functional.silu"] and not stated["matmul"]
    eager, ours = [torch.tensor([1.0])], [torch.tensor([1.0001])]
    with pytest.raises(AssertionError):
        agree(eager, [torch.tensor([1.0002])])
    agree(eager, ours, wider={torch.float32: {"atol": 1e-4, "rtol": 0.0}})
    # The usual one stands where it is the wider.
    agree(eager, [torch.tensor([1.00011])], wider={torch.float32: {"atol": 0.0, "rtol": 0.0}})


def test_a_sort_may_name_equal_elements_in_any_order_but_each_once() -> None:
    entry, sample = SimpleNamespace(name="argsort"), SimpleNamespace(input=torch.tensor([1.0, 0.0, 1.0]), args=(), kwargs={})

    def told(*indices: int) -> list[Any]:
        return [result.tolist() for result in settled(entry, sample, [torch.tensor(indices)])]

    assert told(1, 0, 2) == told(1, 2, 0)
    assert told(1, 0, 2) != told(1, 0, 0)
    assert told(1, 0, 2) != told(0, 1, 2)
