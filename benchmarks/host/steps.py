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
    members = {"_run_call": _nothing, "forward": _nothing, "_latest_kind": known}
    # Where torch has no such look, calls are told by their key.
    stub = type("Stub", (), {**members, "_recall": lambda *_: known})()
    body = _with(unit["_body_0"], _instances={key: lambda: stub})
    fits, run = unit["_fits_0"], op._run_call
    shallow = type(op).__new__(type(op))
    shallow.__dict__.update(op.__dict__)
    asked = next(key for key in op._entries_by_call if len(key) > 2)  # not by a call spec
    shallow._entries_by_call = dict.fromkeys(op._entries_by_call, lambda *_: result)
    return {
        "bind": lambda: boundary(op, *arguments),
        "kind": lambda: body(*arguments, key),
        "steps": lambda: run(arguments, lambda *_: result, {}, kind, None, lambda *_: True),
        "result": lambda: fits(op, known, result, arguments, {}),
        "kernel_for": lambda: op.kernel_for_fields(*asked),
        "body": lambda: shallow.forward(*arguments),
    }
