"""How the operands of a pointwise function lie relative to its result.

Axes along which all operands advance alike are merged, so that most calls become one axis, and a
broadcast two or three. The layout holds what changes generated code; extents, strides and what
divides by them are run-time numbers of the arrangement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import torch
from torch import Tensor

from tileops._kernels.alignment import BOUNDARY

RANKS = 4
"""Most axes that a program divides its indices into."""
_SMALL = 1 << 31  # indices below it are 32 bits
_NARROW = 4  # times wider accesses are worth the search for single elements
_LARGEST_TILE = 1 << 16  # elements by which the last block may pass the end


@dataclass(frozen=True)
class Layout:
    """What a pointwise program is specialised by.

    Args:
        rank: axes left after merging.
        along: of each operand, whether it advances along the last axis or holds one element there;
            None for an operand that is absent.
        vector: elements of one access.
        wide: whether indices need 64 bits.
        whole: of each operand that is present, whether it lies as the result does. Then accesses
            run on through the ends of rows, and elements of the other operands are found one by
            one. None where no access leaves its row.
    """

    rank: int
    along: tuple[bool | None, ...]
    vector: int
    wide: bool = False
    whole: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class Arrangement:
    """A layout with its run-time numbers.

    Args:
        layout: what is compiled in.
        shape: of the result.
        spans: of each operand that is present, the elements from its first to its last.
        numbers: scalar arguments of the program: for each axis but the first, from the last,
            its extent and the multiplier and shift that divide by it; then for each operand its
            strides on all axes but the last. Both are padded to `RANKS` axes. The last extent and
            the strides of operands that advance along the last axis are in accesses, or in
            elements where accesses leave their rows.
    """

    layout: Layout
    shape: tuple[int, ...]
    spans: tuple[int, ...]
    numbers: tuple[int, ...]


def in_reach(operand: Tensor, shape: Sequence[int]) -> bool:
    """Whether accesses along the last axis of `shape` longer than one find no gaps."""
    if operand.is_contiguous():
        return True
    for back in range(1, len(shape) + 1):
        if shape[-back] != 1:
            inside = back <= operand.dim() and operand.shape[-back] != 1
            return not inside or operand.stride(-back) in (0, 1)
    return True


def arrange(operands: Sequence[Tensor | None], out_bytes: int) -> Arrangement:
    """The arrangement of operands, of which one is present at least.

    An operand out of reach is taken as it would lie in a copy.
    """
    present = [item for item in operands if item is not None]
    shape = present[0].shape
    if len(present) > 1:
        shape = torch.broadcast_shapes(*(item.shape for item in present))
    kinds = [
        (
            tuple(item.shape),
            item.stride() if in_reach(item, shape) else None,
            item.element_size(),
            gcd(item.data_ptr(), BOUNDARY),
        )
        for item in present
    ]
    places = tuple(item is not None for item in operands)
    return _arrange(tuple(shape), tuple(kinds), places, out_bytes)


Kind = tuple[tuple[int, ...], tuple[int, ...] | None, int, int]
"""Shape, strides (None for those of a copy), bytes of an element, alignment of the first."""


@lru_cache(maxsize=4096)
def _arrange(
    shape: tuple[int, ...], kinds: tuple[Kind, ...], places: tuple[bool, ...], out_bytes: int
) -> Arrangement:
    extents, strides = _merged(shape, [_strides_in(shape, kind) for kind in kinds])
    advancing = [steps[-1] != 0 for steps in strides]
    remaining = iter(advancing)
    along = tuple(next(remaining) if present else None for present in places)
    widest = BOUNDARY // max(out_bytes, *(kind[2] for kind in kinds))
    spans = _spans(extents, strides)
    if len(extents) == 1:
        layout = Layout(1, along, widest, extents[0] >= _SMALL - _LARGEST_TILE)
        return Arrangement(layout, shape, spans, ())
    vector = gcd(widest, extents[-1])
    for kind, steps, advances in zip(kinds, strides, advancing, strict=True):
        if advances:
            vector = gcd(vector, BOUNDARY if kind[1] is None else kind[3] // kind[2], *steps[:-1])
    whole = None
    if vector * _NARROW <= widest:
        whole = _whole(extents, strides, kinds)
    unit = vector if whole is None else 1
    wide = max(prod(extents) // unit, *spans) >= _SMALL - _LARGEST_TILE
    numbers = () if len(extents) > RANKS else _numbers(extents, strides, advancing, unit)
    layout = Layout(len(extents), along, widest if whole else vector, wide, whole)
    return Arrangement(layout, shape, spans, numbers)


def _whole(
    extents: Sequence[int], strides: Sequence[Sequence[int]], kinds: Sequence[Kind]
) -> tuple[bool, ...] | None:
    """Whether each operand lies as the result does, on a boundary; None where none does."""
    dense = [prod(extents[axis + 1 :]) for axis in range(len(extents))]
    found = tuple(
        list(steps) == dense and (kind[1] is None or kind[3] == BOUNDARY)
        for kind, steps in zip(kinds, strides, strict=True)
    )
    return found if any(found) else None


def _strides_in(shape: tuple[int, ...], kind: Kind) -> list[int]:
    """The strides of an operand along the result's axes, 0 where it is repeated."""
    sizes, steps = kind[:2]
    if steps is None:
        steps = tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    missing = len(shape) - len(sizes)
    return [0] * missing + [
        0 if size == 1 else step for size, step in zip(sizes, steps, strict=True)
    ]


def _merged(shape: tuple[int, ...], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Axes without those of length 1, neighbours joined where every operand runs through them."""
    extents: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(shape):
        steps = [item[axis] for item in strides]
        if extent == 1:
            continue
        if extents and all(
            item[-1] == step * extent for item, step in zip(kept, steps, strict=True)
        ):
            extents[-1] *= extent
            for item, step in zip(kept, steps, strict=True):
                item[-1] = step
        else:
            extents.append(extent)
            for item, step in zip(kept, steps, strict=True):
                item.append(step)
    if not extents:
        return [1], [[1] for _ in strides]
    return extents, kept


def _spans(extents: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(
        1 + sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True))
        for steps in strides
    )


def _numbers(
    extents: Sequence[int],
    strides: Sequence[Sequence[int]],
    advancing: Sequence[bool],
    vector: int,
) -> tuple[int, ...]:
    found: list[int] = []
    inner = [extents[-1] // vector, *extents[-2:0:-1]]
    for extent in inner:
        found += [extent, *_division(max(extent, 1))]
    found += [1, 0, 0] * (RANKS - 1 - len(inner))
    for steps, advances in zip(strides, advancing, strict=True):
        outer = [step // vector if advances else step for step in steps[:-1]]
        found += outer + [0] * (RANKS - 1 - len(outer))
    return tuple(found)


def _division(divisor: int) -> tuple[int, int]:
    """`(m, k)` such that `i // divisor == i * m >> k` for every `i` of 31 bits."""
    shift = 31 + (divisor - 1).bit_length()
    return -(-(1 << shift) // divisor), shift
