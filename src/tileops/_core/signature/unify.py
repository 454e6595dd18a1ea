"""The forms of one axis that a call can solve, and the place where an axis stands.

Pure functions over folded expressions. An axis is solvable when it is affine in exactly one
unknown `Dim` index with a positive constant factor; everything else can only be compared. Which
names are known is the caller's matter and enters as a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tileops._core.lang.declared import dataclass
from tileops._core.lang.nodes import Arithmetic, Constant, Expr, Name, Negate, Splice
from tileops._core.signature.plan import Position

Part = Expr | Splice
"""One element of a shape: a single axis, or a run of axes."""


def value_of(part: Part) -> Expr:
    """The expression of a single axis, or of the sequence that a run of axes is."""
    return part.value if isinstance(part, Splice) else part


Known = Callable[[Expr], bool]
"""Whether every name that an expression reads has a value."""


@dataclass(frozen=True)
class Affine:
    """`scale * index + offset`, with `scale` positive and `offset` over known names."""

    index: str
    scale: int
    offset: Expr | None


def affine(axis: Expr, unknown: Callable[[str], bool], known: Known) -> Affine | None:
    """Read an axis as affine in one unknown `Dim` index.

    Args:
        axis: the folded axis.
        unknown: whether a name is a `Dim` index without a value.
        known: whether an expression has a value.

    Returns:
        The affine form, or None when the axis has another form.
    """
    if isinstance(axis, Name):
        return Affine(axis.id, 1, None) if unknown(axis.id) else None
    if not isinstance(axis, Arithmetic):
        return None
    if axis.op == "*":
        return _product(axis, unknown, known)
    if axis.op in {"+", "-"}:
        return _shifted(axis, unknown, known)
    return None


def _product(axis: Arithmetic, unknown: Callable[[str], bool], known: Known) -> Affine | None:
    for factor, rest in ((axis.left, axis.right), (axis.right, axis.left)):
        scale = positive_constant(factor)
        inner = affine(rest, unknown, known) if scale else None
        if scale and inner:
            offset = inner.offset and _times(scale, inner.offset)
            return Affine(inner.index, scale * inner.scale, offset)
    return None


def _shifted(axis: Arithmetic, unknown: Callable[[str], bool], known: Known) -> Affine | None:
    if known(axis.right):
        inner = affine(axis.left, unknown, known)
        if inner:
            return Affine(inner.index, inner.scale, _plus(inner.offset, axis.op, axis.right))
    if axis.op == "+" and known(axis.left):
        inner = affine(axis.right, unknown, known)
        if inner:
            return Affine(inner.index, inner.scale, _plus(inner.offset, "+", axis.left))
    return None


def positive_constant(expr: Expr) -> int | None:
    """The value of a positive integer constant, else None."""
    value = expr.value if isinstance(expr, Constant) else None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def _times(scale: int, expr: Expr) -> Expr:
    if scale == 1:
        return expr
    if isinstance(expr, Constant) and isinstance(expr.value, int):
        return Constant(scale * expr.value)
    return Arithmetic("*", Constant(scale), expr)


def _plus(offset: Expr | None, op: str, term: Expr) -> Expr | None:
    sign = 1 if op == "+" else -1
    constant = term.value if isinstance(term, Constant) else None
    if isinstance(constant, int) and (offset is None or isinstance(offset, Constant)):
        before = offset.value if isinstance(offset, Constant) else 0
        total = cast("int", before) + sign * constant
        return Constant(total) if total else None
    if offset is None:
        return term if op == "+" else Negate(term)
    return Arithmetic("+" if op == "+" else "-", offset, term)


def locate(parts: Sequence[Part], place: int, known: Known) -> Position | None:
    """Where an element stands: counted from the side with fewer runs, from the left in a tie.

    Args:
        parts: the folded elements of the shape.
        place: which of them.
        known: whether an expression, hence the length of a splice, has a value.
    """
    sides = from_left(parts[:place], known), from_right(parts[place + 1 :], known)
    located = [position for position in sides if position is not None]
    return min(located, key=lambda position: len(position.splices), default=None)


def from_left(before: Sequence[Part], known: Known) -> Position | None:
    """The place after the elements `before`, if the length of each is known."""
    splices = tuple(part.value for part in before if isinstance(part, Splice))
    if not all(map(known, splices)):
        return None
    return Position("left", len(before) - len(splices), splices)


def from_right(after: Sequence[Part], known: Known) -> Position | None:
    """The place before the elements `after`, if the length of each is known."""
    splices = tuple(part.value for part in after if isinstance(part, Splice))
    if not all(map(known, splices)):
        return None
    return Position("right", len(after) - len(splices), splices)
