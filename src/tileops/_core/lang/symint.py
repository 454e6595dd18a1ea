"""Which expressions cannot be evaluated on symbolic sizes.

A call-time size is an index solved from an input, or anything computed from one; the number of
items of a sequence is none. Such a size may not be a subscript or a slice bound, order sequences,
choose between arms that are not both integers or both truth values, or go where a primitive needs
a value known at construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileops._core.lang.faults import KindFault
from tileops._core.lang.infer import kinds_of
from tileops._core.lang.kinds import BOOL, Kind, SeqKind, alternatives, is_integer
from tileops._core.lang.nodes import (
    Bytes,
    Call,
    Compare,
    Conditional,
    Each,
    Expr,
    Name,
    Node,
    Slice,
    Subscript,
)
from tileops._core.lang.positions import Position
from tileops._core.lang.primitives.table import BUILTINS
from tileops._core.lang.printer import to_text
from tileops._core.lang.walk import children

_ORDERINGS = frozenset({"<", "<=", ">", ">="})


def obstacles(
    expr: Expr, position: Position, is_size: Callable[[str], bool]
) -> tuple[KindFault, ...]:
    """What keeps `expr` from being evaluated on symbolic sizes.

    Args:
        expr: an expression without faults of kind.
        position: what it may read.
        is_size: whether a name is a call-time size, or a sequence of them.
    """
    search = _Search(kinds_of(expr, position), is_size)
    search.is_size(expr, frozenset())
    return tuple(search.found)


class _Search:
    """One pass over a tree."""

    def __init__(self, kinds: Mapping[int, Kind], is_size: Callable[[str], bool]) -> None:
        self._kinds = kinds
        self._is_size_name = is_size
        self.found: list[KindFault] = []

    def is_size(self, node: Node, variables: frozenset[str]) -> bool:
        """Whether a node is computed from a size; records what must not be."""
        if isinstance(node, Name):
            return node.id in variables or self._is_size_name(node.id)
        if isinstance(node, Each):
            source = self.is_size(node.source, variables)
            inner = variables | {node.variable} if source else variables
            return self.is_size(node.element, inner) or source
        below = [(child, self.is_size(child, variables)) for child in children(node)]
        sizes = [child for child, is_size in below if is_size]
        if sizes:
            self._judge(node, sizes)
        return isinstance(node, Bytes) or (bool(sizes) and not _counts(node))

    def _judge(self, node: Node, sizes: list[Node]) -> None:
        """Record a fault if a size below `node` stands where none may."""
        if isinstance(node, Subscript) and any(size is node.index for size in sizes):
            self._refuse(node, "a call-time size is no subscript")
        elif isinstance(node, Slice) and any(size is not node.base for size in sizes):
            self._refuse(node, "a call-time size is no slice bound")
        elif isinstance(node, Compare) and self._orders_sequences(node):
            self._refuse(node, "sequences of call-time sizes are not ordered")
        elif isinstance(node, Conditional) and any(size is node.test for size in sizes):
            if not self._is_plain_choice(node):
                self._refuse(node, "a call-time size chooses between integers or truth values only")
        elif isinstance(node, Call):
            self._judge_arguments(node, sizes)

    def _judge_arguments(self, node: Call, sizes: list[Node]) -> None:
        builtin = BUILTINS[node.callee]
        for place, argument in enumerate(node.args):
            parameter = builtin.parameter(place)
            is_size = any(size is argument for size in sizes)
            if parameter is not None and parameter.construction and is_size:
                self._refuse(node, f"{parameter.name} must be known at construction")

    def _orders_sequences(self, node: Compare) -> bool:
        kind = self._kinds.get(id(node.first))
        is_sequence = kind is not None and any(isinstance(k, SeqKind) for k in alternatives(kind))
        return is_sequence and not _ORDERINGS.isdisjoint(node.ops)

    def _is_plain_choice(self, node: Conditional) -> bool:
        arms = [self._kinds.get(id(arm)) for arm in (node.then, node.orelse)]
        kinds = [kind for kind in arms if kind is not None]
        if len(kinds) < len(arms):
            return False
        return all(map(is_integer, kinds)) or all(kind == BOOL for kind in kinds)

    def _refuse(self, node: Expr, message: str) -> None:
        fault = f"{to_text(node)} is not evaluable on SymInt: {message}"
        self.found.append(KindFault(34, fault, node.span))


def _counts(node: Node) -> bool:
    """Whether a node yields the number of items of its operand."""
    return isinstance(node, Call) and node.callee == "len"
