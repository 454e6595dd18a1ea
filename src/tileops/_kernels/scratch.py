"""Memory that a program needs beside its results, kept from one call to the next.

So a warm call allocates nothing but its results.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from tileops._core.devices import made_to_last


class _Kept(threading.local):
    """Float32 memory of the running thread, by device and stream."""

    def __init__(self) -> None:
        self.memory: dict[tuple[int, int], Tensor] = {}


_kept = _Kept()


def scratch(device: torch.device, *shapes: Sequence[int]) -> list[Tensor]:
    """Uninitialised float32 tensors for one launch, whose contents last until the next one.

    Launches of one thread and stream share memory, since they follow each other; it grows to what
    the largest of them needs. While a graph is captured the memory is fresh and the graph's own:
    replays must not meet what other launches write.

    Args:
        device: where the launch is; memory of other devices than CUDA's is always fresh.
        shapes: extents of each tensor.
    """
    sizes = [math.prod(shape) for shape in shapes]
    parts = torch.split(_memory(sum(sizes), device), sizes)
    return [part.view(*shape) for part, shape in zip(parts, shapes, strict=True)]


def _memory(count: int, device: torch.device) -> Tensor:
    """Exactly `count` elements."""
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return torch.empty(count, dtype=torch.float32, device=device)
    stream = torch.cuda.current_stream(device)
    key = stream.device_index, stream.cuda_stream
    held = _kept.memory.get(key)
    if held is None or held.numel() < count:
        (held,) = made_to_last(
            device, lambda: [torch.empty(count, dtype=torch.float32, device=stream.device)]
        )
        if type(held) is Tensor:  # A fake one is that of a call which does not run.
            _kept.memory[key] = held
    return held[:count]
