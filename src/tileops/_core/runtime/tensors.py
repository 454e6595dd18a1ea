"""Facts of tensors as the checks ask for them: dtype names, layouts, storage.

Never reads contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, strided
from torch.nn.parameter import Parameter, is_lazy

from tileops._core.lang.dtypes import BITS
from tileops._core.runtime.overlap import items_are_distinct
from tileops._core.runtime.tracing import is_compiled

DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name) for name in BITS if hasattr(torch, name)
}
"""The registered dtypes that the running torch has, by name."""

_NAMES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


class Shaped(NamedTuple):
    """Stands for a tensor of which only the shape, and perhaps the dtype, is known."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None


def name_of_dtype(dtype: torch.dtype | None) -> str | None:
    """The name of a dtype, unregistered ones included; None for one that was not given."""
    if dtype is None:
        return None
    return _NAMES.get(dtype) or str(dtype).removeprefix("torch.")


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor, or stands for one."""
    return isinstance(value, (torch.Tensor, Shaped))


def is_ordinary(value: object) -> bool:
    """Whether a value is a tensor of sizes and strides, which is all that kernels take."""
    if type(value) is Tensor or type(value) is Parameter:
        return value.layout is strided and not value.is_nested
    return isinstance(value, torch.Tensor) and unusual(value) is None


def is_writable(value: object) -> bool:
    """Whether a value is an ordinary tensor that may be written, its items as they are."""
    if is_compiled():
        return is_ordinary(value)  # A trace can neither ask for laziness nor hold it.
    return isinstance(value, torch.Tensor) and unusual(value, written=True) is None


def unusual(tensor: torch.Tensor, *, written: bool = False) -> str | None:
    """Why a tensor cannot be passed, or be written, or None."""
    if is_lazy(tensor):
        return "expected a tensor with a shape, got an uninitialized one"
    if tensor.is_nested:
        return "expected a strided tensor, got a nested one"
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return f"expected a strided tensor, got layout {layout}"
    if written and (tensor.is_conj() or tensor.is_neg()):
        lazy = "conjugated" if tensor.is_conj() else "negated"
        return f"a lazily {lazy} tensor cannot be written; resolve it first"
    if written and tensor.is_inference() and not torch.is_inference_mode_enabled():
        return "an inference tensor cannot be written outside inference mode; clone it first"
    return None


def described_as(tensor: torch.Tensor) -> tuple[tuple[int, ...], str | None]:
    """A tensor's shape and the name of its dtype."""
    return tuple(tensor.shape), name_of_dtype(tensor.dtype)


def differ(dtype: str | None, expected: str | None) -> bool:
    """Whether two dtypes that are both given are not the same."""
    return dtype is not None and expected is not None and dtype != expected


def is_combination(dtypes: tuple[str | None, ...], rows: Iterable[tuple[str, ...]]) -> bool:
    """Whether the dtypes that are given agree with some row."""
    return any(not any(map(differ, dtypes, row)) for row in rows)


def on_cpu(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether every tensor that is there is on the CPU."""
    return all(tensor is None or tensor.device.type == "cpu" for tensor in tensors)


def share_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors use one storage; not judged for empty ones and those without storage."""
    first = _storage(a)
    return first != 0 and first == _storage(b)


def shares_storage(buffer: torch.Tensor, others: Iterable[Any]) -> bool:
    """Whether a tensor shares its storage with one of others that are ordinary tensors."""
    there = [other for other in others if is_ordinary(other)]
    try:
        place = buffer.untyped_storage().data_ptr()
        near = [tensor for tensor in there if tensor.untyped_storage().data_ptr() == place]
    except (RuntimeError, NotImplementedError):
        near = there
    return any(share_storage(buffer, tensor) for tensor in near)


def _storage(tensor: torch.Tensor) -> int:
    """The address of a tensor's storage; 0 for an empty, meta or fake tensor, or a wrapper."""
    is_fake = isinstance(tensor, torch._subclasses.FakeTensor)
    if is_fake or tensor.is_meta or tensor.numel() == 0:
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def buffer_misfit(
    buffer: torch.Tensor,
    dtype: str,
    device: torch.device | None,
    contiguous: bool,
    others: Mapping[str, torch.Tensor | None],
) -> str | None:
    """Why a passed buffer of the right shape cannot take an output, or None.

    An empty text means that the dtype is at fault, which the caller words with the shape.
    """
    if name_of_dtype(buffer.dtype) != dtype:
        return ""
    if device is not None and buffer.device != device:
        return f"expected device {device}, got {buffer.device}"
    if contiguous and not buffer.is_contiguous():
        return f"expected a contiguous tensor, got strides {tuple(buffer.stride())}"
    if items_are_distinct(buffer) is False:
        strides = tuple(buffer.stride())
        return f"overlaps itself, got shape {tuple(buffer.shape)} with strides {strides}"
    for name, tensor in others.items():
        if tensor is not None and share_storage(buffer, tensor):
            return f"shares storage with {name}"
    return None
