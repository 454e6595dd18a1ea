"""Memory that a program needs beside its results, kept from one call to the next.

So a warm call allocates nothing but its results.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from tileops._core.devices import made_to_last

_UNIT = 128
"""Bytes of which a part takes a multiple, so that each begins where the copy engine can read."""


class _Kept(threading.local):
    """Memory of the running thread, by device and stream."""

    def __init__(self) -> None:
        self.memory: dict[tuple[int, int], Tensor] = {}


_kept = _Kept()


def scratch(
    device: torch.device, *shapes: Sequence[int], dtypes: Sequence[torch.dtype] = ()
) -> list[Tensor]:
    """Uninitialised tensors for one call, whose contents last until the next one.

    Launches of one thread and stream share memory, since they follow each other; it grows to what
    the largest of them needs. While a graph is captured the memory is fresh and the graph's own:
    replays must not meet what other launches write.

    Args:
        device: where the launch is; memory of other devices than CUDA's is always fresh.
        shapes: extents of each tensor.
        dtypes: element type of each; float32 where there are none.
    """
    kinds = dtypes or [torch.float32] * len(shapes)
    sizes = [math.prod(shape) * kind.itemsize for shape, kind in zip(shapes, kinds, strict=True)]
    starts = [0, *accumulate(-(-size // _UNIT) * _UNIT for size in sizes)]
    memory = _memory(starts[-1], device)
    return [
        memory.narrow(0, start, size).view(kind).view(*shape)
        for start, size, kind, shape in zip(starts, sizes, kinds, shapes, strict=False)
    ]


def _memory(count: int, device: torch.device) -> Tensor:
    """At least `count` bytes."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return torch.empty(count, dtype=torch.uint8, device=device)
    stream = torch.cuda.current_stream(device)
    key = stream.device_index, stream.cuda_stream
    held = _kept.memory.get(key)
    if held is None or held.numel() < count:
        (held,) = made_to_last(
            device, lambda: [torch.empty(count, dtype=torch.uint8, device=stream.device)]
        )
        if type(held) is Tensor:  # A fake one is that of a call which does not run.
            _kept.memory[key] = held
    return held
