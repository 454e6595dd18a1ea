"""What each op of the model did: calls, who served them, time and work.

Times are those of the bench's clock, work is the op's roofline, and the share of the device's limit
is read from the bench's profiles: nothing is measured here by other means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tileops import Op
from tileops.bench.clock import Laps
from tileops.bench.profiles import profile_for


@dataclass(frozen=True)
class OpUse:
    """The use of one op over a pass.

    Args:
        op: the op.
        calls: how often it was called.
        target: the target that served it.
        kernels: the keys of the implementations that ran.
        seconds: what the calls took.
        flops: operations by the roofline.
        bytes: bytes by the roofline.
        efficiency: the bound of the device over the time; None where its limits are not known.
    """

    op: str
    calls: int
    target: str
    kernels: tuple[str, ...]
    seconds: float
    flops: int
    bytes: int
    efficiency: float | None


class _Watched:
    """An op whose calls are counted and timed."""

    def __init__(self, op: Op, device: torch.device) -> None:
        self.op, self._device = op, device
        self.reset()

    def reset(self) -> None:
        """Forget the calls so far."""
        self._laps = Laps(self._device)
        self._work: list[tuple[int, int]] = []

    @property
    def calls(self) -> int:
        """How often the op was called."""
        return len(self._work)

    def __call__(self, *args: torch.Tensor) -> torch.Tensor:
        """Run the op and note its time and its work."""
        result: torch.Tensor = self._laps.call(self.op, *args)
        self._work.append(self.op.eval_roofline())
        return result

    def use(self) -> OpUse:
        """The figures so far."""
        seconds = self._laps.seconds()
        return OpUse(
            op=type(self.op).__name__,
            calls=self.calls,
            target=str(self.op.serving_target),
            kernels=_kernel_keys(self.op),
            seconds=sum(seconds),
            flops=sum(flops for flops, _ in self._work),
            bytes=sum(moved for _, moved in self._work),
            efficiency=self._efficiency(seconds),
        )

    def _efficiency(self, seconds: list[float]) -> float | None:
        """The bounds of all calls over what they took."""
        profile = profile_for(self._device)
        if profile is None:
            return None
        unit, bound = self.op.roof_key(), 0.0
        for (flops, moved), each in zip(self._work, seconds, strict=True):
            reading = profile.reading(flops, moved, unit, each)
            if reading is None:
                return None
            bound += reading.bound
        return bound / sum(seconds)


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
