"""The program of products of groups of rows, each with a factor of its own, on Hopper.

A tile of the tensor cores has at least 64 rows, but may have few columns. So a group's rows, which
may be few, are the columns of tiles, and those of its factor take the place of rows.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import WIDEST, item_bytes
from tileops.gemm.programs.groups import GATES, Groups, extents, locator, search
from tileops.gemm.programs.ring import (
    CONSUMER_REGISTERS,
    PRODUCER_REGISTERS,
    ROWS,
    UNIT,
    WARP,
    WARPGROUP,
    WARPS,
    Tiling,
    advance,
    consumer,
)
from tileops.gemm.programs.tiles import STORE_BARRIER

_STAGED = (48, 32, 16)  # rows of the result that may be staged at once


def _staged(tiling: Tiling) -> int:
    """Rows of the result that are staged at once."""
    return next(rows for rows in _STAGED if tiling.columns % rows == 0)


def _producer(tiling: Tiling, halves: int):
    """Makes the macro by which one warp copies the steps of a tile into the ring.

    In two halves, each warpgroup's rows are as many of one half as of the other, which lies `apart`
    rows below it.
    """
    parts = tiling.warpgroups * halves if halves > 1 else 1
    height = tiling.rows // parts

    @T.macro
    def produce(A, B, As, Bs, full, empty, steps, top, left, apart, slot: T.Ref, phase: T.Ref):
        for step in T.serial(steps):
            k = step * tiling.depth
            T.barrier_wait(empty[slot], 1 - phase)
            for part in tuple(range(parts)):
                first = left + part // halves * height + part % halves * apart
                T.tma_copy(
                    B[first : first + height, k : k + tiling.depth],
                    Bs[slot, part * height : (part + 1) * height, :],
                    barrier=full[slot],
                )
            T.tma_copy(
                A[top : top + tiling.columns, k : k + tiling.depth],
                As[slot, :, :],
                barrier=full[slot],
            )
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full[slot])
            advance(slot, phase, tiling.stages)

    return produce


def _turned_layout(rows: int, columns: int):
    """Where rows of the result are in the registers of those who accumulated them as columns.

    Neighbours in a register's halves are neighbours among the accumulators, too: where they are
    not, the assembler orders all products one after the other.
    """
    return T.Fragment(
        (rows, columns),
        forward_thread_fn=lambda i, j: (
            j // ROWS * WARPGROUP + j % ROWS // 16 * WARP + j % 8 * 4 + i % 8 // 2
        ),
        forward_index_fn=lambda i, j: i // 8 * 4 + j % 16 // 8 * 2 + i % 2,
    )


def _staged_layout(rows: int, columns: int, out_dtype: str):
    """Where staged rows lie, so that neighbours begin in different banks."""
    pitch = columns + WIDEST // item_bytes(out_dtype)
    return T.Layout((rows, columns), lambda i, j: i * pitch + j)


def _writer(tiling: Tiling, out_dtype: str, activation: str | None):
    """Makes the macro by which each warpgroup stores its part of a tile, rows of the group only.

    With an activation, the upper half of its rows holds the gates of what the lower half holds.
    """
    staged = _staged(tiling)
    width = ROWS * tiling.warpgroups  # columns of the result that are staged at once
    reach = ROWS * tiling.stack
    unit = WIDEST // item_bytes(out_dtype)
    vectors = ROWS // unit
    shares = tiling.stack if activation is None else tiling.stack // 2

    def held(acc, share, i, j):
        """An accumulator of row `i` and of column `j` of those of a share that are staged."""
        return acc[j // ROWS * reach + share * ROWS + j % ROWS, i]

    @T.macro
    def stage(acc, gates, turned, Ds, share, first):
        if activation is None:
            for i, j in T.Parallel(staged, width):
                turned[i, j] = held(acc, share, first + i, j)
        else:  # one loop reads a fragment at one place only
            for i, j in T.Parallel(staged, width):
                gates[i, j] = GATES[activation](held(acc, share, first + i, j))
            for i, j in T.Parallel(staged, width):
                turned[i, j] = gates[i, j] * held(acc, shares + share, first + i, j)
        T.copy(turned, Ds)

    @T.macro
    def write(acc, Ds, D, top, end, bn, N, thread):
        part = thread // WARPGROUP
        lane = thread % WARPGROUP
        gates = T.alloc_fragment((staged, width), "float32") if activation else None
        turned = T.alloc_fragment((staged, width), out_dtype)
        T.annotate_layout({turned: _turned_layout(staged, width)})
        for share in tuple(range(shares)):
            for first in tuple(range(0, tiling.columns, staged)):
                T.sync_threads(STORE_BARRIER + part, WARPGROUP)
                stage(acc, gates, turned, Ds, share, first)
                T.sync_threads(STORE_BARRIER + part, WARPGROUP)
                for q in T.unroll(staged * vectors // WARPGROUP):
                    row = (q * WARPGROUP + lane) // vectors
                    column = lane % vectors * unit
                    left = ((bn * tiling.warpgroups + part) * shares + share) * ROWS + column
                    if top + first + row < end and left < N:
                        for v in T.vectorized(unit):
                            D[top + first + row, left + v] = Ds[row, part * ROWS + column + v]

    return write


def build_gemm_grouped(
    dtype: str,
    *,
    tiling: Tiling,
    groups: Groups,
    blocks: int,
    out_dtype: str | None = None,
    activation: str | None = None,
) -> Program:
    """`D[r] = A[r] B[g]^T` for the rows `r` of each group `g`, which lie together.

    Tensors: `A [M, K]`, `B [G * N, K]`, the factors one below the other, `places` in int32, `[M]`
    where it holds owners and else `[G]`, `D [M, N]`; contiguous, 16-byte aligned, N and K multiples
    of 8, none 0. Groups may be empty.

    With an activation `B` is `[G * 2 N, K]`, each factor's gates above what they are for, and
    `D[r] = act(A[r] gates^T) * (A[r] values^T)`; a tile's rows are halves of both.

    A grid of at most `blocks` blocks walks the tiles, which begin where a group begins and reach
    past its end where it ends; what lies there is read and not stored.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        tiling: how each group's product is cut up, rows those of `B`, columns those of `A`, a
            multiple of 16; with an activation `stack` is even.
        groups: what `places` tells.
        blocks: largest number of blocks, one for each multiprocessor.
        out_dtype: of `D`, where it is not `dtype`.
        activation: function of the gates, `"silu_and_mul"` or `"gelu_and_mul"`.
    """
    halves = 1 if activation is None else 2
    out_dtype = out_dtype or dtype
    BN, BM, BK, stages = tiling.rows, tiling.columns, tiling.depth, tiling.stages
    consumers = tiling.warpgroups * WARPGROUP
    by_owner = groups.kind == "owners"
    produce = _producer(tiling, halves)
    multiply = consumer(tiling, trans_a=False, trans_b=True)
    write = _writer(tiling, out_dtype, activation)
    locate = locator(groups, BM)
    first_row, end_row = extents(groups)
    M, L, GN = T.dynamic("M"), T.dynamic("L"), T.dynamic("GN")
    N, K = T.dynamic("NU") * UNIT, T.dynamic("KU") * UNIT

    @T.prim_func
    def gemm_grouped(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((GN, K), dtype),
        places: T.Tensor((M if by_owner else L,), "int32"),
        D: T.Tensor((M, N), out_dtype),
    ):
        G = T.truncdiv(GN, N * halves)
        columns = T.ceildiv(N, BN // halves)
        most = (T.ceildiv(M, BM) + G) * columns  # no fewer than tiles
        with T.Kernel(T.min(most, blocks), threads=consumers + WARPGROUP) as block:
            As = T.alloc_shared((stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK), dtype)
            Ds = T.alloc_shared((_staged(tiling), ROWS * tiling.warpgroups), out_dtype)
            T.annotate_layout({Ds: _staged_layout(*Ds.shape, out_dtype)})
            acc = T.alloc_fragment((BN, BM), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([WARPS * tiling.warpgroups] * stages)
            thread = T.get_thread_binding()
            slot = T.alloc_var("int32", init=0)
            phase = T.alloc_var("int32", init=0)
            group = T.alloc_var("int32", init=0)
            before = T.alloc_var("int32", init=0)
            place = T.alloc_var("int32", init=0)
            bm = T.alloc_var("int32", init=0)
            top = T.alloc_var("int32", init=0)
            end = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            steps = T.ceildiv(K, BK)
            edges = T.alloc_shared((groups.most + 1,), "int32") if by_owner else places
            if by_owner:
                search(places, edges, M, G, thread, consumers + WARPGROUP)
            place = block
            bm = T.truncdiv(place, columns)
            locate(bm, edges, M, G, group, before)
            if thread >= consumers:
                T.dec_max_nreg(PRODUCER_REGISTERS)
                if thread < consumers + WARP:
                    while group < G:
                        bn = T.truncmod(place, columns)
                        top = first_row(edges, group, M, G) + (bm - before) * BM
                        produce(
                            A, B, As, Bs, full, empty, steps, top,
                            bn * (BN // halves) + group * halves * N, N, slot, phase,
                        )  # fmt: skip
                        place += blocks
                        bm = T.truncdiv(place, columns)
                        locate(bm, edges, M, G, group, before)
            else:
                T.inc_max_nreg(CONSUMER_REGISTERS[tiling.warpgroups])
                while group < G:
                    bn = T.truncmod(place, columns)
                    top = first_row(edges, group, M, G) + (bm - before) * BM
                    end = end_row(edges, group, M, G)
                    multiply(Bs, As, acc, full, empty, steps, thread, slot, phase)
                    write(acc, Ds, D, top, end, bn, N, thread)
                    place += blocks
                    bm = T.truncdiv(place, columns)
                    locate(bm, edges, M, G, group, before)

    return Program(gemm_grouped, {**GUARDED, "tl.disable_thread_storage_sync": True})
