"""Rows of grouped experts: how many there are, and the metadata that describes them.

A layout is a value of the algebraic type `MGroupedLayout`: `masked` with `max_m` rows per expert,
or `contiguous` with `packing` `"tight"` or `"aligned"` to `alignment` rows, described per row
(`metadata_kind` `"per_row"`) or by the end of each expert (`"physical_psum"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import cast

from tileops._core.lang.limits import check_items
from tileops._core.lang.primitives.contents import Contents, vector
from tileops._core.lang.primitives.domain import non_negative, positive
from tileops._core.lang.primitives.lists import balanced_sizes
from tileops._core.lang.primitives.sizes import ceil_div
from tileops._core.lang.primitives.symbolic import minimum
from tileops._core.lang.values import read_field, shown


def capacity(layout: object, rows: int, experts: int) -> int:
    """The most physical rows that `rows` rows of `experts` experts may take.

    Raises:
        ValueError: `rows` or `experts` is negative.
    """
    non_negative("moe.capacity", rows=rows, experts=experts)
    if _is_masked(layout):
        return experts * _number(layout, "max_m")
    if read_field(layout, "packing") == "tight":
        return rows
    a = _number(layout, "alignment")
    worst: int = (rows + minimum(rows, experts) * (a - 1)) // a * a
    return worst


def layout_metadata(layout: object, rows: int, experts: int) -> Contents:
    """The metadata of `rows` physical rows shared evenly among `experts`.

    Raises:
        ValueError: `experts` is not above 0, `rows` is negative, not `experts * max_m` for a
            masked layout, no multiple of the alignment for an aligned one, or too many items.
    """
    positive("moe.layout_metadata", experts=experts)
    non_negative("moe.layout_metadata", rows=rows)
    check_items("moe.layout_metadata", max(rows, experts))
    if _is_masked(layout):
        return vector(_masked(_number(layout, "max_m"), rows, experts))
    a = _tile(layout)
    if rows % a:
        raise ValueError(
            f"moe.layout_metadata needs rows to be a multiple of {shown(a)}, got rows={shown(rows)}"
        )
    tiles = balanced_sizes(rows // a, experts)
    if read_field(layout, "metadata_kind") == "per_row":
        return vector([expert for expert, count in enumerate(tiles) for _ in range(a * count)])
    starts = accumulate(tiles, initial=0)
    slack = a // 2
    return vector(
        [
            a * start + (a * count - slack if count else 0)
            for start, count in zip(starts, tiles, strict=False)
        ]
    )


def _masked(max_m: int, rows: int, experts: int) -> list[int]:
    """Full and half full experts in turn."""
    if rows != experts * max_m:
        raise ValueError(
            f"moe.layout_metadata needs rows = experts * {shown(max_m)}, got rows={shown(rows)}, "
            f"experts={shown(experts)}"
        )
    return [max_m // 2 if expert % 2 else max_m for expert in range(experts)]


def layout_valid(x: Sequence[int], layout: object, rows: int, experts: int) -> bool:
    """`x` describes `rows` physical rows of `experts` experts in this layout.

    Raises:
        ValueError: `rows` or `experts` is negative.
    """
    non_negative("moe.layout_valid", rows=rows, experts=experts)
    if _is_masked(layout):
        bound = _number(layout, "max_m")
        return len(x) == experts and all(0 <= item <= bound for item in x)
    a = _tile(layout)
    is_tight = read_field(layout, "packing") == "tight"
    if read_field(layout, "metadata_kind") == "physical_psum":
        return len(x) == experts and _valid_ends(x, rows, a, is_tight)
    highest = experts - 1 if is_tight else experts
    return (
        len(x) == rows
        and all(0 <= item <= highest for item in x)
        and all(p <= q for p, q in pairwise(x))
        and all(place % a == 0 for place, (p, q) in enumerate(pairwise(x), 1) if p != q)
    )


def _valid_ends(x: Sequence[int], rows: int, a: int, is_tight: bool) -> bool:
    """Each expert ends at or after the first tile boundary that follows the one before."""
    starts = [0, *(ceil_div(end, a) * a for end in x[:-1])]
    ordered = all(start <= end for start, end in zip(starts, x, strict=False))
    last = x[-1] if x else rows
    return ordered and (last == rows if is_tight else last <= rows)


def _is_masked(layout: object) -> bool:
    return read_field(layout, "kind") == "masked"


def _tile(layout: object) -> int:
    """Rows that an expert's share is a multiple of."""
    return 1 if read_field(layout, "packing") == "tight" else _number(layout, "alignment")


def _number(layout: object, name: str) -> int:
    return cast("int", read_field(layout, name))
