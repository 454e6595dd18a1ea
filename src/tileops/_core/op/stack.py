"""The calls that run on a thread, and what each of them has for itself.

Everything else on an instance is shared by all threads. A call reports to the one beneath it on
its own stack, and its body reads the tensors that the instance holds as its own check left them,
whatever calls of other threads have put in their place.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tileops._core.runtime.tracing import is_compiled

if TYPE_CHECKING:
    import torch

    from tileops._core.runtime.record import SignatureCall

Report = tuple[Any, "SignatureCall"]
"""An op and the record of a call that it completed."""


class Held(dict[str, "torch.Tensor | None"]):
    """Construction-time tensors that calls may move, as one call has them; empty while it checks.

    Args:
        kernels: the table of the target's kernels that are built for these tensors, which is
            another one as soon as another tensor is bound.
    """

    __slots__ = ("kernels",)

    def __init__(self, kernels: dict[Any, Any]) -> None:
        super().__init__()
        self.kernels = kernels


Frame = tuple[Any, list[Report], "Held | None"]
"""The op of a running call, what was reported to it, and its tensors where calls move any."""


class _Stack(threading.local):
    """The calls that are running on this thread, innermost last."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []


_stack = _Stack()


NOTHING: Any = object()
"""Stands for a value that is not there."""


def held_place(name: str) -> str:
    """Where an instance keeps a construction-time tensor that calls may move.

    A name of its own: a compiler takes what is kept under a property's name for the property.
    """
    return f"_bound_{name}"


def held_tensor(name: str, default: Any) -> property:
    """The attribute of a construction-time tensor that calls may move.

    Args:
        name: of the attribute.
        default: what the class gives instances that have none; `NOTHING` where it gives nothing.
    """
    place = held_place(name)

    def get(op: Any) -> Any:
        """The tensor of the call that runs on this thread, else the one that is bound."""
        if not is_compiled():
            held = held_by(op)
            if held and name in held:
                return held[name]
        found = getattr(op, place, default)
        if found is NOTHING:
            raise _missing(op, name)
        return found

    def bind(op: Any, value: Any) -> None:
        op.__dict__[place] = value
        held = held_by(op)
        if held:
            held[name] = value

    def unbind(op: Any) -> None:
        if op.__dict__.pop(place, NOTHING) is NOTHING:
            raise _missing(op, name)

    return property(get, bind, unbind)


def held_by(op: Any) -> Held | None:
    """The tensors of the innermost call of an op on this thread."""
    for owner, _, held in reversed(_stack.frames):
        if owner is op:
            return held
    return None


def _missing(op: Any, name: str) -> AttributeError:
    return AttributeError(f"{type(op).__name__!r} object has no attribute {name!r}")
