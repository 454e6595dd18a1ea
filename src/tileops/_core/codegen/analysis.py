"""Questions about an expression that decide how it is printed.

Each answer errs on the safe side: "maybe" counts as yes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tileops._core.lang.kinds import (
    DIM,
    SHAPE,
    BoolKind,
    Kind,
    SeqKind,
    ValueKind,
    alternatives,
    payload,
)
from tileops._core.lang.nodes import (
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Expr,
    Logical,
    Name,
    Negate,
    Node,
    Not,
    Present,
    Sequence,
    Slice,
    Subscript,
)
from tileops._core.lang.reads import read_name
from tileops._core.lang.walk import children, walk

PYTHON_RESULTS = frozenset({"len", "category", "promote_int_to_float", "coalesce_dtype"})
"""Primitives whose result is an ordinary Python value, whatever their arguments are."""

_SEQUENCE_RESULTS = frozenset({"broadcast", "reduced"})
_TRUTH_RESULTS = frozenset({"all", "valid_axes", "unique_axes", "representable"})
_TOTAL = PYTHON_RESULTS | {"sum", "all", "valid_axes", "representable"}
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
    name = read_name(expr)
    if name is None:
        return False
    definition = known.let(name)
    if definition is not None:
        return may_be_sequence(definition, known)
    kind = known.kind(name)
    return kind is not None and any(isinstance(k, SeqKind) for k in _kinds(kind))


def may_be_truth(expr: Expr, known: Knowledge) -> bool:
    """Whether the value may be a truth value."""
    if isinstance(expr, Compare | Not | Logical | Present):
        return True
    if isinstance(expr, Constant):
        return isinstance(expr.value, bool)
    if isinstance(expr, Conditional):
        return may_be_truth(expr.then, known)
    if isinstance(expr, Call):
        return expr.callee in _TRUTH_RESULTS
    if isinstance(expr, Subscript) and isinstance(expr.base, Sequence):
        return any(may_be_truth(item, known) for item in expr.base.items)
    name = read_name(expr)
    if name is None:
        return False
    definition = known.let(name)
    if definition is not None:
        return may_be_truth(definition, known)
    kind = known.kind(name)
    return kind is not None and any(isinstance(k, BoolKind) for k in _kinds(kind))


def may_fail(expr: Expr, known: Knowledge) -> bool:
    """Whether evaluation may raise: a divisor or step of 0, a subscript, a primitive's domain."""
    return any(_node_may_fail(node, known) for node in walk(expr))


def _node_may_fail(node: Node, known: Knowledge) -> bool:
    if isinstance(node, Arithmetic):
        divides = node.op in ("//", "%")
        safe = isinstance(node.right, Constant) and bool(node.right.value)
        sides = (node.left, node.right)
        return (divides and not safe) or _any_opaque(sides, known) or _any_real(sides, known)
    if isinstance(node, Compare):
        operands = (node.first, *node.rest)
        return not _ORDER.isdisjoint(node.ops) and _any_opaque(operands, known)
    if isinstance(node, Negate):
        return _any_opaque((node.operand,), known)
    if isinstance(node, Call):
        is_total = node.callee in _TOTAL or (node.callee == "prod" and _of_sizes(node, known))
        return not is_total
    if isinstance(node, Slice):
        return not (node.step is None or (isinstance(node.step, Constant) and node.step.value))
    return isinstance(node, Subscript)


def _any_opaque(operands: tuple[Expr, ...], known: Knowledge) -> bool:
    names = (read_name(operand) for operand in operands)
    return any(name is not None and known.is_opaque(name) for name in names)


def _any_real(operands: tuple[Expr, ...], known: Knowledge) -> bool:
    """Whether an operand may be a float, with which a large integer cannot be combined."""
    for node in (node for operand in operands for node in walk(operand)):
        if isinstance(node, Constant) and isinstance(node.value, float):
            return True
        kind = known.kind(node.id) if isinstance(node, Name) else None
        if kind is not None and any(isinstance(k, ValueKind) for k in _kinds(kind)):
            return True
    return False


def _of_sizes(call: Call, known: Knowledge) -> bool:
    """Whether a call goes over lengths of tensors alone, whose product is never too large."""
    nodes = [node for argument in call.args for node in walk(argument)]
    read = [known.kind(node.id) for node in nodes if isinstance(node, Name)]
    computed = any(isinstance(node, Arithmetic | Call) for node in nodes)
    return not computed and all(kind in (DIM, SHAPE) for kind in read)


def _kinds(kind: Kind) -> Iterable[Kind]:
    return alternatives(payload(kind))
