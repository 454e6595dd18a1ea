"""The program of products of groups of rows, each with a factor of its own, on Hopper.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math
from dataclasses import dataclass
from typing import Literal

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import WIDEST, item_bytes
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


def _silu(x):
    return x / (1.0 + T.exp(-x))


def _gelu(x):
    return 0.5 * x * (1.0 + T.erf(x * math.sqrt(0.5)))


_GATES = {"silu_and_mul": _silu, "gelu_and_mul": _gelu}


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


def _extents(groups: Groups):
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
def _search(owners, edges, M, G, thread, threads):
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


def _locator(groups: Groups, rows: int):
    """Makes the macro that finds the group of a row of tiles.

    Walks go forth only, so the search goes on where it last ended: at `group`, with `before` rows
    of tiles in the groups before it. The group is `G` past the last tile.
    """
    first, end = _extents(groups)

    def tiles(places, group, M, G):
        return T.ceildiv(end(places, group, M, G) - first(places, group, M, G), rows)

    @T.macro
    def locate(row, places, M, G, group: T.Ref, before: T.Ref):
        while group < G and row >= before + tiles(places, T.min(group, G - 1), M, G):
            before += tiles(places, group, M, G)
            group += 1

    return locate


def _staging_pitch(out_dtype: str) -> int:
    """Elements of a row of a panel that is staged, so that rows begin in different banks."""
    return PANEL + WIDEST // item_bytes(out_dtype)


def _writer(tiling: Tiling, out_dtype: str, activation: str | None):
    """Makes the macro by which each warpgroup stores its rows of a tile that lie in the group.

    With an activation, the left half of a tile holds the gates of what the right half holds.
    """
    unit = WIDEST // item_bytes(out_dtype)
    vectors = PANEL // unit
    half = tiling.columns // 2
    width = tiling.columns if activation is None else half

    @T.macro
    def stage(acc, gates, Ds, p):
        if activation is None:
            for i, j in T.Parallel(tiling.rows, PANEL):
                Ds[i, j] = acc[i, p * PANEL + j]
        else:  # one loop reads a fragment at one place only
            for i, j in T.Parallel(tiling.rows, PANEL):
                gates[i, j] = _GATES[activation](acc[i, p * PANEL + j])
            for i, j in T.Parallel(tiling.rows, PANEL):
                Ds[i, j] = gates[i, j] * acc[i, half + p * PANEL + j]

    @T.macro
    def write(acc, Ds, D, top, end, left, N, thread):
        part = thread // WARPGROUP
        lane = thread % WARPGROUP
        gates = T.alloc_fragment((tiling.rows, PANEL), "float32") if activation else None
        for p in tuple(range(width // PANEL)):
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            stage(acc, gates, Ds, p)
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            for q in T.unroll(ROWS * vectors // WARPGROUP):
                row = part * ROWS + (q * WARPGROUP + lane) // vectors
                column = lane % vectors * unit
                if top + row < end and left + p * PANEL + column < N:
                    for v in T.vectorized(unit):
                        D[top + row, left + p * PANEL + column + v] = Ds[row, column + v]

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
    `D[r] = act(A[r] gates^T) * (A[r] values^T)`; a tile's columns are halves of both.

    A grid of at most `blocks` blocks walks the tiles, which begin where a group begins and reach
    past its end where it ends; what lies there is read and not stored.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        tiling: how each group's product is cut up.
        groups: what `places` tells.
        blocks: largest number of blocks, one for each multiprocessor.
        out_dtype: of `D`, where it is not `dtype`.
        activation: function of the gates, `"silu_and_mul"` or `"gelu_and_mul"`.
    """
    halves = 1 if activation is None else 2
    out_dtype = out_dtype or dtype
    BM, BN, BK, stages = tiling.rows, tiling.columns, tiling.depth, tiling.stages
    consumers = tiling.warpgroups * WARPGROUP
    by_owner = groups.kind == "owners"
    produce = producer(tiling, trans_a=False, trans_b=True, halves=halves)
    multiply = consumer(tiling, trans_a=False, trans_b=True)
    write = _writer(tiling, out_dtype, activation)
    locate = _locator(groups, BM)
    first_row, end_row = _extents(groups)
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
            Ds = T.alloc_shared((BM, _staging_pitch(out_dtype)), out_dtype)
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
            turns = T.ceildiv(most - block, blocks)
            edges = T.alloc_shared((groups.most + 1,), "int32") if by_owner else places
            if by_owner:
                _search(places, edges, M, G, thread, consumers + WARPGROUP)
            if thread >= consumers:
                T.dec_max_nreg(PRODUCER_REGISTERS)
                if thread < consumers + WARP:
                    for turn in T.serial(turns):
                        place = turn * blocks + block
                        bm = T.truncdiv(place, columns)
                        locate(bm, edges, M, G, group, before)
                        left = T.truncmod(place, columns) * (BN // halves)
                        if group < G:
                            top = first_row(edges, group, M, G) + (bm - before) * BM
                            produce(
                                A, B, As, Bs, full, empty, 0, steps, top,
                                left + group * halves * N, slot, phase, N,
                            )  # fmt: skip
            else:
                T.inc_max_nreg(CONSUMER_REGISTERS[tiling.warpgroups])
                for turn in T.serial(turns):
                    place = turn * blocks + block
                    bm = T.truncdiv(place, columns)
                    locate(bm, edges, M, G, group, before)
                    left = T.truncmod(place, columns) * (BN // halves)
                    if group < G:
                        top = first_row(edges, group, M, G) + (bm - before) * BM
                        end = end_row(edges, group, M, G)
                        multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                        write(acc, Ds, D, top, end, left, N, thread)

    return Program(gemm_grouped, {**GUARDED, "tl.disable_thread_storage_sync": True})
