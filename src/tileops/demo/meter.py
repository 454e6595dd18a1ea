"""What each op of the model did: calls, who served them, time and work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tileops import Op


@dataclass(frozen=True)
class OpUse:
    """The use of one op over a pass; `kernels` are the keys of the implementations that ran."""

    op: str
    calls: int
    target: str
    kernels: tuple[str, ...]
    seconds: float
    flops: int
    bytes: int


class _Watched:
    """An op whose calls are counted and timed."""

    def __init__(self, op: Op, device: torch.device) -> None:
        self.op = op
        self._synchronizes = device.type != "cpu"
        self.reset()

    def reset(self) -> None:
        """Forget the calls so far."""
        self.calls = 0
        self.seconds = 0.0
        self.flops = 0
        self.bytes = 0

    def __call__(self, *args: torch.Tensor) -> torch.Tensor:
        """Run the op; the device finishes before the clock stops."""
        start = time.perf_counter()
        result: torch.Tensor = self.op(*args)
        if self._synchronizes:
            torch.accelerator.synchronize()
        self.seconds += time.perf_counter() - start
        self.calls += 1
        flops, traffic = self.op.eval_roofline()
        self.flops += flops
        self.bytes += traffic
        return result

    def use(self) -> OpUse:
        """The figures so far."""
        return OpUse(
            op=type(self.op).__name__,
            calls=self.calls,
            target=str(self.op.serving_target),
            kernels=_kernel_keys(self.op),
            seconds=self.seconds,
            flops=self.flops,
            bytes=self.bytes,
        )


class Meter:
    """Counts and times the calls of the ops given to `watch`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._watched: list[_Watched] = []

    def watch(self, op: Op) -> Callable[..., torch.Tensor]:
        """A callable that runs `op` and notes what it did."""
        watched = _Watched(op, self._device)
        self._watched.append(watched)
        return watched

    def reset(self) -> None:
        """Forget all calls so far; kernels that were built stay built."""
        for watched in self._watched:
            watched.reset()

    def uses(self) -> tuple[OpUse, ...]:
        """One entry per op that was called, most time first."""
        used = [watched.use() for watched in self._watched if watched.calls]
        return tuple(sorted(used, key=lambda use: -use.seconds))


def _kernel_keys(op: Op) -> tuple[str, ...]:
    """Keys of the implementations that the op has built, its own and registered ones."""
    keys = {implementation: key for key, implementation in type(op).kernel_types.items()}
    built = {
        implementation
        for interface in type(op).interfaces
        for implementation, _ in op.built_entries(interface)
    }
    return tuple(sorted(keys.get(found, found.__name__) for found in built))
