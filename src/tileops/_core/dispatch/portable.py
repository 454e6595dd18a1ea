"""Kernels written in plain torch, which serve whatever no better implementation does."""

from __future__ import annotations

from typing import Generic, TypeVar

from tileops._core.dispatch.call_spec import CallSpec
from tileops._core.dispatch.kernel import Kernel

Call = TypeVar("Call", bound=CallSpec)


class PortableKernel(Kernel, Generic[Call]):
    """A kernel whose body is torch: it compiles nothing and keeps its call spec as it is.

    Args:
        call: the call spec for which the kernel was chosen.
    """

    devices = frozenset({"cpu", "cuda"})
    general = True

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
