"""Macros of attention by many queries of each request, on Hopper.

A warp copies tiles of queries, keys and values into rings; warpgroups of 64 queries each attend and
store. Scores, softmax and sums are float32; weights are rounded to the dtype before they meet the
values. Keys are taken last first, so that only the first tile, and those that a mask cuts, are
masked.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from functools import reduce

import tilelang.language as T

from tileops.attention.programs.pages import page_reader, piece_count
from tileops.attention.programs.products import overlapped
from tileops.attention.programs.rotation import Rotation, turner
from tileops.attention.programs.softmax import (
    ROWS,
    WARPGROUP,
    Heads,
    arrive,
    online_softmax,
    release,
    turns,
)

_CONSUMERS = 15  # the named barrier of all of them
SETTINGS = {
    "tl.enable_fast_math": True,
    "tl.disable_buffer_init_check": True,
    "tl.disable_thread_storage_sync": True,
}


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees around its own position; the last query stands at the last key.

    Args:
        left: keys before it; -1 for all.
        right: keys after it; -1 for all, 0 for a causal mask.
    """

    left: int = -1
    right: int = -1


@dataclass(frozen=True)
class Tiling:
    """How attention is cut up.

    Args:
        rows: queries of a tile, 128 or 192: 64 for each warpgroup that multiplies.
        columns: keys of a tile.
        queries: buffers of query tiles.
        stages: buffers of the rings of keys and of values.
        reuses: whether results leave through the buffer of their queries, for want of another.
        joins: whether a tile's first scores are issued with the last values of the one before it;
            each tile then has keys to see, and results have a buffer of their own.
    """

    rows: int
    columns: int
    queries: int = 2
    stages: int = 2
    reuses: bool = False
    joins: bool = False

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // ROWS

    @property
    def threads(self) -> int:
        """Threads that multiply."""
        return self.warpgroups * WARPGROUP


@dataclass(frozen=True)
class Source:
    """Where queries, keys and values come from.

    Args:
        is_packed: whether requests lie one after another, and are not members of a batch.
        page: rows of a page; 0 for keys in a row.
        rotation: what turns the queries, or None.
    """

    is_packed: bool = False
    page: int = 0
    rotation: Rotation | None = None


