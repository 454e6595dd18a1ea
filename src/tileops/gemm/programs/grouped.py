"""The program of products of groups of rows, each with a factor of its own, on Hopper.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops.gemm.programs.ring import (
    CONSUMER_REGISTERS,
    PANEL,
    PRODUCER_REGISTERS,
    ROWS,
    UNIT,
    WARP,
    WARPGROUP,
    WARPS,
    Tiling,
    consumer,
    producer,
)

_STORE_BARRIER = 8  # first of the named barriers that warpgroups use for themselves
_PITCH = PANEL + UNIT  # of the staging rows, so that they begin in different banks
_VECTORS = PANEL // UNIT


@T.macro
def _locate(row, rows, sizes, G, group: T.Ref, before: T.Ref):
    """The group of a row of tiles.

    Walks go forth only, so the search goes on where it last ended: at `group`, with `before` rows
    of tiles in the groups before it. The group is `G` past the last tile.
    """
    while group < G and row >= before + T.ceildiv(sizes[T.min(group, G - 1)], rows):
        before += T.ceildiv(sizes[group], rows)
        group += 1


def _writer(tiling: Tiling):
    """Makes the macro by which each warpgroup stores its rows of a tile that lie in the group."""

    @T.macro
    def write(acc, Ds, D, top, end, left, N, thread):
        part = thread // WARPGROUP
        lane = thread % WARPGROUP
        for p in tuple(range(tiling.columns // PANEL)):
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            for i, j in T.Parallel(tiling.rows, PANEL):
                Ds[i, j] = acc[i, p * PANEL + j]
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            for q in T.unroll(ROWS * _VECTORS // WARPGROUP):
                row = part * ROWS + (q * WARPGROUP + lane) // _VECTORS
                column = lane % _VECTORS * UNIT
                if top + row < end and left + p * PANEL + column < N:
                    for v in T.vectorized(UNIT):
                        D[top + row, left + p * PANEL + column + v] = Ds[row, column + v]

    return write


def build_gemm_grouped(dtype: str, *, tiling: Tiling, blocks: int) -> Program:
    """`D[r] = A[r] B[g]^T` for the rows `r` of each group `g`, which lie together.

    Tensors: `A [M, K]`, `B [G * N, K]`, the factors one below the other, `sizes [G]` and
    `starts [G]` in int32, `D [M, N]`; contiguous, 16-byte aligned, N and K multiples of 8, none 0.
    Groups follow each other without gaps and may be empty.

    A grid of at most `blocks` blocks walks the tiles, which begin where a group begins and reach
    past its end where it ends; what lies there is read and not stored.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        tiling: how each group's product is cut up.
        blocks: largest number of blocks, one for each multiprocessor.
    """
    BM, BN, BK, stages = tiling.rows, tiling.columns, tiling.depth, tiling.stages
    consumers = tiling.warpgroups * WARPGROUP
    produce = producer(tiling, trans_a=False, trans_b=True)
    multiply = consumer(tiling, trans_a=False, trans_b=True)
    write = _writer(tiling)
    M, G, GN = T.dynamic("M"), T.dynamic("G"), T.dynamic("GN")
    N, K = T.dynamic("NU") * UNIT, T.dynamic("KU") * UNIT

    @T.prim_func
    def gemm_grouped(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((GN, K), dtype),
        sizes: T.Tensor((G,), "int32"),
        starts: T.Tensor((G,), "int32"),
        D: T.Tensor((M, N), dtype),
    ):
        columns = T.ceildiv(N, BN)
        places = (T.ceildiv(M, BM) + G) * columns  # no fewer than tiles
        with T.Kernel(T.min(places, blocks), threads=consumers + WARPGROUP) as block:
            As = T.alloc_shared((stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK), dtype)
            Ds = T.alloc_shared((BM, _PITCH), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([WARPS * tiling.warpgroups] * stages)
            thread = T.get_thread_binding()
            slot = T.alloc_var("int32", init=0)
            phase = T.alloc_var("int32", init=0)
            group = T.alloc_var("int32", init=0)
            before = T.alloc_var("int32", init=0)
            bm = T.alloc_var("int32", init=0)
            top = T.alloc_var("int32", init=0)
            end = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            steps = T.ceildiv(K, BK)
            turns = T.ceildiv(places - block, blocks)
            if thread >= consumers:
                T.dec_max_nreg(PRODUCER_REGISTERS)
                if thread < consumers + WARP:
                    for turn in T.serial(turns):
                        place = turn * blocks + block
                        bm = T.truncdiv(place, columns)
                        _locate(bm, BM, sizes, G, group, before)
                        left = T.truncmod(place, columns) * BN
                        if group < G:
                            top = starts[group] + (bm - before) * BM
                            produce(
                                A, B, As, Bs, full, empty, 0, steps, top, left + group * N,
                                slot, phase,
                            )  # fmt: skip
            else:
                T.inc_max_nreg(CONSUMER_REGISTERS[tiling.warpgroups])
                for turn in T.serial(turns):
                    place = turn * blocks + block
                    bm = T.truncdiv(place, columns)
                    _locate(bm, BM, sizes, G, group, before)
                    left = T.truncmod(place, columns) * BN
                    if group < G:
                        top = starts[group] + (bm - before) * BM
                        end = starts[group] + sizes[group]
                        multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                        write(acc, Ds, D, top, end, left, N, thread)

    return Program(gemm_grouped, {**GUARDED, "tl.disable_thread_storage_sync": True})
