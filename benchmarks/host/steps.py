"""What the parts of a warm call cost: each part run alone, on what it gets in a call.

Parts that contain others run with these replaced by functions that do nothing.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from calls import Functions, Subject

from tileops._core.op.kinds import Kind


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _with(function: Any, **replaced: Any) -> Any:
    """A generated function whose unit has other values for some names."""
    namespace = {**function.__globals__, **replaced}
    return FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)


def steps_of(subject: Subject) -> Functions:
    """The parts by name, in the order in which a call runs them."""
    op, arguments, _ = subject
    unit = type(op)._call_boundary.__globals__
    result = op(*arguments)
    key, (kind,) = op._instance_key, op._known_calls.values()
    boundary = _with(type(op)._call_boundary, _direct_0=_nothing)
    known = Kind(kind.record, kind.facts)
    known.tell_by(arguments)  # Outside the operator autograd is on.
    stub = type("Stub", (), {"_run_call": _nothing, "forward": _nothing, "_latest_kind": known})()
    body = _with(unit["_body_0"], _instances={key: lambda: stub})
    asked: list[Any] = []
    fits, run = unit["_fits_0"], op._run_call
    shallow = type(op).__new__(type(op))
    shallow.__dict__.update(op.__dict__)

    def kernel_for(interface: str, call: Any) -> Any:
        asked[:] = [interface, call]
        return op.kernel_for(interface, call)

    shallow.__dict__["kernel_for"] = kernel_for
    shallow.forward(*arguments)
    interface, call = asked
    shallow.__dict__["kernel_for"] = lambda *_: lambda *_: result
    make = type(call)
    fields = [getattr(call, item.name) for item in make._own_fields]
    return {
        "bind": lambda: boundary(op, *arguments),
        "kind": lambda: body(*arguments, key),
        "steps": lambda: run(arguments, lambda *_: result, {}, kind, None, lambda *_: True),
        "result": lambda: fits(op, known, result, arguments, {}),
        "call_spec": lambda: make(*fields, device=call.device),
        "kernel_for": lambda: op.kernel_for(interface, call),
        "body": lambda: shallow.forward(*arguments),
    }
