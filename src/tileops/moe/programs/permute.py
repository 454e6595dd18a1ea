"""Programs that bring rows of tokens to their experts and back.

One block finds the slot of every route: it counts the routes of each expert in shared memory, adds
the counts up, and gives slots out. Routes are few beside the rows that they stand for.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, WIDEST, as_float, item_bytes, store_vector

_I32 = "int32"
_WARP = 32
_COUNTERS = 1024  # threads of the block that counts, one for each expert
_AT_ONCE = 8  # routes of a thread whose experts are read together
_COPIERS = 128  # threads of a block that copies or sums rows
_ROWS = 8  # of a token that are stored or read together


def _each_route(visit):
    """Makes the macro by which a block visits each route with its expert.

    `visit(state, expert, route)` is a macro.
    """

    @T.macro
    def each_route(ids, routes, state, thread):
        expert = T.alloc_local((_AT_ONCE,), _I32)
        for turn in T.serial(T.ceildiv(routes, _COUNTERS * _AT_ONCE)):
            for u in T.unroll(_AT_ONCE):
                route = (turn * _AT_ONCE + u) * _COUNTERS + thread
                expert[u] = ids[T.min(route, routes - 1)]
            for u in T.unroll(_AT_ONCE):
                route = (turn * _AT_ONCE + u) * _COUNTERS + thread
                if route < routes:
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


def _placing(experts: int, alignment: int, expert_of):
    """Makes the macro by which a block finds where each expert's slots begin.

    Each starts at a multiple of `alignment`. Thread `e` gets first slot and number of routes of
    expert `e`, all threads the slots of all experts; `slots` then holds the first slot of each.
    `expert_of(id)` is the expert that an id stands for.
    """

    @T.macro
    def count(slots, expert, route):
        T.atomic_add(slots[expert_of(expert)], 1)

    each_route = _each_route(count)

    @T.macro
    def place(ids, routes, slots, partial, first, own, total, thread):
        slots[thread] = 0
        T.sync_threads()
        each_route(ids, routes, slots, thread)
        T.sync_threads()
        own[0] = slots[thread]
        first[0] = T.ceildiv(own[0], alignment) * alignment
        _sum_before(first, total, partial, thread)
        slots[thread] = first[0]
        T.sync_threads()

    return place


def build_pre_permute(
    dtype: str, *, experts: int, top_k: int, alignment: int, by_owner: bool
) -> Program:
    """`Y[slots[t * top_k + k]] = X[t]`, the slots of each expert together.

    Tensors: `X [T, H]`, `ids [T * top_k]` int32 of `[0, experts)`, `Y [P, H]`, `metadata` int32,
    `[experts]` or `[P]`, `slots [T * top_k]` int32; contiguous, 16-byte aligned, rows of `X` whole
    numbers of 16 bytes, none 0. Slots between experts are left as they are.

    Args:
        dtype: element type of the rows.
        experts: number of experts, at most 1,024.
        top_k: routes of a token.
        alignment: of which an expert's first slot is a multiple.
        by_owner: whether the metadata are the expert of each slot, that of the experts before it
            for padding and `experts` behind all of them; else the end of each expert.
    """
    unit = WIDEST // item_bytes(dtype)
    place = _placing(experts, alignment, lambda expert: expert)
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

    each_route = _each_route(give)

    @T.macro
    def describe(metadata, first, own, total, thread):
        """Ends of experts, or the owners of what holds no route."""
        if by_owner:
            padding = T.ceildiv(own[0], alignment) * alignment - own[0]
            for i in T.serial(padding):
                metadata[first[0] + own[0] + i] = thread
            for i in T.serial(T.ceildiv(P - total[0], _COUNTERS)):
                if total[0] + i * _COUNTERS + thread < P:
                    metadata[total[0] + i * _COUNTERS + thread] = experts
        elif thread < experts:
            metadata[thread] = first[0] + own[0]

    @T.prim_func
    def pre_permute(
        X: T.Tensor((tokens, H), dtype),
        ids: T.Tensor((routes,), _I32),
        Y: T.Tensor((P, H), dtype),
        metadata: T.Tensor((P if by_owner else experts,), _I32),
        places: T.Tensor((routes,), _I32),
    ):
        with T.Kernel(1, threads=_COUNTERS):
            thread = T.get_thread_binding()
            cursors = T.alloc_shared((_COUNTERS,), _I32)
            partial = T.alloc_shared((_WARP,), _I32)
            first = T.alloc_local((1,), _I32)
            own = T.alloc_local((1,), _I32)
            total = T.alloc_local((1,), _I32)
            T.pdl_trigger()
            place(ids, routes, cursors, partial, first, own, total, thread)
            each_route(ids, routes, (cursors, places, metadata), thread)
            describe(metadata, first, own, total, thread)
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


def build_permute_align(*, experts: int, block_size: int) -> Program:
    """The routes of each expert in blocks of `block_size`, padded with the number of routes.

    Tensors, all int32: `ids [R]`; `sorted [C]` with `C = R + (experts + 1) * (block_size - 1)`;
    `owners`, the expert of each block; `total [1]`, the entries that the blocks take; contiguous,
    R not 0. Ids of no expert form a last bucket. What lies behind the blocks is left as it is.

    Args:
        experts: number of experts, fewer than 1,024.
        block_size: routes of a block.
    """
    R, C, B = T.dynamic("R"), T.dynamic("C"), T.dynamic("B")

    def bucket(expert):
        return T.if_then_else(T.And(expert >= 0, expert < experts), expert, experts)

    place = _placing(experts + 1, block_size, bucket)

    @T.macro
    def give(state, expert, route):
        cursors, order = state
        slot = T.alloc_local((1,), _I32)
        slot[0] = T.atomic_add(cursors[bucket(expert)], 1, return_prev=True)
        order[slot[0]] = route

    each_route = _each_route(give)

    @T.prim_func
    def permute_align(
        ids: T.Tensor((R,), _I32),
        order: T.Tensor((C,), _I32),
        owners: T.Tensor((B,), _I32),
        all_slots: T.Tensor((1,), _I32),
    ):
        with T.Kernel(1, threads=_COUNTERS):
            thread = T.get_thread_binding()
            cursors = T.alloc_shared((_COUNTERS,), _I32)
            partial = T.alloc_shared((_WARP,), _I32)
            first = T.alloc_local((1,), _I32)
            own = T.alloc_local((1,), _I32)
            total = T.alloc_local((1,), _I32)
            place(ids, R, cursors, partial, first, own, total, thread)
            each_route(ids, R, (cursors, order), thread)
            blocks = T.ceildiv(own[0], block_size)
            for i in T.serial(blocks * block_size - own[0]):
                order[first[0] + own[0] + i] = R
            for i in T.serial(blocks):
                owners[T.truncdiv(first[0], block_size) + i] = thread
            if thread == 0:
                all_slots[0] = total[0]

    return Program(permute_align, GUARDED)
