"""What kernel authors build on: kernels, kernel interfaces and call specs."""

from __future__ import annotations

from tileops._core.dispatch.call_spec import CallSpec
from tileops._core.dispatch.interface import KernelInterface
from tileops._core.dispatch.kernel import Kernel
from tileops._core.dispatch.portable import PortableKernel

__all__ = ["CallSpec", "Kernel", "KernelInterface", "PortableKernel"]
