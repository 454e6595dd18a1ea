"""`Op`: the base class of all ops, assembled from one class per concern.

Each of these classes builds on the one before it: state, construction, serving by a target, calls,
entries, composition, records, tuning, gradients, copies, explanation.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from tileops._core.op.define import define
from tileops._core.op.explain import Explained
from tileops._core.op.meta import OpMeta


class Op(Explained, metaclass=OpMeta):
    """An operator: parameters fixed at construction, tensors given at the call.

    A subclass whose name is a spec's key gets the checks, the output shapes, the roofline and the
    compile boundary that the spec describes; a hand-written member of one of these names gives
    way. Its constructor assigns every parameter to the attribute of that name and then calls
    `super().__init__(target=target)`; its `forward` builds a call spec and calls
    `self.kernel_for(interface, call)(…)`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        define(cls)

    if not TYPE_CHECKING:
        # A type checker does not see what is generated and would take every op for abstract.

        @abstractmethod
        def _infer_output_shapes(self, *shapes: Any, **named: Any) -> Any:
            """Output shapes from input shapes; generated from a spec."""
