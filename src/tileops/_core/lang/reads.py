"""What a tree reads: names, presences, sizes in bytes, payloads and fields."""

from __future__ import annotations

from typing import NamedTuple

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import (
    Attribute,
    Bytes,
    Each,
    Expr,
    Name,
    Node,
    Present,
    Shape,
    Span,
    Splice,
)
from tileops._core.lang.walk import children


class PayloadRead(NamedTuple):
    """`name.value`."""

    name: str
    span: Span


class FieldRead(NamedTuple):
    """`name.field`, or `name.value.field` of a parameter that may be absent."""

    name: str
    field: str
    span: Span


@dataclass(frozen=True)
class Reads:
    """What a tree reads, each name once and in the order of the text.

    Args:
        names: values of declared names; variables of `for` forms are none.
        presences: what `present` tests.
        sizes: what `bytes` measures.
        payloads: reads of values that may be absent.
        fields: reads of fields of algebraic values, `kind` excepted.
    """

    names: tuple[str, ...]
    presences: tuple[str, ...]
    sizes: tuple[str, ...]
    payloads: tuple[PayloadRead, ...]
    fields: tuple[FieldRead, ...]


def read_name(expr: Expr) -> str | None:
    """The name that `v` or `v.value` reads; None for any other expression."""
    if isinstance(expr, Attribute) and expr.attr == "value":
        expr = expr.base
    return expr.id if isinstance(expr, Name) else None


def reads(root: Expr | Shape | Splice) -> Reads:
    """What `root` reads."""
    names: dict[str, None] = {}
    presences: dict[str, None] = {}
    sizes: dict[str, None] = {}
    payloads: list[PayloadRead] = []
    fields: list[FieldRead] = []
    pending: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while pending:
        node, variables = pending.pop()
        if isinstance(node, Name) and node.id not in variables:
            names[node.id] = None
        elif isinstance(node, Present):
            presences[node.name] = None
        elif isinstance(node, Bytes):
            sizes[node.name] = None
        elif isinstance(node, Attribute):
            owner = node.base.base if isinstance(node.base, Attribute) else node.base
            if isinstance(owner, Name) and node.attr == "value":
                payloads.append(PayloadRead(owner.id, node.span))
            elif isinstance(owner, Name) and node.attr != "kind":
                fields.append(FieldRead(owner.id, node.attr, node.span))
        if isinstance(node, Each):
            variables |= {node.variable}
        pending.extend((child, variables) for child in reversed(children(node)))
    return Reads(tuple(names), tuple(presences), tuple(sizes), tuple(payloads), tuple(fields))
