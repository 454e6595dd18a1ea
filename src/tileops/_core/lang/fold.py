"""Folding: replacing what a branch fixes by constants, and simplifying.

Closed parts are evaluated, a conditional with a constant test becomes its arm, `and` with a false
operand and `or` with a true one become constant whatever the order of the operands, and neutral
operands are dropped. What is discarded this way is not evaluated and reads nothing. A closed part
whose evaluation fails stays as it is: it fails where it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tileops._core.lang.evaluate import NoNames, evaluate
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.nodes import (
    Attribute,
    Bytes,
    Call,
    Conditional,
    Constant,
    Each,
    Expr,
    Logical,
    Name,
    Present,
)
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.walk import children, logical, rebuild, walk

Known = Mapping[str, object]
"""What is fixed: a name, or a dotted read such as `layout.kind` or `cap.value`, and its value."""


def fold(expr: Expr, known: Known, presence: Mapping[str, bool]) -> Expr:
    """`expr` with what is fixed replaced by constants, simplified.

    Args:
        expr: the expression.
        known: fixed values; sequences as tuples.
        presence: tensors, outputs, `Maybe` parameters and `out` whose presence is fixed.
    """
    return _Folding(known, presence).fold(expr)


class _Folding:
    """One folding."""

    def __init__(self, known: Known, presence: Mapping[str, bool]) -> None:
        self._known = known
        self._presence = presence

    def fold(self, expr: Expr) -> Expr:
        if isinstance(expr, Name | Attribute):
            path = _path(expr)
            if path is not None and path in self._known:
                return _constant(expr, self._known[path])
        if isinstance(expr, Present):
            fixed = self._presence.get(expr.name)
            return expr if fixed is None else _constant(expr, fixed)
        if isinstance(expr, Conditional):
            return self._conditional(expr)
        if isinstance(expr, Logical):
            return self._logical(expr)
        return _evaluated(rebuild(expr, self.fold))

    def _conditional(self, expr: Conditional) -> Expr:
        test = self.fold(expr.test)
        if isinstance(test, Constant):
            return self.fold(expr.then if test.value else expr.orelse)
        return replace(expr, test=test, then=self.fold(expr.then), orelse=self.fold(expr.orelse))

    def _logical(self, expr: Logical) -> Expr:
        decisive = expr.op == "or"
        operands = [self.fold(operand) for operand in expr.operands]
        open_operands = [operand for operand in operands if not isinstance(operand, Constant)]
        if Constant(decisive) in operands:
            return _constant(expr, decisive)
        if not open_operands:
            return _constant(expr, not decisive)
        return logical(expr.op, open_operands, expr.span)


def _path(expr: Expr) -> str | None:
    """The dotted text of a read, if it is one."""
    names: list[str] = []
    while isinstance(expr, Attribute):
        names.append(expr.attr)
        expr = expr.base
    return ".".join([expr.id, *reversed(names)]) if isinstance(expr, Name) else None


def _constant(expr: Expr, value: object) -> Constant:
    return Constant(_frozen(value), span=expr.span)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value


def _evaluated(expr: Expr) -> Expr:
    """The constant that a closed expression stands for, if it can be evaluated."""
    if isinstance(expr, Constant | Each) or not _is_closed(expr):
        return expr
    try:
        value = evaluate(expr, NoNames())
    except EvaluationFault:
        return expr
    is_nan = isinstance(value, float) and math.isnan(value)
    return expr if is_nan else _constant(expr, value)


def _is_closed(expr: Expr) -> bool:
    """Whether nothing is left to read; only primitives are evaluated."""
    if isinstance(expr, Name | Present | Bytes):
        return False
    if isinstance(expr, Call) and not _is_primitive(expr):
        return False
    return all(
        isinstance(child, Constant) or (isinstance(child, Each) and _is_closed_form(child))
        for child in children(expr)
    )


def _is_closed_form(form: Each) -> bool:
    """Whether a `for` form reads its variable and nothing else."""
    variables = {node.variable for node in walk(form) if isinstance(node, Each)}
    return all(
        node.id in variables if isinstance(node, Name) else _may_be_evaluated(node)
        for node in walk(form)
    )


def _may_be_evaluated(node: object) -> bool:
    if isinstance(node, Call):
        return _is_primitive(node)
    return not isinstance(node, Present | Bytes)


def _is_primitive(call: Call) -> bool:
    builtin = BUILTINS.get(call.callee)
    return builtin is not None and builtin.role == "primitive"
