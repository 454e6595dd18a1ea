"""Questions about an expression that decide how it is printed.

Each answer errs on the safe side: "maybe" counts as yes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tileops._core.lang.kinds import Kind, MaybeKind, SeqKind, alternatives
from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Conditional,
    Constant,
    Expr,
    Name,
    Negate,
    Node,
    Sequence,
    Slice,
    Subscript,
)
from tileops._core.lang.walk import children, walk

PYTHON_RESULTS = frozenset({"len", "category", "promote_int_to_float", "coalesce_dtype"})
"""Primitives whose result is an ordinary Python value, whatever their arguments are."""

_SEQUENCE_RESULTS = frozenset({"broadcast", "reduced"})
_TOTAL = PYTHON_RESULTS | {"prod", "sum", "all", "valid_axes", "representable"}
_ORDER = frozenset({"<", "<=", ">", ">="})


class Knowledge(Protocol):
    """What is known of the names in an expression."""

    def kind(self, name: str) -> Kind | None:
        """The declared kind of an index or a parameter."""

    def let(self, name: str) -> Expr | None:
        """The definition of a let."""

    def is_opaque(self, name: str) -> bool:
        """Whether a parameter may hold an object on which operators fail."""


def depends_on_size(expr: Expr, is_symbolic: Callable[[str], bool]) -> bool:
    """Whether the value may be symbolic under tracing, or a sequence of symbolic values."""
    pending: list[Node] = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Name) and is_symbolic(node.id):
            return True
        if not (isinstance(node, Call) and node.callee in PYTHON_RESULTS):
            pending.extend(children(node))
    return False


def may_be_sequence(expr: Expr, known: Knowledge) -> bool:
    """Whether the value may be a tuple or a list."""
    if isinstance(expr, Sequence | Slice):
        return True
    if isinstance(expr, Constant):
        return isinstance(expr.value, tuple)
    if isinstance(expr, Conditional):
        return may_be_sequence(expr.then, known) or may_be_sequence(expr.orelse, known)
    if isinstance(expr, Call):
        return expr.callee in _SEQUENCE_RESULTS
    name = payload(expr)
    if name is None:
        return False
    definition = known.let(name)
    if definition is not None:
        return may_be_sequence(definition, known)
    kind = known.kind(name)
    inner = kind.inner if isinstance(kind, MaybeKind) else kind
    return inner is not None and any(isinstance(k, SeqKind) for k in alternatives(inner))


def may_fail(expr: Expr, known: Knowledge) -> bool:
    """Whether evaluation may raise: a zero divisor, a subscript, the domain of a primitive."""
    return any(_node_may_fail(node, known) for node in walk(expr))


def _node_may_fail(node: Node, known: Knowledge) -> bool:
    if isinstance(node, Arithmetic):
        divides = node.op in ("//", "%")
        safe = isinstance(node.right, Constant) and bool(node.right.value)
        return (divides and not safe) or _any_opaque((node.left, node.right), known)
    if isinstance(node, Compare):
        operands = (node.first, *node.rest)
        return not _ORDER.isdisjoint(node.ops) and _any_opaque(operands, known)
    if isinstance(node, Negate):
        return _any_opaque((node.operand,), known)
    if isinstance(node, Call):
        return node.callee not in _TOTAL
    return isinstance(node, Subscript)


def _any_opaque(operands: tuple[Expr, ...], known: Knowledge) -> bool:
    names = (payload(operand) for operand in operands)
    return any(name is not None and known.is_opaque(name) for name in names)


def payload(expr: Expr) -> str | None:
    """`v` for the expressions `v` and `v.value`."""
    if isinstance(expr, Attribute) and expr.attr == "value":
        expr = expr.base
    return expr.id if isinstance(expr, Name) else None
