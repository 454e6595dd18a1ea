"""Which rows each group has, as a tensor of integers tells it, and the gates of products of groups.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math
from dataclasses import dataclass
from typing import Literal

import tilelang.language as T


def _silu(x):
    return x / (1.0 + T.exp(-x))


def _gelu(x):
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


GATES = {"silu_and_mul": _silu, "gelu_and_mul": _gelu}


@dataclass(frozen=True)
class Groups:
    """How one tensor of integers tells which rows each group has.

    Args:
        kind: it holds the first row of each group, where the groups follow each other without
            gaps; or the row after the last one of each; or, without gaps again, the group of each
            row, never decreasing and the number of groups where a row has none; or how many rows
            each group has, the first ones of its slab.
        alignment: of which the first row of a group given by its end is a multiple; rows of a slab.
        most: number of groups at most, where rows tell theirs: a block holds where each begins.
    """

    kind: Literal["starts", "ends", "owners", "counts"]
    alignment: int = 1
    most: int = 0


def extents(groups: Groups):
    """Makes the functions of a group that give its first row and the one after its last."""

    def first_by_end(places, group, M, G):
        start = T.ceildiv(places[T.max(group - 1, 0)], groups.alignment) * groups.alignment
        return T.if_then_else(group > 0, start, 0)

    def end_by_start(places, group, M, G):
        return T.if_then_else(group + 1 < G, places[T.min(group + 1, G - 1)], M)

    def own(places, group, M, G):
        return places[group]

    def following(edges, group, M, G):
        return edges[group + 1]

    def slab(places, group, M, G):
        return group * groups.alignment

    def end_in_slab(places, group, M, G):
        return group * groups.alignment + places[group]

    return {
        "starts": (own, end_by_start),
        "ends": (first_by_end, own),
        "owners": (own, following),
        "counts": (slab, end_in_slab),
    }[groups.kind]


@T.macro
def search(owners, edges, M, G, thread, threads):
    """Finds where each group begins, and where the last one ends; all threads take part."""
    low = T.alloc_var("int32", init=0)
    high = T.alloc_var("int32", init=0)
    middle = T.alloc_var("int32", init=0)
    for turn in T.serial(T.truncdiv(G - thread + threads, threads)):
        low = 0
        high = M
        while low < high:
            middle = T.truncdiv(low + high, 2)
            if owners[middle] < turn * threads + thread:
                low = middle + 1
            else:
                high = middle
        edges[turn * threads + thread] = low
    T.sync_threads()


def locator(groups: Groups, rows: int):
    """Makes the macro that finds the group of a row of tiles.

    Walks go forth only, so the search goes on where it last ended: at `group`, with `before` rows
    of tiles in the groups before it. The group is `G` past the last tile.
    """
    first, end = extents(groups)

    def tiles(places, group, M, G):
        return T.ceildiv(end(places, group, M, G) - first(places, group, M, G), rows)

    @T.macro
    def locate(row, places, M, G, group: T.Ref, before: T.Ref):
        while group < G and row >= before + tiles(places, T.min(group, G - 1), M, G):
            before += tiles(places, group, M, G)
            group += 1

    return locate
