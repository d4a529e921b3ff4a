"""Random programs over views: the same steps on the CPU and on the device.

A program keeps pairs of tensors, one on each side. A step makes views of them, writes through them, or computes. After each, shapes, strides, offsets and
versions of all pairs are equal, and so is whether the step raised; the values are compared from time to time and at the end. Numbers are small integers, so that
values are equal and not only close.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import torch

Pair = tuple[torch.Tensor, torch.Tensor]


class Differs(AssertionError):
    """The sides differ, and the steps that led there."""


class Program:
    """Pairs of tensors, and the steps so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs: list[Pair] = []
        self.steps: list[str] = []
        for _ in range(2):
            self.start()

    def start(self) -> None:
        """A tensor with a storage of its own."""
        shape = [self.random.randint(0 if self.random.random() < 0.05 else 1, 4) for _ in range(self.random.randint(0, 4))]
        dtype = self.random.choice([torch.float32, torch.float32, torch.int64, torch.int32, torch.uint8])
        values = torch.tensor([self.random.randint(0, 6) for _ in range(int(torch.tensor(shape).prod()) if shape else 1)], dtype=dtype)
        self.add("start", lambda device: values.reshape(shape).clone().to(device))

    def add(self, name: str, make: Callable[[str], Any]) -> None:
        """Carries a step out on both sides."""
        self.steps.append(name)
        results: list[Any] = []
        for device in ("cpu", "warpweft"):
            try:
                results.append(make(device))
            except (RuntimeError, IndexError, TypeError, ValueError) as error:
                results.append(error)
        one, other = results
        if isinstance(one, Exception) != isinstance(other, Exception):
            raise self.differs(f"CPU: {one!r:.300}; device: {other!r:.300}")
        if isinstance(one, Exception) and "out=" in name:
            # The CPU may have resized what it then did not write to.
            del self.pairs[int(name.split(".")[0])]
            if len(self.pairs) < 2:
                self.start()
        if isinstance(one, torch.Tensor) and len(self.pairs) < 14:
            self.pairs.append((one, other))

    def differs(self, why: str) -> Differs:
        """An error with the steps."""
        return Differs("\n".join([*self.steps, why]))

    def check(self, values: bool) -> None:
        """Compares all pairs."""
        for index, (one, other) in enumerate(self.pairs):
            for what in ("shape", "dtype", "_version"):
                if getattr(one, what) != getattr(other, what):
                    raise self.differs(f"{what} of {index}: {getattr(one, what)} and {getattr(other, what)}")
            for call in ("stride", "storage_offset", "is_contiguous", "_is_view"):
                if getattr(one, call)() != getattr(other, call)():
                    raise self.differs(f"{call} of {index}: {getattr(one, call)()} and {getattr(other, call)()}")
            if values and not torch.equal(one, other.cpu()):
                raise self.differs(f"values of {index}:\n{one}\n{other.cpu()}")

    def pick(self) -> tuple[int, torch.Tensor]:
        """A pair, and its side on the CPU."""
        index = self.random.randrange(len(self.pairs))
        return index, self.pairs[index][0]

    def side(self, index: int, device: str) -> torch.Tensor:
        """A tensor of a pair."""
        return self.pairs[index][device != "cpu"]

    def view(self) -> None:
        """A view of a tensor, which may be impossible."""
        r = self.random
        index, x = self.pick()
        rank = max(x.ndim, 1)
        a, b = r.randrange(rank), r.randrange(rank)
        length = x.shape[a] if x.ndim else 1
        start = r.randint(0, length)
        shape = r.sample(list(x.shape), x.ndim)
        strides = [r.randint(0, 3) for _ in range(2)]
        order = r.sample(range(x.ndim), x.ndim)
        sizes = [r.randint(1, 3) for _ in range(2)]
        offset = r.randint(0, 3)
        repeated = [r.randint(1, 3), *(n if n != 1 else r.randint(1, 3) for n in x.shape)]
        ways: dict[str, Callable[[torch.Tensor], Any]] = {
            f"view({shape})": lambda t: t.view(shape),
            "view(-1)": lambda t: t.view(-1),
            f"reshape({shape})": lambda t: t.reshape(shape),
            f"permute({order})": lambda t: t.permute(order),
            f"transpose({a}, {b})": lambda t: t.transpose(a, b),
            f"narrow({a}, {start}, ..)": lambda t: t.narrow(a, start, length - start),
            f"[::2] of {a}": lambda t: t[(slice(None),) * a + (slice(start % 2, None, 2),)],
            f"select({a}, {start})": lambda t: t.select(a, start),
            f"expand({repeated})": lambda t: t.expand(repeated),
            f"diagonal({a}, {b})": lambda t: t.diagonal(start - 1, a, b),
            f"unfold({a})": lambda t: t.unfold(a, 2, 1),
            f"as_strided({sizes}, {strides}, {offset})": lambda t: t.as_strided(sizes, strides, offset),
            "squeeze": lambda t: t.squeeze(),
            f"unsqueeze({a})": lambda t: t.unsqueeze(a),
            "flatten": lambda t: t.flatten(),
            "detach": lambda t: t.detach(),
            "view(int32)": lambda t: t.view(torch.int32 if t.dtype == torch.float32 else torch.uint8),
            f"chunk({a})": lambda t: t.chunk(2, a)[-1],
            f"unbind({a})": lambda t: t.unbind(a)[0],
            "t": lambda t: t.t(),
        }
        name = r.choice(list(ways))
        self.add(f"{len(self.pairs)} = {index}.{name}", lambda device: ways[name](self.side(index, device)))

    def write(self) -> None:
        """A write to a tensor, of which there may be views."""
        r = self.random
        (index, x), (source, _), (third, _) = self.pick(), self.pick(), self.pick()
        number, seed, axis = r.randint(0, 5), r.randrange(1000), r.randrange(max(x.ndim, 1))
        rows = r.randrange(max(len(x), 1)) if x.ndim else 0
        ways: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]] = {
            f"fill_({number})": lambda t, y, z: t.fill_(number),
            "zero_": lambda t, y, z: t.zero_(),
            f"add_({number})": lambda t, y, z: t.add_(number),
            f"copy_({source})": lambda t, y, z: t.copy_(y),
            f"add_({source})": lambda t, y, z: t.add_(y),
            f"sub_({source}).remainder_(7)": lambda t, y, z: t.sub_(y).remainder_(7),
            f"mul_({source}).remainder_(7)": lambda t, y, z: t.mul_(y).remainder_(7),
            f"masked_fill_({source} > 2)": lambda t, y, z: t.masked_fill_(y > 2, number),
            f"[{rows}] = {number}": lambda t, y, z: t.__setitem__(rows, number),
            "clamp_": lambda t, y, z: t.clamp_(1, 4),
            # Indices out of range are no errors of the device.
            f"index_fill_({axis})": lambda t, y, z: (
                None if not t.numel() else t.index_fill_(axis, torch.tensor([0], device=t.device), number)
            ),
            f"random_({seed})": lambda t, y, z: (torch.manual_seed(seed), t.random_(0, 6))[1],
            f"add({source}, {third}, out=)": lambda t, y, z: torch.add(y, z, out=t),
            f"maximum({source}, {third}, out=)": lambda t, y, z: torch.maximum(y, z, out=t),
            f"sum({source}, 0, out=)": lambda t, y, z: torch.sum(y, 0, out=t),
            f"cumsum({source}, 0, out=)": lambda t, y, z: torch.cumsum(y, 0, out=t).remainder_(7),
            f"index_put_({axis})": lambda t, y, z: (
                None if not t.numel() else t.index_put_((torch.tensor([0, 0], device=t.device),), t[:1].clone() + 1)
            ),
            f"scatter_({axis})": lambda t, y, z: (
                None if not t.numel() else t.scatter_(axis, torch.zeros_like(t, dtype=torch.int64)[:1], number)
            ),
            f"swap with {source}": lambda t, y, z: t.copy_(torch.flip(t, [0])),
            f"addcmul_({source}, {third})": lambda t, y, z: t.addcmul_(y, z).remainder_(7),
        }
        name = r.choice(list(ways))
        self.add(
            f"{index}.{name}",
            lambda device: (ways[name](*(self.side(p, device) for p in (index, source, third))), None)[1],
        )

    def compute(self) -> None:
        """A tensor of its own."""
        r = self.random
        (index, x), (source, _) = self.pick(), self.pick()
        axis = r.randrange(max(x.ndim, 1))
        ways: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
            "clone": lambda t, y: t.clone(),
            "contiguous": lambda t, y: t.contiguous(),
            f"(+ {source}) % 7": lambda t, y: (t + y).remainder(7),
            f"sum({axis})": lambda t, y: t.sum(axis).remainder(7),
            f"flip({axis})": lambda t, y: t.flip(axis),
            f"sort({axis})": lambda t, y: t.sort(axis)[0],
            f"cat({source})": lambda t, y: torch.cat([t, y], axis),
            "empty_like.fill_": lambda t, y: torch.empty_like(t).fill_(3),
            "to(int64)": lambda t, y: t.to(torch.int64),
            f"where({source})": lambda t, y: torch.where(y > 2, t, y).sum(),
            "max": lambda t, y: t.max(),
            f"index_select({axis})": lambda t, y: None if not t.numel() else t.index_select(axis, torch.tensor([0, 0], device=t.device)),
        }
        name = r.choice(list(ways))
        self.add(f"{len(self.pairs)} = {index}.{name}", lambda device: ways[name](*(self.side(p, device) for p in (index, source))))

    def run(self, steps: int) -> None:
        """So many steps."""
        for _ in range(steps):
            self.random.choices([self.view, self.write, self.compute, self.start], [5, 6, 2, 1])[0]()
            self.check(self.random.random() < 0.15)
            if len(self.pairs) > 10:
                del self.pairs[self.random.randrange(len(self.pairs))]
        self.check(True)
