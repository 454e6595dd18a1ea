"""Kernel interfaces: the places where an op calls a kernel, as a contract for implementations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from tileops._core.dispatch.call_spec import CallSpec


class KernelInterface(ABC):
    """What every implementation under one interface promises.

    `request` is the class of the call specs that select among implementations. The docstring of
    `forward` states shape, dtype, layout, device and writes of each tensor: it is the only text
    from which an outside implementation is written. Other methods that the op calls on the entry
    are abstract here too; values on which all implementations must agree are concrete
    classmethods, computed from the call spec.
    """

    request: ClassVar[type[CallSpec]]

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on tensors as the interface describes them."""
