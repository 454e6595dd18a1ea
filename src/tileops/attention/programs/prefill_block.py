"""The block that attends by many queries of each request, of the macros of `prefill`.

A warp copies, warpgroups multiply and store. Where tiles are joined, the first scores of a tile are
issued with the last values of the one before it, and its first softmax is formed while the latter
are multiplied, as within a tile; so the tensor cores do not rest between tiles.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops.attention.programs.prefill import (
    Mask,
    Source,
    Tiling,
    consumer,
    normaliser,
    passes,
    producer,
    steps,
    tile_range,
)
from tileops.attention.programs.softmax import (
    PANEL,
    ROWS,
    WARP,
    WARPGROUP,
    WARPS,
    Heads,
    release,
    turns,
)

_STORE_BARRIER = 12  # first of the named barriers that warpgroups store behind
_REGISTERS = {2: (24, 240), 3: (24, 160)}
"""Of threads that copy, and that multiply, by the number of warpgroups that do."""
_PAGED_REGISTERS = {2: (56, 224), 3: (32, 160)}
"""Likewise where rows of many pages are looked up."""


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _writer(heads: Heads, tiling: Tiling, source: Source):
    """Makes the macro by which each warpgroup stores its rows, not waiting for the others."""
    D, BM = heads.size, tiling.rows

    @T.macro
    def send(Os, slot, Out, thread, b, h, row):
        part = thread // WARPGROUP
        for c in tuple(range(0, D, PANEL)):
            if source.is_packed:
                T.tma_copy(
                    Os[slot, part * ROWS : part * ROWS + ROWS, c : c + PANEL],
                    Out[row + part * ROWS : row + part * ROWS + ROWS, h, c : c + PANEL],
                    leader_scope_threads=WARPGROUP,
                )
            else:
                T.tma_copy(
                    Os[slot, part * ROWS : part * ROWS + ROWS, c : c + PANEL],
                    Out[b, row + part * ROWS : row + part * ROWS + ROWS, h, c : c + PANEL],
                    leader_scope_threads=WARPGROUP,
                )

    @T.macro
    def settle(thread):
        """Waits until the warpgroup's last store has left its buffer."""
        if T.shuffle_elect(WARPGROUP):
            T.tma_store_wait(0)
        T.sync_threads(_STORE_BARRIER + thread // WARPGROUP, WARPGROUP)

    @T.macro
    def stage(A, Os, slot, thread):
        for i, j in T.Parallel(BM, D):
            Os[slot, i, j] = A[i, j]
        T.fence_proxy_async()
        T.sync_threads(_STORE_BARRIER + thread // WARPGROUP, WARPGROUP)

    @T.macro
    def write(A, Qs, Os, q_empty, Out, thread, tile, b, h, row):
        if tiling.reuses:
            slot = (tile - 1) % tiling.queries
            stage(A, Qs, slot, thread)
            send(Qs, slot, Out, thread, b, h, row)
            settle(thread)
            release(q_empty, slot, thread)
        else:
            settle(thread)
            stage(A, Os, 0, thread)
            send(Os, 0, Out, thread, b, h, row)

    @T.macro
    def write_some(A, Qs, q_empty, Out, thread, tile, h, row, count):
        """Only `count` rows, from registers."""
        for i, j in T.Parallel(BM, D):
            if i < count:
                Out[row + i, h, j] = A[i, j]
        if tiling.reuses:
            release(q_empty, (tile - 1) % tiling.queries, thread)

    return write, write_some


def _apart(heads: Heads, tiling: Tiling, mask: Mask, source: Source, locate):
    """Makes the macro by which the warpgroups take tile after tile."""
    BM = tiling.rows
    find = tile_range(tiling, mask)
    attend = consumer(heads, tiling, mask, source)
    write, write_some = _writer(heads, tiling, source)

    @T.macro
    def take_all(
        Qs, Ks, Vs, Os, Turns, Out, q_full, q_empty, k_full, k_empty, v_full, v_empty, S, P, A, m,
        last, sums, part, shrink, count, where, walk, section, total, q_row, queries, keys, thread,
        bx: T.Ref, head: T.Ref, first: T.Ref, end: T.Ref, step: T.Ref, tile: T.Ref,
    ):
        for turn in T.serial(count):
            locate(turn, where, walk, section, total, bx, head)
            find(bx, queries, keys, first, end)
            attend(
                Qs, Ks, Vs, Turns, q_full, q_empty, k_full, k_empty, v_full, v_empty, S, P, A,
                m, last, sums, part, shrink, step, tile, thread, bx, first, end, queries, keys,
            )
            if source.is_packed:
                if bx * BM + BM <= queries:
                    write(
                        A, Qs, Os, q_empty, Out, thread, tile, 0, head % heads.count,
                        q_row + bx * BM,
                    )
                else:
                    write_some(
                        A, Qs, q_empty, Out, thread, tile, head % heads.count, q_row + bx * BM,
                        queries - bx * BM,
                    )
            else:
                write(
                    A, Qs, Os, q_empty, Out, thread, tile, head // heads.count,
                    head % heads.count, bx * BM,
                )

    return take_all


def _joined(heads: Heads, tiling: Tiling, mask: Mask, source: Source, locate):
    """Makes the macro by which the warpgroups take tiles that are joined."""
    BM, queued = tiling.rows, tiling.queries
    find = tile_range(tiling, mask)
    begin, advance, turn_over = steps(heads, tiling, mask, source)
    see, finish = passes(heads, tiling, mask, advance)
    normalise = normaliser(heads, tiling)
    write, _ = _writer(heads, tiling, source)

    @T.macro
    def take_all(
        Qs, Ks, Vs, Os, Turns, Out, q_full, q_empty, k_full, k_empty, v_full, v_empty, S, P, A, m,
        last, sums, part, shrink, count, where, walk, section, total, q_row, queries, keys, thread,
        bx: T.Ref, head: T.Ref, first: T.Ref, end: T.Ref, step: T.Ref, tile: T.Ref,
    ):
        row = T.alloc_var("int32", init=0)  # where the tile that ends is stored
        place = T.alloc_var("int32", init=0)
        locate(0, where, walk, section, total, bx, head)
        find(bx, queries, keys, first, end)
        T.fill(A, 0)
        T.barrier_wait(q_full[0], 0)
        begin(
            Qs, Ks, Vs, k_full, k_empty, v_full, S, P, m, sums, step, 0, thread, bx, end - 1,
            queries, keys,
        )
        for turn in T.serial(count):
            see(
                Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
                step, tile % queued, thread, bx, first, end, queries, keys,
            )
            release(q_empty, tile % queued, thread)
            tile += 1
            row = bx * BM
            place = head
            if turn + 1 < count:
                locate(turn + 1, where, walk, section, total, bx, head)
                find(bx, queries, keys, first, end)
                T.barrier_wait(q_full[tile % queued], (tile // queued) % 2)
                turn_over(
                    Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, part, step,
                    tile % queued, thread, bx, end - 1, queries, keys,
                )
            else:
                finish(Vs, v_full, v_empty, P, A, step, thread)
            normalise(A, sums)
            write(A, Qs, Os, q_empty, Out, thread, tile, place // heads.count,
                  place % heads.count, row)
            T.copy(part, sums)
            T.fill(A, 0)

    return take_all


def block_of(heads: Heads, tiling: Tiling, mask: Mask, source: Source, locate):
    """Makes the macro that is one block: a warp that copies and warpgroups that take turns.

    Args:
        heads: what attends.
        tiling: how it is cut up.
        mask: what is seen.
        source: where operands come from.
        locate: macro that sets query tile and head, counted over all requests, of a turn; it takes
            the turn, then four numbers that the block's macro is given for it.
    """
    BM, BN, D, dtype, stages = tiling.rows, tiling.columns, heads.size, heads.dtype, tiling.stages
    releases = WARPS * tiling.warpgroups
    few, many = (_PAGED_REGISTERS if source.page else _REGISTERS)[tiling.warpgroups]
    find = tile_range(tiling, mask)
    produce = producer(heads, tiling, source)
    take_all = (_joined if tiling.joins else _apart)(heads, tiling, mask, source, locate)
    _, pass_turn = turns(tiling.warpgroups)

    @T.macro
    def run(
        Q, K, V, table, Turns, Out, count, where, walk, section, total,
        q_row, k_row, queries, keys, bx: T.Ref, head: T.Ref,
    ):
        Qs = T.alloc_shared((tiling.queries, BM, D), dtype)
        Ks = T.alloc_shared((stages, BN, D), dtype)
        Vs = T.alloc_shared((stages, BN, D), dtype)
        Os = Qs if tiling.reuses else T.alloc_shared((1, BM, D), dtype)
        S = T.alloc_fragment((BM, BN), "float32")
        P = T.alloc_fragment((BM, BN), dtype)
        A = T.alloc_fragment((BM, D), "float32")
        m = T.alloc_fragment((BM,), "float32")
        last = T.alloc_fragment((BM,), "float32")
        sums = T.alloc_fragment((BM,), "float32")
        part = T.alloc_fragment((BM,), "float32")
        shrink = T.alloc_fragment((BM,), "float32")
        q_full = T.alloc_barrier([1] * tiling.queries)
        q_empty = T.alloc_barrier([releases] * tiling.queries)
        k_full = T.alloc_barrier([1] * stages)
        k_empty = T.alloc_barrier([releases] * stages)
        v_full = T.alloc_barrier([1] * stages)
        v_empty = T.alloc_barrier([releases] * stages)
        thread = T.get_thread_binding()
        first = T.alloc_var("int32", init=0)
        end = T.alloc_var("int32", init=0)
        step = T.alloc_var("int32", init=0)
        tile = T.alloc_var("int32", init=0)
        if thread >= tiling.threads:
            T.dec_max_nreg(few)
            if thread < tiling.threads + WARP:
                for turn in T.serial(count):
                    locate(turn, where, walk, section, total, bx, head)
                    find(bx, queries, keys, first, end)
                    produce(
                        Q, K, V, table, Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full,
                        v_empty, step, tile, head // heads.count, head % heads.count, q_row, k_row,
                        bx, first, end, keys,
                    )
        else:
            T.inc_max_nreg(many)
            if thread >= tiling.threads - WARPGROUP:
                pass_turn(thread)
            take_all(
                Qs, Ks, Vs, Os, Turns, Out, q_full, q_empty, k_full, k_empty, v_full, v_empty, S,
                P, A, m, last, sums, part, shrink, count, where, walk, section, total, q_row,
                queries, keys, thread, bx, head, first, end, step, tile,
            )
            if T.shuffle_elect(WARPGROUP):
                T.tma_store_wait(0)

    return run
# fmt: on
