"""Calls of built-ins: whether one may stand where it does, and how its arguments bind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tileops._core.lang import rejected
from tileops._core.lang.faults import KindFault
from tileops._core.lang.kinds import (
    BOOL,
    VALUE,
    BoolKind,
    DTypeKind,
    EnumKind,
    Kind,
    alternatives,
    fits,
    is_number,
)
from tileops._core.lang.nodes import Call, Constant, Expr
from tileops._core.lang.positions import Position
from tileops._core.lang.primitives.table import BUILTINS, NAMESPACES, Builtin, Parameter
from tileops._core.lang.spelling import suggest

_PLACES = {
    "generator": "a generator, which stands in `values` only",
    "predicate": "a predicate, which stands in `requires` only",
    "list": "a list of lengths, which stands in rows and generator arguments only",
}


def require_root(expr: Expr, role: Literal["generator", "predicate"]) -> None:
    """Require a whole expression to be a call of a generator or a predicate.

    Raises:
        KindFault: it is anything else.
    """
    if not isinstance(expr, Call):
        raise KindFault(16, f"expected a call of a {role}", expr.span)
    builtin = BUILTINS.get(expr.callee)
    if builtin is None or builtin.role != role:
        raise KindFault(
            16, f"{expr.callee} is not a {role}{_closest(expr.callee, role)}", expr.span
        )


def resolve(call: Call, position: Position, *, is_root: bool) -> Builtin:
    """The built-in that a call names.

    Raises:
        KindFault: there is none, or it may not be called here.
    """
    builtin = BUILTINS.get(call.callee)
    if builtin is None:
        prefix, _, member = call.callee.partition(".")
        if member and prefix not in NAMESPACES:
            raise KindFault(13, rejected.attribute(prefix, member), call.span)
        hint = _closest(call.callee, "primitive")
        raise KindFault(16, f"{call.callee} is not a built-in primitive{hint}", call.span)
    at_root = is_root and builtin.role == position.root
    takes_lists = position.root != "expression" and builtin.role == "list"
    if builtin.role != "primitive" and not at_root and not takes_lists:
        raise KindFault(16, f"{call.callee} is {_PLACES[builtin.role]}", call.span)
    return builtin


def _closest(callee: str, role: str) -> str:
    """The built-in that was perhaps meant by a wrong name."""
    return suggest(callee, [name for name, builtin in BUILTINS.items() if builtin.role == role])


def bind(call: Call, builtin: Builtin) -> Iterator[tuple[Parameter, Expr]]:
    """Each argument with the parameter it goes to.

    Raises:
        KindFault: too few or too many arguments, or a name that takes none.
    """
    for position, argument in enumerate(call.args):
        parameter = builtin.parameter(position)
        if parameter is None:
            raise _arity(call, builtin)
        yield parameter, argument
    given = {p.name for p in builtin.parameters[: len(call.args)]}
    optional = {p.name: p for p in builtin.parameters if p.optional}
    for name, argument in call.keywords:
        if name not in optional:
            listed = ", ".join(optional) or "none"
            raise KindFault(
                16, f"{call.callee} takes no argument by the name {name} ({listed})", argument.span
            )
        if name in given:
            raise KindFault(16, f"{call.callee}: {name} is given twice", argument.span)
        yield optional[name], argument
    required = [p for p in builtin.parameters if not p.optional]
    if len(call.args) < len(required):
        raise _arity(call, builtin)


def _arity(call: Call, builtin: Builtin) -> KindFault:
    listed = ", ".join(f"{p.name}={p.kind}" if p.optional else p.name for p in builtin.parameters)
    more = ", …" if builtin.variadic else ""
    return KindFault(16, f"{call.callee} takes ({listed}{more}), got {_counted(call)}", call.span)


def _counted(call: Call) -> str:
    count = len(call.args) + len(call.keywords)
    return f"{count} argument{'s' * (count != 1)}"


def require_argument(callee: str, parameter: Parameter, argument: Expr, kind: Kind) -> None:
    """Require an argument's kind to fit, and a literal to lie in the domain.

    Raises:
        KindFault: it does not.
    """
    if not _admits(parameter.kind, kind):
        raise KindFault(
            16, f"{callee} needs {parameter.kind} for {parameter.name}, got {kind}", argument.span
        )
    lowest = parameter.at_least
    if lowest is None or not isinstance(argument, Constant) or not isinstance(argument.value, int):
        return
    if argument.value < lowest:
        bound = f"{parameter.name} >= {lowest}" if lowest != 1 else f"{parameter.name} > 0"
        raise KindFault(
            16, f"{callee} needs {bound}, got {parameter.name}={argument.value}", argument.span
        )


def _admits(wanted: Kind, kind: Kind) -> bool:
    """`fits`, but where numbers are wanted not every value is one."""
    if VALUE not in alternatives(wanted):
        return fits(kind, wanted)
    return all(
        is_number(member)
        or (isinstance(member, BoolKind) and BOOL in alternatives(wanted))
        or (isinstance(member, EnumKind | DTypeKind) and _takes_dtype(wanted, member))
        for member in alternatives(kind)
    )


def _takes_dtype(wanted: Kind, kind: Kind) -> bool:
    return any(isinstance(w, DTypeKind) and fits(kind, w) for w in alternatives(wanted))
