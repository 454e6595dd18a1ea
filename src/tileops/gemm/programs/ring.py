"""The ring of buffers between a warp that copies operands and the warpgroups that multiply them.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

UNIT = 8
"""16-bit elements of 16 bytes: what the copy engine asks of every row pitch."""
WARP, WARPGROUP = 32, 128
WARPS = WARPGROUP // WARP
ROWS = 64
"""Rows of a tile that one warpgroup multiplies."""
PANEL = 64
"""Columns of a swizzled tile that lie together, hence of one store."""
PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = {1: 240, 2: 232, 3: 160}
"""By number of warpgroups that multiply."""


@dataclass(frozen=True)
class Tiling:
    """How a product is cut up.

    Args:
        rows: rows of a tile, `64 * stack` for each warpgroup that multiplies.
        columns: columns of a tile, a multiple of 8.
        depth: depth of one step along K, a multiple of 64.
        stages: buffers of the ring between copying and multiplying.
        group: tile rows that neighbouring blocks share, so that operands meet in the L2 cache.
        cluster: blocks, one above the other, that share each copy of their part of B.
        stack: products of 64 rows that a warpgroup makes of each step.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    group: int = 8
    cluster: int = 1
    stack: int = 1

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // (ROWS * self.stack)


@T.macro
def advance(slot: T.Ref, phase: T.Ref, stages):
    """Goes to the next buffer of the ring; the phase changes with every round."""
    slot += 1
    if slot == stages:
        slot = 0
        phase = 1 - phase


def part_of(X, item, rows, columns):
    """Part of a matrix, or of matrix `item` where `X` holds several."""
    return X[rows, columns] if len(X.shape) == 2 else X[item, rows, columns]


def _step_of(X, item, k, depth, i, extent, k_first):
    """What one step of one tile reads of an operand."""
    along, across = slice(k, k + depth), slice(i, i + extent)
    return part_of(X, item, along, across) if k_first else part_of(X, item, across, along)


def producer(tiling: Tiling, trans_a: bool, trans_b: bool):
    """Makes the macro by which one warp copies steps of a tile, from `first` on, into the ring.

    The tile begins at row `top` of `op(A)` and column `left` of `op(B)`; where operands hold
    several matrices, of those at `item`.
    """
    shared_copy = {"cluster_mask": (1 << tiling.cluster) - 1} if tiling.cluster > 1 else {}

    @T.macro
    def produce(
        A, B, As, Bs, full, empty, first, steps, top, left, slot: T.Ref, phase: T.Ref, item=0
    ):  # fmt: skip
        for step in T.serial(steps):
            k = (first + step) * tiling.depth
            T.barrier_wait(empty[slot], 1 - phase)
            T.tma_copy(
                _step_of(A, item, k, tiling.depth, top, tiling.rows, trans_a),
                As[slot, :, :],
                barrier=full[slot],
            )
            T.tma_copy(
                _step_of(B, item, k, tiling.depth, left, tiling.columns, not trans_b),
                Bs[slot, :, :],
                barrier=full[slot],
                **shared_copy,
            )
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full[slot])
            advance(slot, phase, tiling.stages)

    return produce


def releaser(tiling: Tiling):
    """Makes the macro by which each warp hands a buffer back to all who copied into it."""

    @T.macro
    def release(empty, slot, thread):
        if thread % WARP == 0:
            if tiling.cluster > 1:
                for rank in tuple(range(tiling.cluster)):
                    T.mbarrier_arrive(empty[slot], rank)
            else:
                T.barrier_arrive(empty[slot])

    return release


def consumer(tiling: Tiling, trans_a: bool, trans_b: bool):
    """Makes the macro by which the warpgroups multiply the steps of a tile.

    One step stays in flight; the buffer of the one before is handed back as soon as it is done.
    """
    release = releaser(tiling)
    layout = {
        "transpose_A": trans_a,
        "transpose_B": trans_b,
        "policy": T.GemmWarpPolicy.FullRow,
    }

    @T.macro
    def multiply(As, Bs, acc, full, empty, steps, thread, slot: T.Ref, phase: T.Ref):
        last = T.alloc_var("int32")
        T.barrier_wait(full[slot], phase)
        T.wgmma_gemm(As[slot, :, :], Bs[slot, :, :], acc, clear_accum=True, **layout)
        last = slot
        advance(slot, phase, tiling.stages)
        for _ in T.serial(steps - 1):
            T.barrier_wait(full[slot], phase)
            T.wgmma_gemm(As[slot, :, :], Bs[slot, :, :], acc, **layout)
            T.wait_wgmma(1)
            release(empty, last, thread)
            last = slot
            advance(slot, phase, tiling.stages)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(acc, num_regs=tiling.stack * tiling.columns // 2)
        release(empty, last, thread)

    return multiply
