"""Parts of an expression that are made of literals alone, and fail whenever they are reached."""

from __future__ import annotations

from math import prod
from typing import cast

from tileops._core.lang.evaluate import NoNames, evaluate, generate
from tileops._core.lang.faults import EvaluationFault, KindFault
from tileops._core.lang.fold import fold
from tileops._core.lang.nodes import Bytes, Call, Constant, Each, Expr, Name, Node, Present
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.walk import walk

_MOST_ITEMS = 1 << 16
"""Items beyond which a list or metadata is left to the rows, which need it anyway."""


def literal_fault(expr: Expr) -> KindFault | None:
    """Why a part made of literals alone has no value, for the first that has none and is kept."""
    nodes = cast("list[Expr]", list(walk(fold(expr, {}, {}))))
    for node in reversed(nodes):
        if isinstance(node, Constant | Each) or not _is_literal(node) or _is_long(node):
            continue
        try:
            _run(node)
        except EvaluationFault as fault:
            return KindFault(16 if isinstance(node, Call) else 29, fault.message, fault.span)
    return None


def _is_literal(node: Expr) -> bool:
    """Whether a tree has no name in it but the variables of its own `for` forms."""
    below = list(walk(node))
    variables = {each.variable for each in below if isinstance(each, Each)}
    return all(
        each.id in variables if isinstance(each, Name) else _has_value(each) for each in below
    )


def _has_value(node: Node) -> bool:
    """Whether a node can be evaluated without anything that a call brings."""
    if isinstance(node, Call):
        builtin = BUILTINS.get(node.callee)
        return builtin is not None and builtin.role != "predicate"
    return not isinstance(node, Present | Bytes)


def _is_long(node: Expr) -> bool:
    """Whether a literal tree makes a list or metadata that may be long."""
    calls = [each for each in walk(node) if isinstance(each, Call)]
    if all(BUILTINS[call.callee].role == "primitive" for call in calls):
        return False
    literals = [each.value for each in walk(node) if isinstance(each, Constant)]
    return prod(abs(n) for n in literals if isinstance(n, int) and n) > _MOST_ITEMS


def _run(node: Expr) -> None:
    if isinstance(node, Call) and BUILTINS[node.callee].role == "generator":
        generate(node, NoNames(), node.callee)
    else:
        evaluate(node, NoNames())