def tile_range(tiling: Tiling, mask: Mask):
    """Makes the macro that finds the tiles of keys that some query of a tile sees."""
    BM, BN = tiling.rows, tiling.columns

    @T.macro
    def find(bx, queries, keys, first: T.Ref, end: T.Ref):
        end = T.ceildiv(keys, BN)
        if mask.right >= 0:
            seen = (bx + 1) * BM + keys - queries + mask.right  # behind the last query's last key
            end = T.max(T.min(end, T.ceildiv(seen, BN)), 0)
        if mask.left >= 0:
            first = T.min(  # noqa: F841
                T.max(bx * BM + keys - queries - mask.left, 0) // BN, end
            )

    return find


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def producer(heads: Heads, tiling: Tiling, source: Source):
    """Makes the macro by which one warp copies a query tile, then keys and values, last first."""
    BM, BN, stages, page = tiling.rows, tiling.columns, tiling.stages, source.page
    if page:
        look_up, copy_tile = page_reader(BN, heads.size, page)

    @T.macro
    def load(X, rows, Xs, full, empty, step, b, h, row, tile):
        T.barrier_wait(empty[step % stages], (step // stages + 1) % 2)
        if page:
            copy_tile(X, rows, Xs, step % stages, full, h)
        elif source.is_packed:
            T.tma_copy(
                X[row + tile * BN : row + tile * BN + BN, h, :], Xs[step % stages, :, :],
                barrier=full[step % stages],
            )
        else:
            T.tma_copy(
                X[b, tile * BN : tile * BN + BN, h, :], Xs[step % stages, :, :],
                barrier=full[step % stages],
            )
        arrive(full, step % stages)

    @T.macro
    def produce(
        Q, K, V, table, Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full, v_empty,
        step: T.Ref, tile: T.Ref, b, h, q_row, k_row, bx, first, end, keys,
    ):
        rows = T.alloc_local((piece_count(BN, page),), "int32")
        T.barrier_wait(q_empty[tile % tiling.queries], (tile // tiling.queries + 1) % 2)
        if source.is_packed:
            T.tma_copy(
                Q[q_row + bx * BM : q_row + bx * BM + BM, h, :], Qs[tile % tiling.queries, :, :],
                barrier=q_full[tile % tiling.queries],
            )
        else:
            T.tma_copy(
                Q[b, bx * BM : bx * BM + BM, h, :], Qs[tile % tiling.queries, :, :],
                barrier=q_full[tile % tiling.queries],
            )
        arrive(q_full, tile % tiling.queries)
        tile += 1
        if page:
            look_up(table, rows, b, end - 1, keys)
        for t in T.serial(end - first):
            load(K, rows, Ks, k_full, k_empty, step, b, h // heads.group, k_row, end - 1 - t)
            load(V, rows, Vs, v_full, v_empty, step, b, h // heads.group, k_row, end - 1 - t)
            step += 1
            if page:  # in flight while this tile is waited for
                look_up(table, rows, b, end - 2 - t, keys)

    return produce


def _hider(tiling: Tiling, mask: Mask):
    """Makes the macro that hides keys."""
    BM, BN = tiling.rows, tiling.columns

    def is_seen(column, position, keys):
        conditions = []
        if mask.right >= 0:
            conditions.append(column <= position + mask.right)
        if mask.right != 0:
            conditions.append(column < keys)
        if mask.left >= 0:
            conditions.append(column >= position - mask.left)
        return reduce(T.And, conditions)

    @T.macro
    def hide(S, bx, nb, queries, keys):
        for i, j in T.Parallel(BM, BN):
            S[i, j] = T.if_then_else(
                is_seen(nb * BN + j, bx * BM + i + keys - queries, keys),
                S[i, j], -T.infinity("float32"),
            )

    return hide


def steps(heads: Heads, tiling: Tiling, mask: Mask, source: Source):
    """Makes the macros of the first tile of keys, and of each tile after it.

    Scores of the next keys are issued before the values of the current ones, and their softmax is
    formed while the latter are multiplied.
    """
    BM, BN, D, stages = tiling.rows, tiling.columns, heads.size, tiling.stages
    bound, weigh_first, weigh = online_softmax(heads, BM, BN)
    hide = _hider(tiling, mask)
    multiply, settle = overlapped(heads, BN, stages, tiling.warpgroups)
    take_turn, pass_turn = turns(tiling.warpgroups)
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def clear_tail(Vs, v_full, step, tile, keys):
        """Zeros for what lies behind the last key: a weight of 0 would let NaN through."""
        for _ in T.serial(T.if_then_else((tile + 1) * BN > keys, 1, 0)):
            T.barrier_wait(v_full[step % stages], (step // stages) % 2)
            for i, j in T.Parallel(BN, D):
                if tile * BN + i >= keys:
                    Vs[step % stages, i, j] = 0
            T.fence_proxy_async()
            T.sync_threads(_CONSUMERS, tiling.threads)

    @T.macro
    def advance(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
        step: T.Ref, slot, thread, bx, nb, queries, keys, masked,
    ):
        multiply(Qs, Ks, Vs, k_full, k_empty, v_full, S, P, A, step, slot, thread)
        bound(S)
        if masked:
            hide(S, bx, nb, queries, keys)
        weigh(S, m, last, sums, part, shrink)
        settle(v_empty, S, P, A, step, thread)
        for i, j in T.Parallel(BM, D):
            A[i, j] *= shrink[i]
        step += 1

    @T.macro
    def begin(
        Qs, Ks, Vs, k_full, k_empty, v_full, S, P, m, sums, step, slot, thread, bx, nb, queries,
        keys,
    ):
        T.barrier_wait(k_full[step % stages], (step // stages) % 2)
        take_turn(thread)
        T.wgmma_gemm(
            Qs[slot, :, :], Ks[step % stages, :, :], S,
            transpose_B=True, clear_accum=True, **layout,
        )
        pass_turn(thread)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        release(k_empty, step % stages, thread)
        bound(S)
        hide(S, bx, nb, queries, keys)
        weigh_first(S, m, sums)
        T.copy(S, P)
        if source.is_packed:
            clear_tail(Vs, v_full, step, nb, keys)

    @T.macro
    def turn_over(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, part,
        step: T.Ref, slot, thread, bx, nb, queries, keys,
    ):
        """The last values of a tile, and the first scores of the next; their sums in `part`."""
        multiply(Qs, Ks, Vs, k_full, k_empty, v_full, S, P, A, step, slot, thread)
        bound(S)
        hide(S, bx, nb, queries, keys)
        weigh_first(S, m, part)
        settle(v_empty, S, P, A, step, thread)
        step += 1

    return begin, advance, turn_over


def passes(heads: Heads, tiling: Tiling, mask: Mask, advance):
    """Makes the macros for all tiles of keys but the first, and for the last values of a tile."""
    BM, BN, D, stages = tiling.rows, tiling.columns, heads.size, tiling.stages
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def see(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
        step: T.Ref, slot, thread, bx, first, end, queries, keys,
    ):
        cut = T.alloc_var("int32", init=0)  # tiles from here on are cut at the right
        whole = T.alloc_var("int32", init=0)  # tiles before this are cut at the left
        cut = end - 1
        whole = first
        if mask.right >= 0:
            cut = T.min(T.truncdiv(T.max(bx * BM + keys - queries + mask.right + 1, 0), BN), cut)
            cut = T.max(cut, first)
        if mask.left >= 0:
            whole = T.ceildiv(T.max((bx + 1) * BM - 1 + keys - queries - mask.left, 0), BN)
            whole = T.min(T.max(whole, first), cut)
        if mask.right >= 0:
            for t in T.serial(end - 1 - cut):
                advance(
                    Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                    shrink, step, slot, thread, bx, end - 2 - t, queries, keys, True,
                )
        for t in T.serial(cut - whole):
            advance(
                Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                shrink, step, slot, thread, bx, cut - 1 - t, queries, keys, False,
            )
        if mask.left >= 0:
            for t in T.serial(whole - first):
                advance(
                    Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                    shrink, step, slot, thread, bx, whole - 1 - t, queries, keys, True,
                )

    @T.macro
    def finish(Vs, v_full, v_empty, P, A, step: T.Ref, thread):
        T.barrier_wait(v_full[step % stages], (step // stages) % 2)
        T.wgmma_gemm(P, Vs[step % stages, :, :], A, **layout)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)
        release(v_empty, step % stages, thread)
        step += 1

    return see, finish


def normaliser(heads: Heads, tiling: Tiling):
    """Makes the macro that divides a tile's result by its sums."""
    BM, D = tiling.rows, heads.size

    @T.macro
    def normalise(A, sums):
        for i in T.Parallel(BM):
            sums[i] = T.if_then_else(sums[i] == 0.0, 0.0, 1.0 / sums[i])
        for i, j in T.Parallel(BM, D):
            A[i, j] = A[i, j] * sums[i]

    return normalise


def consumer(heads: Heads, tiling: Tiling, mask: Mask, source: Source):
    """Makes the macro by which the warpgroups attend to the keys of a query tile."""
    BM = tiling.rows
    begin, advance, _ = steps(heads, tiling, mask, source)
    see, finish = passes(heads, tiling, mask, advance)
    normalise = normaliser(heads, tiling)
    turn = turner(source.rotation, BM, tiling.threads, spread=True)

    @T.macro
    def attend(
        Qs, Ks, Vs, Turns, q_full, q_empty, k_full, k_empty, v_full, v_empty,
        S, P, A, m, last, sums, part, shrink,
        step: T.Ref, tile: T.Ref, thread, bx, first, end, queries, keys,
    ):
        slot = T.alloc_var("int32", init=0)
        slot = tile % tiling.queries
        T.barrier_wait(q_full[slot], (tile // tiling.queries) % 2)
        tile += 1
        if source.rotation is not None:
            turn(Qs, slot, Turns, thread, bx * BM + keys - queries)
            T.fence_proxy_async()
            T.sync_threads(_CONSUMERS, tiling.threads)
        T.fill(A, 0)
        if not source.is_packed:
            T.fill(sums, 0)
        for _ in T.serial(T.min(end - first, 1)):  # whole, where an if would be split up
            begin(
                Qs, Ks, Vs, k_full, k_empty, v_full, S, P, m, sums, step, slot, thread, bx,
                end - 1, queries, keys,
            )
            see(
                Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                shrink, step, slot, thread, bx, first, end, queries, keys,
            )
            finish(Vs, v_full, v_empty, P, A, step, thread)
            if source.is_packed:  # Further down, sums of the widest heads would not fit registers.
                normalise(A, sums)
        if not tiling.reuses:
            release(q_empty, slot, thread)
        if not source.is_packed:
            normalise(A, sums)

    return attend
# fmt: on
