"""Programs that bring rows of tokens to their experts and back.

A block finds the slots of routes: it counts the routes of each expert in shared memory, adds the
counts up, and gives slots out. Many routes are shared by several blocks, which leave their counts
to the launch that gives slots. Routes are few beside the rows that they stand for.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, WIDEST, as_float, item_bytes, store_vector

_I32 = "int32"
_WARP = 32
COUNTERS = 1024
"""Threads of a block that counts, one for each expert."""
_WARPS = COUNTERS // _WARP
_AT_ONCE = 8  # routes of a thread whose experts are read together, and counts of other blocks
_COPIERS = 128  # threads of a block that copies or sums rows
_ROWS = 8  # of a token that are stored or read together


def _each_route(visit):
    """Makes the macro by which a block visits each of some routes with its expert.

    `visit(state, expert, route)` is a macro.
    """

    @T.macro
    def each_route(ids, begin, end, state, thread):
        expert = T.alloc_local((_AT_ONCE,), _I32)
        for turn in T.serial(T.ceildiv(end - begin, COUNTERS * _AT_ONCE)):
            for u in T.unroll(_AT_ONCE):
                route = begin + (turn * _AT_ONCE + u) * COUNTERS + thread
                expert[u] = ids[T.min(route, end - 1)]
            for u in T.unroll(_AT_ONCE):
                route = begin + (turn * _AT_ONCE + u) * COUNTERS + thread
                if route < end:
                    visit(state, expert[u], route)

    return each_route


@T.macro
def _sum_before(count, total, partial, thread):
    """What the threads before this one hold, and what all of them do."""
    lane, warp = thread % _WARP, thread // _WARP
    received = T.alloc_local((1,), _I32)
    total[0] = count[0]
    for step in tuple(range(5)):
        received[0] = T.shfl_up(total[0], 1 << step)
        if lane >= 1 << step:
            total[0] += received[0]
    if lane == _WARP - 1:
        partial[warp] = total[0]
    T.sync_threads()
    count[0] = total[0] - count[0]
    total[0] = partial[lane]
    received[0] = T.if_then_else(lane < warp, total[0], 0)
    for step in tuple(range(5)):
        total[0] += T.shfl_xor(total[0], 1 << step)
        received[0] += T.shfl_xor(received[0], 1 << step)
    count[0] += received[0]


class _Placing(NamedTuple):
    """The macros by which blocks find where each expert's slots begin, thread `e` for expert `e`.

    Attributes:
        count: counts some routes of each expert in `slots`.
        recall: adds the counts of all blocks, and of those before one.
        place: gives the first slot of each expert and the one after its last, and puts into `slots`
            the first one of this block.
    """

    count: Callable[..., Any]
    recall: Callable[..., Any]
    place: Callable[..., Any]


def _placing(alignment: int, expert_of) -> _Placing:
    """Makes these macros; each expert starts at a multiple of `alignment`.

    `expert_of(id)` is the expert that an id stands for.
    """

    @T.macro
    def add(slots, expert, route):
        T.atomic_add(slots[expert_of(expert)], 1)

    each_route = _each_route(add)

    @T.macro
    def count(ids, begin, end, slots, thread):
        slots[thread] = 0
        T.sync_threads()
        each_route(ids, begin, end, slots, thread)
        T.sync_threads()

    @T.macro
    def recall(counts, parts, part, own, before, thread):
        held = T.alloc_local((_AT_ONCE,), _I32)
        own[0] = 0
        before[0] = 0
        for turn in T.serial(T.ceildiv(parts, _AT_ONCE)):
            for u in T.unroll(_AT_ONCE):
                held[u] = counts[T.min(turn * _AT_ONCE + u, parts - 1), thread]
            for u in T.unroll(_AT_ONCE):
                if turn * _AT_ONCE + u < parts:
                    own[0] += held[u]
                if turn * _AT_ONCE + u < part:
                    before[0] += held[u]

    @T.macro
    def place(slots, starts, ends, partial, own, before, total, thread):
        first = T.alloc_local((1,), _I32)
        first[0] = T.ceildiv(own[0], alignment) * alignment
        _sum_before(first, total, partial, thread)
        starts[thread] = first[0]
        ends[thread] = first[0] + own[0]
        slots[thread] = first[0] + before[0]
        T.sync_threads()

    return _Placing(count, recall, place)


def _giving(placing: _Placing, give, describe, shared: bool):
    """Makes the macro of the launches that give a slot to each route.

    `give(state, expert, route)` takes the next slot of an expert, the first of `state` being the
    cursors; `describe(state, starts, ends, total, part, parts, thread)` tells of the slots, all
    blocks their share. `counts` has a row for each block, where they share the routes.
    """
    each_route = _each_route(give)

    @T.macro
    def count_shares(ids, counts, routes):
        parts = counts.shape[0]
        with T.Kernel(parts, threads=COUNTERS) as part:
            thread = T.get_thread_binding()
            slots = T.alloc_shared((COUNTERS,), _I32)
            T.pdl_trigger()
            begin, end = routes * part // parts, routes * (part + 1) // parts
            placing.count(ids, begin, end, slots, thread)
            counts[part, thread] = slots[thread]

    @T.macro
    def give_slots(ids, counts, routes, state):
        parts = counts.shape[0] if shared else 1
        with T.Kernel(parts, threads=COUNTERS) as part:
            thread = T.get_thread_binding()
            cursors = T.alloc_shared((COUNTERS,), _I32)
            starts = T.alloc_shared((COUNTERS,), _I32)
            ends = T.alloc_shared((COUNTERS,), _I32)
            partial = T.alloc_shared((_WARP,), _I32)
            own = T.alloc_local((1,), _I32)
            before = T.alloc_local((1,), _I32)
            total = T.alloc_local((1,), _I32)
            T.pdl_trigger()
            begin, end = routes * part // parts, routes * (part + 1) // parts
            if shared:
                T.pdl_sync()
                placing.recall(counts, parts, part, own, before, thread)
            else:
                placing.count(ids, begin, end, cursors, thread)
                own[0] = cursors[thread]
                before[0] = 0
            placing.place(cursors, starts, ends, partial, own, before, total, thread)
            each_route(ids, begin, end, (cursors, *state), thread)
            describe(state, starts, ends, total, part, parts, thread)

    return count_shares, give_slots


@T.macro
def _fill(line, begin, end, value, lane, lanes):
    """Each of some threads its share of a stretch."""
    for i in T.serial(T.ceildiv(end - begin, lanes)):
        if begin + i * lanes + lane < end:
            line[begin + i * lanes + lane] = value


def build_pre_permute(
    dtype: str, *, experts: int, top_k: int, alignment: int, by_owner: bool, shared: bool
) -> Program:
    """`Y[slots[t * top_k + k]] = X[t]`, the slots of each expert together.

    Tensors: `X [T, H]`, `ids [T * top_k]` int32 of `[0, experts)`, `Y [P, H]`, `metadata` int32,
    `[experts]` or `[P]`, `slots [T * top_k]` int32, and `counts [blocks, 1024]` int32 where blocks
    share the routes; contiguous, 16-byte aligned, rows of `X` whole numbers of 16 bytes, none 0.
    Slots between experts are left as they are.

    Args:
        dtype: element type of the rows.
        experts: number of experts, at most 1,024.
        top_k: routes of a token.
        alignment: of which an expert's first slot is a multiple.
        by_owner: whether the metadata are the expert of each slot, that of the experts before it
            for padding and `experts` behind all of them; else the end of each expert.
        shared: whether blocks share the routes.
    """
    unit = WIDEST // item_bytes(dtype)
    tokens = T.dynamic("tokens")
    routes = tokens * top_k
    P, H = T.dynamic("P"), T.dynamic("HU") * unit

    @T.macro
    def give(state, expert, route):
        cursors, places, metadata = state
        slot = T.alloc_local((1,), _I32)
        slot[0] = T.atomic_add(cursors[expert], 1, return_prev=True)
        places[route] = slot[0]
        if by_owner:
            metadata[slot[0]] = expert

    @T.macro
    def describe(state, starts, ends, total, part, parts, thread):
        """Ends of experts, or the owners of what holds no route."""
        _, metadata = state
        if by_owner:
            warp = part * _WARPS + thread // _WARP
            for turn in T.serial(T.ceildiv(experts - warp, parts * _WARPS)):
                expert = turn * parts * _WARPS + warp
                end = T.ceildiv(ends[expert], alignment) * alignment
                _fill(metadata, ends[expert], end, expert, thread % _WARP, _WARP)
            _fill(metadata, total[0], P, experts, part * COUNTERS + thread, parts * COUNTERS)
        elif thread < experts and part == 0:
            metadata[thread] = ends[thread]

    placing = _placing(alignment, lambda expert: expert)
    count_shares, give_slots = _giving(placing, give, describe, shared)

    @T.macro
    def copy_rows(X, Y, places):
        with T.Kernel(T.ceildiv(H, _COPIERS * unit), tokens, threads=_COPIERS) as (part, token):
            column = (part * _COPIERS + T.get_thread_binding()) * unit
            x = T.alloc_local((unit,), dtype)
            slot = T.alloc_local((_ROWS,), _I32)
            if column < H:
                for v in T.vectorized(unit):
                    x[v] = X[token, column + v]
            T.pdl_sync()
            if column < H:
                for turn in T.serial(-(-top_k // _ROWS)):
                    for k in T.unroll(_ROWS):
                        slot[k] = places[token * top_k + T.min(turn * _ROWS + k, top_k - 1)]
                    for k in T.unroll(_ROWS):
                        if turn * _ROWS + k < top_k:
                            store_vector(Y[slot[k], column], x, unit, dtype)

    if shared:

        @T.prim_func
        def pre_permute(
            X: T.Tensor((tokens, H), dtype),
            ids: T.Tensor((routes,), _I32),
            Y: T.Tensor((P, H), dtype),
            metadata: T.Tensor((P if by_owner else experts,), _I32),
            places: T.Tensor((routes,), _I32),
            counts: T.Tensor((T.dynamic("parts"), COUNTERS), _I32),
        ):
            count_shares(ids, counts, routes)
            give_slots(ids, counts, routes, (places, metadata))
            copy_rows(X, Y, places)
    else:

        @T.prim_func
        def pre_permute(
            X: T.Tensor((tokens, H), dtype),
            ids: T.Tensor((routes,), _I32),
            Y: T.Tensor((P, H), dtype),
            metadata: T.Tensor((P if by_owner else experts,), _I32),
            places: T.Tensor((routes,), _I32),
        ):
            give_slots(ids, None, routes, (places, metadata))
            copy_rows(X, Y, places)

    return Program(pre_permute, GUARDED)


def build_post_permute(dtype: str, out_dtype: str, *, top_k: int, scale: float) -> Program:
    """`Y[t] = scale * Σ_k weights[t, k] * X[slots[t * top_k + k]]`, summed in float32.

    Tensors: `X [R, H]`, `weights [T * top_k]` in float32, `slots [T * top_k]` int32, `Y [T, H]`;
    contiguous, 16-byte aligned, rows of `X` whole numbers of 16 bytes, none 0.

    Args:
        dtype: element type of `X`.
        out_dtype: element type of `Y`.
        top_k: routes of a token.
        scale: factor of the sums.
    """
    unit = WIDEST // item_bytes(dtype)
    stored = min(unit, WIDEST // item_bytes(out_dtype))
    tokens = T.dynamic("tokens")
    routes = tokens * top_k
    R, H = T.dynamic("R"), T.dynamic("HU") * unit

    @T.prim_func
    def post_permute(
        X: T.Tensor((R, H), dtype),
        weights: T.Tensor((routes,), F32),
        places: T.Tensor((routes,), _I32),
        Y: T.Tensor((tokens, H), out_dtype),
    ):
        with T.Kernel(T.ceildiv(H, _COPIERS * unit), tokens, threads=_COPIERS) as (part, token):
            column = (part * _COPIERS + T.get_thread_binding()) * unit
            x = T.alloc_local((_ROWS * unit,), dtype)
            weight = T.alloc_local((_ROWS,), F32)
            total = T.alloc_local((unit,), F32)
            y = T.alloc_local((unit,), out_dtype)
            if column < H:
                for v in T.unroll(unit):
                    total[v] = 0.0
                for turn in T.serial(-(-top_k // _ROWS)):
                    for k in T.unroll(_ROWS):
                        if turn * _ROWS + k < top_k:
                            route = token * top_k + turn * _ROWS + k
                            weight[k] = weights[route]
                            for v in T.vectorized(unit):
                                x[k * unit + v] = X[places[route], column + v]
                    for k in T.unroll(_ROWS):
                        if turn * _ROWS + k < top_k:
                            for v in T.unroll(unit):
                                total[v] += weight[k] * as_float(x[k * unit + v])
                for v in T.unroll(unit):
                    y[v] = T.cast(total[v] * T.float32(scale), out_dtype)
                for i in tuple(range(unit // stored)):
                    store_vector(Y[token, column + i * stored], y, stored, out_dtype, i * stored)

    return Program(post_permute, GUARDED)


def build_permute_align(*, experts: int, block_size: int, shared: bool) -> Program:
    """The routes of each expert in blocks of `block_size`, padded with the number of routes.

    Tensors, all int32: `ids [R]`; `sorted [C]` with `C = R + (experts + 1) * (block_size - 1)`;
    `owners`, the expert of each block; `total [1]`, the entries that the blocks take; and where
    blocks share the routes `counts [blocks, 1024]`; contiguous, R not 0. Ids of no expert form a
    last bucket. What lies behind the blocks is left as it is.

    Args:
        experts: number of experts, fewer than 1,024.
        block_size: routes of a block.
        shared: whether blocks share the routes.
    """
    R, C, B = T.dynamic("R"), T.dynamic("C"), T.dynamic("B")

    def bucket(expert):
        return T.if_then_else(T.And(expert >= 0, expert < experts), expert, experts)

    @T.macro
    def give(state, expert, route):
        cursors, order, _, _ = state
        slot = T.alloc_local((1,), _I32)
        slot[0] = T.atomic_add(cursors[bucket(expert)], 1, return_prev=True)
        order[slot[0]] = route

    @T.macro
    def describe(state, starts, ends, total, part, parts, thread):
        """Padding of each bucket, the expert of each block, and the sum of all."""
        order, owners, all_slots = state
        warp, lane = part * _WARPS + thread // _WARP, thread % _WARP
        for turn in T.serial(T.ceildiv(experts + 1 - warp, parts * _WARPS)):
            expert = turn * parts * _WARPS + warp
            first = T.truncdiv(starts[expert], block_size)
            last = T.ceildiv(ends[expert], block_size)
            _fill(order, ends[expert], last * block_size, R, lane, _WARP)
            _fill(owners, first, last, expert, lane, _WARP)
        if part == 0 and thread == 0:
            all_slots[0] = total[0]

    count_shares, give_slots = _giving(_placing(block_size, bucket), give, describe, shared)

    if shared:

        @T.prim_func
        def permute_align(
            ids: T.Tensor((R,), _I32),
            order: T.Tensor((C,), _I32),
            owners: T.Tensor((B,), _I32),
            all_slots: T.Tensor((1,), _I32),
            counts: T.Tensor((T.dynamic("parts"), COUNTERS), _I32),
        ):
            count_shares(ids, counts, R)
            give_slots(ids, counts, R, (order, owners, all_slots))
    else:

        @T.prim_func
        def permute_align(
            ids: T.Tensor((R,), _I32),
            order: T.Tensor((C,), _I32),
            owners: T.Tensor((B,), _I32),
            all_slots: T.Tensor((1,), _I32),
        ):
            give_slots(ids, None, R, (order, owners, all_slots))

    return Program(permute_align, GUARDED)
