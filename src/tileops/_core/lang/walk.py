"""Going through trees without recursion, and rebuilding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar, cast, get_args

from tileops._core.lang.nodes import Expr, Logical, Node, Shape, Span, Splice

N = TypeVar("N", bound=Node)

_NODE_CLASSES = (*get_args(Expr), *get_args(Shape), Splice)
_FIELDS: dict[type[Node], tuple[str, ...]] = {
    cls: tuple(field.name for field in fields(cls) if "Expr" in str(field.type))
    for cls in _NODE_CLASSES
}
"""The fields of each node class that may hold nodes, as their annotations say."""


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`, in the order of its fields."""
    found: list[Node] = []
    for name in _FIELDS[type(node)]:
        _collect(getattr(node, name), found)
    return tuple(found)


def _collect(value: object, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)


def walk(root: Expr | Shape | Splice) -> Iterator[Node]:
    """Every node of a tree, each before those below it."""
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def rebuild(node: N, change: Callable[[Expr], Expr]) -> N:
    """`node` with `change` applied to each node directly below it; itself when nothing changed."""
    changed: dict[str, Any] = {}
    for name in _FIELDS[type(node)]:
        old = getattr(node, name)
        new = _changed(old, change)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def _changed(value: object, change: Callable[[Expr], Expr]) -> object:
    if isinstance(value, Node):
        return change(cast("Expr", value))
    if isinstance(value, tuple):
        items = tuple(_changed(item, change) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def logical(op: Literal["and", "or"], operands: Sequence[Expr], span: Span) -> Expr:
    """`a op b op …`, flat; the operand itself when there is but one."""
    if len(operands) == 1:
        return operands[0]
    flat: list[Expr] = []
    for operand in operands:
        if isinstance(operand, Logical) and operand.op == op:
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return Logical(op, tuple(flat), span=span)


def deepest(root: Expr | Shape, limit: int) -> Node | None:
    """A node more than `limit` levels below the root, if there is one."""
    level: list[Node] = [root]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return None
    return level[0]
