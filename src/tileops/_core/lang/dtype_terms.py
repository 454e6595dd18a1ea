"""Dtype expressions: the few forms that may stand as a tensor's element type.

They are a dtype index, a dtype parameter that is never absent, a bare dtype name, and
`promote_int_to_float` and `coalesce_dtype` of these.
"""

from __future__ import annotations

from tileops._core.lang.dtypes import is_registered
from tileops._core.lang.faults import KindFault
from tileops._core.lang.kinds import DTypeKind, Kind, MaybeKind, UnknownKind, payload
from tileops._core.lang.nodes import Call, Constant, Expr, Name
from tileops._core.lang.positions import Position
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.printer import to_text

_FORMS = {"promote_int_to_float": 1, "coalesce_dtype": 2}


def infer_dtype(expr: Expr, position: Position) -> Kind:
    """The dtypes that a dtype expression may stand for.

    Args:
        expr: the expression.
        position: its names are the dtype indices and all parameters.

    Raises:
        KindFault: it is no dtype expression, or may be absent.
    """
    if isinstance(expr, Call):
        return _call(expr, position)
    kind = _leaf(expr, position)
    if isinstance(kind, MaybeKind):
        message = f"{to_text(expr)} may be absent; use coalesce_dtype({to_text(expr)}, …)"
        raise KindFault(17, message, expr.span)
    return kind


def _leaf(expr: Expr, position: Position) -> Kind:
    """The kind of a name, which may be absent."""
    if isinstance(expr, Constant) and isinstance(expr.value, str) and is_registered(expr.value):
        raise KindFault(17, f"a dtype stands unquoted here: {expr.value}", expr.span)
    if not isinstance(expr, Name):
        raise KindFault(17, f"{to_text(expr)} is not a dtype expression", expr.span)
    if is_registered(expr.id):
        return DTypeKind(frozenset({expr.id}))
    kind = position.names(expr.id)
    if kind is None and not position.is_declared(expr.id):
        raise KindFault(14, position.undeclared(expr.id), expr.span)
    if kind is None or not isinstance(payload(kind), DTypeKind | UnknownKind):
        reason = position.barred(expr.id) or f"{expr.id} is {kind or 'no dtype'}, not a dtype"
        raise KindFault(17, reason, expr.span)
    return kind


def _call(expr: Call, position: Position) -> Kind:
    count = _FORMS.get(expr.callee)
    if count is None:
        raise KindFault(17, f"{expr.callee} is not a dtype expression", expr.span)
    if len(expr.args) != count or expr.keywords:
        message = f"{expr.callee} takes {count} positional arguments, got {len(expr.args)}"
        raise KindFault(16, message, expr.span)
    *first, last = expr.args
    kinds = [
        _leaf(argument, position) if isinstance(argument, Name) else infer_dtype(argument, position)
        for argument in first
    ]
    kinds.append(infer_dtype(last, position))
    return BUILTINS[expr.callee].result_kind(kinds)
