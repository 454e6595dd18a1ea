"""What torch refuses to do with fake tensors, for a body that is followed and not run.

A build of torch without a device makes fake tensors of it and computes with them, but does not
index them: it looks for the device before it looks at the tensor. The same by functions needs none.
An address, which bodies ask for to learn how memory is aligned, is that of fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

_BASIC = {slice, int, NoneType, EllipsisType}


class FollowingFakes(TorchFunctionMode):
    """While it is active, fake tensors are indexed by functions and have an address."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Do what was asked for, or the same in another way."""
        if args and isinstance(args[0], FakeTensor):
            if func is Tensor.data_ptr:
                return 0  # aligned as nothing else is
            if func is Tensor.__getitem__:
                items = args[1] if isinstance(args[1], tuple) else (args[1],)
                if all(type(item) in _BASIC for item in items):
                    return indexed(args[0], items)
        return func(*args, **(kwargs or {}))


def indexed(tensor: Tensor, items: tuple[Any, ...]) -> Tensor:
    """`tensor[items]` where each item is None, `...`, a number or a slice."""
    axis = 0
    for place, item in enumerate(items, 1):
        if item is Ellipsis:
            axis = tensor.ndim - sum(later is not None for later in items[place:])
        elif isinstance(item, int):
            tensor = tensor.select(axis, item)
        else:
            tensor = tensor.unsqueeze(axis) if item is None else _sliced(tensor, axis, item)
            axis += 1
    return tensor


def _sliced(tensor: Tensor, axis: int, part: slice) -> Tensor:
    step = 1 if part.step is None else part.step
    view: Tensor = torch.ops.aten.slice.Tensor(tensor, axis, part.start, part.stop, step)
    return view
