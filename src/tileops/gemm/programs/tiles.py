"""The walk of a grid over the tiles of a product, and the way of a tile from registers to memory.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops.gemm.programs.ring import (
    PANEL,
    PRODUCER_REGISTERS,
    ROWS,
    WARP,
    WARPGROUP,
    Tiling,
    part_of,
)

STORE_BARRIER = 8  # first of the named barriers that warpgroups use for themselves


@T.macro
def locate(index, rows, columns, group, bm: T.Ref, bn: T.Ref):
    """The tile at a place of the walk: groups of tile rows, each walked column by column."""
    first = T.alloc_var("int32")
    height = T.alloc_var("int32")
    first = T.truncdiv(index, group * columns) * group
    height = T.min(group, rows - first)
    bm = index - first * columns
    bn = T.truncdiv(bm, height)
    bm = first + bm - bn * height


def walk(tiling: Tiling, blocks: int, produce, *, batched: bool = False):
    """Makes the macros by which a block visits its next tile, and by which its warp feeds them all.

    Clusters walk the tiles of a grid of at most `blocks` blocks, whose tiles lie one above the
    other; `produce` copies the steps of a tile. Tiles of a batch follow those of the item before.
    """
    cluster = tiling.cluster
    walkers = blocks // cluster

    @T.macro
    def visit(turn, block, rows, columns, item: T.Ref, bm: T.Ref, bn: T.Ref):
        index = T.alloc_var("int32")
        index = turn * walkers + block // cluster
        if batched:
            item = T.truncdiv(index, rows * columns)
            index = index - item * rows * columns
        locate(index, rows, columns, tiling.group, bm, bn)
        bm = bm * cluster + block % cluster

    @T.macro
    def feed(
        A, B, As, Bs, full, empty, turns, block, rows, columns, steps, thread,
        item: T.Ref, bm: T.Ref, bn: T.Ref, slot: T.Ref, phase: T.Ref,
    ):  # fmt: skip
        T.dec_max_nreg(PRODUCER_REGISTERS)
        if thread < tiling.warpgroups * WARPGROUP + WARP:
            for turn in T.serial(turns):
                visit(turn, block, rows, columns, item, bm, bn)
                top, left = bm * tiling.rows, bn * tiling.columns
                produce(A, B, As, Bs, full, empty, 0, steps, top, left, slot, phase, item=item)

    return visit, feed


def panel(tiling: Tiling) -> int:
    """Columns of a tile that leave in one store."""
    return min(PANEL, tiling.columns)


def writer(tiling: Tiling):
    """Makes the macro by which each warpgroup stores its rows of a tile, a panel at a time.

    Two buffers of a panel alternate, so that a store is read while the next panel is filled, and
    the last ones while the next tile is multiplied. Where a tile's columns are no multiple of a
    panel's, the last panel begins within the one before it and stores some columns again.
    """
    width = panel(tiling)
    panels = -(-tiling.columns // width)
    firsts = [min(p * width, tiling.columns - width) for p in range(panels)]

    @T.macro
    def write(acc, Ds, D, item, bm, bn, thread):
        part = thread // WARPGROUP
        top = bm * tiling.rows + part * ROWS
        for p, first in tuple(enumerate(firsts)):
            # With an odd number of panels, a tile begins with the buffer that the last one used.
            if T.shuffle_elect(WARPGROUP):
                T.tma_store_wait(0 if p == 0 and panels % 2 else 1)
            T.sync_threads(STORE_BARRIER + part, WARPGROUP)
            for i, j in T.Parallel(tiling.rows, width):
                Ds[p % 2, i, j] = acc[i, first + j]
            T.fence_proxy_async()
            T.sync_threads(STORE_BARRIER + part, WARPGROUP)
            left = bn * tiling.columns + first
            T.tma_copy(
                Ds[p % 2, part * ROWS : (part + 1) * ROWS, :],
                part_of(D, item, slice(top, top + ROWS), slice(left, left + width)),
                leader_scope_threads=WARPGROUP,
            )

    return write
