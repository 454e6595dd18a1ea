"""Syntax trees of the expression language: plain frozen data, equal by structure.

Every node carries the half-open span of the text it was read from. Spans take no part in
equality, so a tree that was printed and parsed again equals the first one.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Union

from tileops._core.lang.declared import dataclass

Span = tuple[int, int]
_NOWHERE: Span = (0, 0)


@dataclass(frozen=True)
class Node:
    """Base of all nodes; `span` is the text range, `(0, 0)` for nodes made by folding."""

    span: Span = field(default=_NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Constant(Node):
    """An integer, float (`inf` included), string, boolean, `None`, or a folded tuple of these.

    Constants of different types differ, though Python holds `1 == True == 1.0`.
    """

    value: int | float | str | bool | tuple[object, ...] | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and _same(self.value, other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


def _same(a: object, b: object) -> bool:
    """Equality of constants and of their types."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and a == b


@dataclass(frozen=True)
class Name(Node):
    """An index, a parameter, a let, a family formal or a comprehension variable."""

    id: str


@dataclass(frozen=True)
class Attribute(Node):
    """`p.kind`, `p.field` or `v.value`; no other attributes exist."""

    base: Expr
    attr: str


@dataclass(frozen=True)
class Subscript(Node):
    """`s[i]`."""

    base: Expr
    index: Expr


@dataclass(frozen=True)
class Slice(Node):
    """`s[i:j:k]` with any bound left out."""

    base: Expr
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True)
class Negate(Node):
    """`-a`."""

    operand: Expr


ArithmeticOp = Literal["+", "-", "*", "//", "%"]


@dataclass(frozen=True)
class Arithmetic(Node):
    """`left op right`."""

    op: ArithmeticOp
    left: Expr
    right: Expr


CompareOp = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


@dataclass(frozen=True)
class Compare(Node):
    """A chain `first ops[0] rest[0] ops[1] rest[1] …`; each operand is evaluated once."""

    first: Expr
    ops: tuple[CompareOp, ...]
    rest: tuple[Expr, ...]


@dataclass(frozen=True)
class Not(Node):
    """`not a`."""

    operand: Expr


@dataclass(frozen=True)
class Logical(Node):
    """`a and b and …` or `a or b or …`, flattened, two operands or more."""

    op: Literal["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class Conditional(Node):
    """`then if test else orelse`."""

    test: Expr
    then: Expr
    orelse: Expr


@dataclass(frozen=True)
class Sequence(Node):
    """A tuple `(a, b)`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Call(Node):
    """A primitive, generator or predicate; `callee` may be dotted (`pool.out`)."""

    callee: str
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Each(Node):
    """`element for variable in source`, the only argument of all, sum, max or min."""

    element: Expr
    variable: str
    source: Expr


@dataclass(frozen=True)
class Present(Node):
    """`present(name)`: whether a tensor, output, `Maybe` parameter or `out` is there."""

    name: str


@dataclass(frozen=True)
class Bytes(Node):
    """`bytes(name)`: the size of a tensor in bytes; roofline formulas only."""

    name: str


Expr = Union[
    Constant, Name, Attribute, Subscript, Slice, Negate, Arithmetic, Compare, Not, Logical,
    Conditional, Sequence, Call, Each, Present, Bytes,
]  # fmt: skip


@dataclass(frozen=True)
class Splice(Node):
    """`*postfix` in a shape: a run of axes."""

    value: Expr


@dataclass(frozen=True)
class ShapeList(Node):
    """`[axis, …]`; `[]` is zero-dimensional."""

    axes: tuple[Expr | Splice, ...]


@dataclass(frozen=True)
class FamilyApplication(Node):
    """`Family[arg, …]` at the root of a shape."""

    family: str
    args: tuple[Expr, ...]


Shape = Union[ShapeList, FamilyApplication]
