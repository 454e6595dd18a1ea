"""TileLang programs of attention by one query of each request, which reading the keys bounds.

The keys of a request are shared by several blocks, whose parts `merge` puts together. Requests,
lengths and parts are run-time values; heads, tile, window and page are compiled in. Scores, softmax
and sums are float32; weights are rounded to the dtype before they meet the values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import Program
from tileops.attention.programs.pages import page_reader, piece_count
from tileops.attention.programs.parts import part_writer, take_part
from tileops.attention.programs.products import overlapped
from tileops.attention.programs.rotation import Rotation, turner
from tileops.attention.programs.softmax import (
    FLOOR,
    ROWS,
    WARP,
    WARPGROUP,
    WARPS,
    Heads,
    arrive,
    online_softmax,
    release,
    ring,
)

_CONSUMERS = 9  # the named barrier of the warpgroup: lower ones are the compiler's
_SETTINGS = {"tl.enable_fast_math": True, "tl.disable_buffer_init_check": True}


@dataclass(frozen=True)
class Decoding:
    """How keys are cut up.

    Args:
        columns: keys of a tile.
        stages: buffers of the rings of keys and of values.
        window: keys before the last that a query sees; -1 for all.
        page: rows of a page, a divisor of `columns` from 8 on or a multiple; 0 for keys in a row.
        rotation: what turns the queries, or None.
    """

    columns: int = 64
    stages: int = 3
    window: int = -1
    page: int = 0
    rotation: Rotation | None = None


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _producer(heads: Heads, how: Decoding):
    """Makes the macro by which one warp copies the queries, then keys and values, last first."""
    BN, D, page = how.columns, heads.size, how.page
    slot, phase = ring(how.stages)
    if page:
        look_up, copy_tile = page_reader(BN, D, page)

    @T.macro
    def load(X, first_rows, Xs, full, empty, step, b, h, tile):
        T.barrier_wait(empty[slot(step)], 1 - phase(step))
        if page:
            copy_tile(X, first_rows, Xs, slot(step), full, h)
        else:
            T.tma_copy(
                X[b, tile * BN : tile * BN + BN, h, :], Xs[slot(step), :, :],
                barrier=full[slot(step)],
            )
        arrive(full, slot(step))

    @T.macro
    def produce(
        Q, K, V, table, Qs, Ks, Vs, q_full, k_full, k_empty, v_full, v_empty,
        token, head, b, h, begin, end, keys,
    ):
        step = T.alloc_var("int32", init=0)
        first_rows = T.alloc_local((piece_count(BN, page),), "int32")
        T.tma_copy(Q[token, head : head + ROWS, :], Qs[0, :, :], barrier=q_full)
        if T.shuffle_elect(WARP):
            T.barrier_arrive(q_full)
        if page:
            look_up(table, first_rows, b, end - 1, keys)
        for t in T.serial(end - begin):
            load(K, first_rows, Ks, k_full, k_empty, step, b, h, end - 1 - t)
            load(V, first_rows, Vs, v_full, v_empty, step, b, h, end - 1 - t)
            step += 1
            if page:  # in flight while this tile is waited for
                look_up(table, first_rows, b, end - 2 - t, keys)

    return produce


def _consumer(heads: Heads, how: Decoding):
    """Makes the macro by which a warpgroup attends to the keys of a part.

    Scores of the next keys are issued before the values of the current ones.
    """
    BN, D = how.columns, heads.size
    slot, phase = ring(how.stages)
    bound, weigh_first, weigh = online_softmax(heads, ROWS, BN)
    multiply, settle = overlapped(heads, BN, how.stages, 1)
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def hide(S, tile, first, keys):
        for i, j in T.Parallel(ROWS, BN):
            if how.window >= 0:
                S[i, j] = T.if_then_else(
                    T.And(tile * BN + j < keys, tile * BN + j >= first),
                    S[i, j], -T.infinity("float32"),
                )
            else:
                S[i, j] = T.if_then_else(tile * BN + j < keys, S[i, j], -T.infinity("float32"))

    @T.macro
    def clear_tail(Vs, v_full, tile, keys):
        """Zeros for what pages hold behind the last key: a weight of 0 would let NaN through."""
        for _ in T.serial(T.if_then_else((tile + 1) * BN > keys, 1, 0)):
            T.barrier_wait(v_full[0], 0)
            for i, j in T.Parallel(BN, D):
                if tile * BN + i >= keys:
                    Vs[0, i, j] = 0
            T.fence_proxy_async()
            T.sync_threads(_CONSUMERS, WARPGROUP)

    @T.macro
    def advance(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
        step: T.Ref, thread, tile, first, keys,
    ):
        multiply(Qs, Ks, Vs, k_full, k_empty, v_full, S, P, A, step, 0, thread)
        bound(S)
        if how.window >= 0:
            hide(S, tile, first, keys)
        weigh(S, m, last, sums, part, shrink)
        settle(v_empty, S, P, A, step, thread)
        for i, j in T.Parallel(ROWS, D):
            A[i, j] *= shrink[i]
        step += 1

    @T.macro
    def attend(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
        thread, begin, end, first, keys,
    ):
        step = T.alloc_var("int32", init=0)
        T.barrier_wait(k_full[0], 0)
        T.wgmma_gemm(Qs[0, :, :], Ks[0, :, :], S, transpose_B=True, clear_accum=True, **layout)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        release(k_empty, 0, thread)
        bound(S)
        hide(S, end - 1, first, keys)
        weigh_first(S, m, sums)
        T.copy(S, P)
        if how.page:
            clear_tail(Vs, v_full, end - 1, keys)
        for t in T.serial(end - 1 - begin):
            advance(
                Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
                step, thread, end - 2 - t, first, keys,
            )
        T.barrier_wait(v_full[slot(step)], phase(step))
        T.wgmma_gemm(P, Vs[slot(step), :, :], A, **layout)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)

    return attend


def _block(heads: Heads, how: Decoding):
    """Makes the macro that is one block: a part of the keys, for up to 64 heads of a group."""
    BN, D, dtype, stages, group = how.columns, heads.size, heads.dtype, how.stages, heads.group
    cuts = -(-group // ROWS)
    produce = _producer(heads, how)
    attend = _consumer(heads, how)
    turn = turner(how.rotation, ROWS, WARPGROUP, spread=False)
    store = part_writer(heads.count, ROWS, D)

    @T.macro
    def run(Q, K, V, table, Turns, Partial, Lse, Out, b, place, token, keys, split, splits):
        Qs = T.alloc_shared((1, ROWS, D), dtype)
        Ks = T.alloc_shared((stages, BN, D), dtype)
        Vs = T.alloc_shared((stages, BN, D), dtype)
        S = T.alloc_fragment((ROWS, BN), "float32")
        P = T.alloc_fragment((ROWS, BN), dtype)
        A = T.alloc_fragment((ROWS, D), "float32")
        m = T.alloc_fragment((ROWS,), "float32")
        last = T.alloc_fragment((ROWS,), "float32")
        sums = T.alloc_fragment((ROWS,), "float32")
        part = T.alloc_fragment((ROWS,), "float32")
        shrink = T.alloc_fragment((ROWS,), "float32")
        q_full = T.alloc_barrier(1)
        k_full = T.alloc_barrier([1] * stages)
        k_empty = T.alloc_barrier([WARPS] * stages)
        v_full = T.alloc_barrier([1] * stages)
        v_empty = T.alloc_barrier([WARPS] * stages)
        thread = T.get_thread_binding()
        if D <= 128:
            T.annotate_min_blocks_per_sm(2)
        h = T.alloc_var("int32", init=0)
        head = T.alloc_var("int32", init=0)
        rows = T.alloc_var("int32", init=0)
        first = T.alloc_var("int32", init=0)
        begin = T.alloc_var("int32", init=0)
        end = T.alloc_var("int32", init=0)
        h = place // cuts
        head = h * group + place % cuts * ROWS
        rows = T.if_then_else(keys > 0, T.min(group - place % cuts * ROWS, ROWS), 0)
        if how.window >= 0:
            first = T.max(keys - 1 - how.window, 0)
        end = T.ceildiv(keys, BN)
        take_part(first // BN, split, splits, begin, end)
        if thread >= WARPGROUP:
            produce(
                Q, K, V, table, Qs, Ks, Vs, q_full, k_full, k_empty, v_full, v_empty,
                token, head, b, h, begin, end, keys,
            )
        else:
            T.fill(A, 0)
            T.fill(sums, 0)
            T.fill(m, FLOOR)
            T.barrier_wait(q_full, 0)
            if how.rotation is not None:
                turn(Qs, 0, Turns, thread, keys - 1)
                T.fence_proxy_async()
                T.sync_threads(_CONSUMERS, WARPGROUP)
            for _ in T.serial(T.min(end - begin, 1)):  # whole, where an if would be split up
                attend(
                    Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                    shrink, thread, begin, end, first, keys,
                )
            store(A, m, sums, part, Partial, Lse, Out, token, head, rows, split, splits)

    return run, heads.kv_count * cuts
# fmt: on


def build_decode(heads: Heads, *, how: Decoding) -> Program:
    """Attention of one query of each request of a batch over its keys.

    Tensors: `Q [B, H, D]`, `K` and `V [B, S, H_kv, D]`, `Partial [B * H * splits * D]` and
    `Lse [B * H * splits]` float32, `Out [B, H, D]`; contiguous, 16-byte aligned, none empty. With
    one split `Out` is written and the two before it are any memory, else these two are.

    Args:
        heads: what attends.
        how: how the keys are cut up, not into pages.
    """
    H, HK, D, dtype = heads.count, heads.kv_count, heads.size, heads.dtype
    run, places = _block(heads, how)
    B, S, area, height = T.dynamic("B"), T.dynamic("S"), T.dynamic("area"), T.dynamic("height")

    @T.prim_func
    def decode(
        Q: T.Tensor((B, H, D), dtype),
        K: T.Tensor((B, S, HK, D), dtype),
        V: T.Tensor((B, S, HK, D), dtype),
        Partial: T.Tensor((area,), "float32"),
        Lse: T.Tensor((height,), "float32"),
        Out: T.Tensor((B, H, D), dtype),
        splits: T.int32,
    ):
        with T.Kernel(B * places * splits, threads=WARPGROUP + WARP) as block:
            T.pdl_trigger()
            b = T.alloc_var("int32", init=0)
            place = T.alloc_var("int32", init=0)
            place = T.truncdiv(block, splits)
            b = T.truncdiv(place, places)
            run(
                Q, K, V, None, None, Partial, Lse, Out, b, place - b * places, b, S,
                block - place * splits, splits,
            )  # fmt: skip

    return Program(decode, _SETTINGS)


def build_decode_paged(heads: Heads, *, how: Decoding) -> Program:
    """Attention of at most one query of each request over the pages that hold its keys.

    Tensors: `Q [T, H or more, D]`, `K` and `V [rows of all pages, H_kv, D]`, `Starts [B + 1]`,
    `Cached [B]` and `Table [B, W]` int32 as the interface of paged attention tells them, `Turns`
    int64 as the rotation, one element where there is none, `Partial`, `Lse` and `Out` as
    `build_decode` has them; contiguous, 16-byte aligned, none empty. A request sees its cached keys
    and the one of its query.

    Args:
        heads: what attends.
        how: how the keys are cut up, into pages.
    """
    H, HK, D, dtype = heads.count, heads.kv_count, heads.size, heads.dtype
    run, places = _block(heads, how)
    B, tokens, ends = T.dynamic("B"), T.dynamic("tokens"), T.dynamic("ends")
    pitch, rows, width = T.dynamic("pitch"), T.dynamic("rows"), T.dynamic("width")
    area, height = T.dynamic("area"), T.dynamic("height")
    pairs = how.rotation.width // 2 if how.rotation else 1

    @T.prim_func
    def decode(
        Q: T.Tensor((tokens, pitch, D), dtype),
        K: T.Tensor((rows, HK, D), dtype),
        V: T.Tensor((rows, HK, D), dtype),
        Starts: T.Tensor((ends,), "int32"),
        Cached: T.Tensor((B,), "int32"),
        Table: T.Tensor((B, width), "int32"),
        Turns: T.Tensor((pairs,), "int64"),
        Partial: T.Tensor((area,), "float32"),
        Lse: T.Tensor((height,), "float32"),
        Out: T.Tensor((tokens, H, D), dtype),
        splits: T.int32,
    ):
        with T.Kernel(B * places * splits, threads=WARPGROUP + WARP) as block:
            T.pdl_trigger()
            b = T.alloc_var("int32", init=0)
            place = T.alloc_var("int32", init=0)
            token = T.alloc_var("int32", init=0)
            keys = T.alloc_var("int32", init=0)
            place = T.truncdiv(block, splits)
            b = T.truncdiv(place, places)
            token = Starts[b]
            keys = T.if_then_else(Starts[b + 1] > token, Cached[b] + 1, 0)
            run(
                Q, K, V, Table, Turns, Partial, Lse, Out, b, place - b * places, token, keys,
                block - place * splits, splits,
            )  # fmt: skip

    return Program(decode, _SETTINGS)
