"""The text of a failed call of a built-in, for errors and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from tileops._core.lang.nodes import Call, Expr, Name
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.values import shown
from tileops._core.lang.walk import walk


def failed_call(call: Call, reason: str, value: Callable[[str], object]) -> str:
    """The built-in's own reason, and the values of the names in its arguments.

    A name that stands alone for a parameter which the reason already shows is left out.

    Args:
        call: the call that failed.
        reason: the text of the error that the built-in raised.
        value: finds the value of a name.
    """
    text = reason if reason.startswith(call.callee) else f"{call.callee}: {reason}"
    names: dict[str, object] = {}
    for argument in _untold(call, reason):
        for node in walk(argument):
            if isinstance(node, Name):
                with suppress(KeyError):
                    names[node.id] = value(node.id)
    listed = ", ".join(f"{name}={shown(found)}" for name, found in names.items())
    return f"{text} ({listed})" if listed else text


def _untold(call: Call, reason: str) -> Iterator[Expr]:
    """The arguments whose values the reason does not show."""
    builtin = BUILTINS[call.callee]
    for position, argument in enumerate(call.args):
        parameter = builtin.parameter(position)
        if parameter is None or not re.search(rf"\b{parameter.name}=", reason):
            yield argument
