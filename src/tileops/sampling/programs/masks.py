"""TileLang programs of filters of logits: no row is sorted.

A block, or the blocks of a cluster, find the least logit of a row that stays, and store what is not
below it. Row count and length are run-time values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP
from tileops._programs.vectors import F32
from tileops.sampling.programs.candidates import settler
from tileops.sampling.programs.logits import PEERS, Masking, summit, walk
from tileops.sampling.programs.radix import BINS, MASSES, adders, has_share, masks, ranked, selector

_I32, _U32, _U64 = "int32", "uint32", "uint64"
_SETTINGS = {**GUARDED, "tl.disable_thread_storage_sync": True}  # every barrier is written out


def _by_radix(how: Masking, sweep):
    """Makes macros that raise `least` by passes over the row, which each find a digit.

    `floor` finds a logit that is no more than the last of the `most` largest of a block, `count`
    that of the row, `weigh` the last logit with less than a share of the mass above it.
    """
    add_tops, add_ones, add_weights = adders(how, sweep)
    select_floor = selector(how, add_tops, alone=True)
    select_count = selector(how, add_ones)
    select_mass = selector(how, add_weights, weighed=True)

    def raising(select):
        @T.macro
        def rise(least, most, part, memory, top, row, thread):
            wanted = T.alloc_local((1,), _U64)
            share = T.alloc_local((1,), F32)
            limit = T.alloc_local((1,), _U32)
            wanted[0] = T.cast(most, _U64)
            share[0] = part
            select(limit, wanted, share, memory, least, top, row, thread)
            least[0] = ranked(limit[0])

        return rise

    return raising(select_floor), raising(select_count), raising(select_mass)


def _filter(how: Masking, has_k: bool, has_p: bool):
    """Makes the macro by which the blocks of a row find its threshold and store what stays."""
    sweep, store = walk(how)
    look, join = summit(how, sweep)
    floor, count, weigh = _by_radix(how, sweep)
    settle = settler(how, sweep, has_p)

    @T.macro
    def begin(bins, words, thread):
        for j in T.unroll(BINS // how.threads):
            for half in T.unroll(2):
                bins[half, 0, j * how.threads + thread] = T.uint32(0)
        words[2, thread] = T.uint32(0)
        T.sync_threads()

    @T.macro
    def by_rank(settled, least, most, share, memory, top, row, thread):
        adding, words, masses = memory
        if most <= how.threads:
            # As many threads have a logit that is no less than the last of their largest.
            floor(least, most, share, adding, top, row, thread)
            settle(settled, least, most, share, row, (words, masses, adding[2][1]), thread)
        if settled[0] == 0:
            count(least, most, share, adding, top, row, thread)

    @T.macro
    def by_share(least, share, adding, top, bad, row, thread):
        join(top, bad, thread)
        if T.And(has_share(share, top[0]), bad[0] == 0):
            weigh(least, 0, share, adding, top, row, thread)
        else:
            least[0] = ranked(T.uint32(0))

    @T.macro
    def filter_row(X, k, p, Y, row, part, thread):
        bins = T.alloc_shared((2, 2, BINS), _U32)
        partial = T.alloc_shared((WARP,), _U64)
        found = T.alloc_shared((2,), _U64)
        words = T.alloc_shared((3, how.threads), _U32)
        masses = T.alloc_shared((how.threads,), _U64)
        side = T.alloc_local((1,), _I32)
        span = T.alloc_local((2,), _I32)
        top = T.alloc_local((1,), F32)
        bad = T.alloc_local((1,), _I32)
        least = T.alloc_local((1,), F32)
        settled = T.alloc_local((1,), _I32)
        untouched = T.alloc_local((1,), _I32)
        adding = bins, side, (partial, found)
        length = X.shape[1] // how.vector
        span[0] = part * T.ceildiv(length, how.blocks)
        span[1] = T.min(span[0] + T.ceildiv(length, how.blocks), length)
        most = k[row] if has_k else X.shape[1]
        share = p[row] if has_p else T.float32(1)
        untouched[0] = T.if_then_else(T.And(most >= X.shape[1], share >= T.float32(1)), 1, 0)
        least[0] = -T.infinity(F32)
        side[0] = 0
        settled[0] = 0
        if untouched[0] == 0:
            begin(bins, words, thread)
            look(top, bad, X, row, span, thread)
            if has_k:
                if most < X.shape[1]:
                    memory = adding, words, masses
                    by_rank(settled, least, most, share, memory, top, (X, row, span), thread)
                    bad[0] = 0  # no NaN is among the largest
            if has_p:
                if T.And(settled[0] == 0, masks(share)):
                    by_share(least, share, adding, top, bad, (X, row, span), thread)
        store(X, Y, row, span, least, untouched, thread)
        if how.blocks > 1:
            T.cluster_sync()  # until here the others read this block's memory

    return filter_row


def build_logit_mask(how: Masking, *, has_k: bool, has_p: bool) -> Program:
    """`Y` is `X` with all but its most probable logits -inf.

    Tensors: `X [B, L * vector]`, `k [B]` int32 if there is one, `p [B]` float32 likewise, `Y` as
    `X`. Rows are shorter than 2^22.
    """
    filter_row = _filter(how, has_k, has_p)
    blocks, dtype = how.blocks, how.dtype
    B, L = T.dynamic("B, L")
    shape = B, L * how.vector

    @T.macro
    def launch(X, k, p, Y):
        with T.Kernel(B * blocks, threads=how.threads, cluster_dims=blocks) as block:
            T.import_source(PEERS + MASSES)
            row, part = T.truncdiv(block, blocks), T.truncmod(block, blocks)
            filter_row(X, k, p, Y, row, part, T.get_thread_binding(0))

    if not has_p:

        @T.prim_func
        def top_k_mask(
            X: T.Tensor(shape, dtype), k: T.Tensor((B,), _I32), Y: T.Tensor(shape, dtype)
        ):
            launch(X, k, None, Y)

        return Program(top_k_mask, _SETTINGS)

    if not has_k:

        @T.prim_func
        def top_p_mask(
            X: T.Tensor(shape, dtype), p: T.Tensor((B,), F32), Y: T.Tensor(shape, dtype)
        ):
            launch(X, None, p, Y)

        return Program(top_p_mask, _SETTINGS)

    @T.prim_func
    def top_k_top_p_mask(
        X: T.Tensor(shape, dtype),
        k: T.Tensor((B,), _I32),
        p: T.Tensor((B,), F32),
        Y: T.Tensor(shape, dtype),
    ):
        launch(X, k, p, Y)

    return Program(top_k_top_p_mask, _SETTINGS)


def build_min_p_mask(how: Masking) -> Program:
    """`Y` is `X` with all logits below the row's largest plus the logarithm of `p` -inf.

    Tensors: `X [B, L * vector]`, `p [B]` float32, `Y` as `X`. Where `p` is 0 all stay.
    """
    sweep, store = walk(how)
    look, join = summit(how, sweep)
    blocks, dtype = how.blocks, how.dtype
    B, L = T.dynamic("B, L")
    shape = B, L * how.vector

    @T.macro
    def filter_row(X, p, Y, row, part, thread):
        span = T.alloc_local((2,), _I32)
        top = T.alloc_local((1,), F32)
        bad = T.alloc_local((1,), _I32)
        untouched = T.alloc_local((1,), _I32)
        span[0] = part * T.ceildiv(L, blocks)
        span[1] = T.min(span[0] + T.ceildiv(L, blocks), L)
        untouched[0] = T.if_then_else(p[row] == T.float32(0), 1, 0)
        if untouched[0] == 0:
            look(top, bad, X, row, span, thread)
            join(top, bad, thread)
            top[0] = top[0] + T.log(p[row])
            if bad[0] != 0:
                top[0] = ranked(T.uint32(0))
        store(X, Y, row, span, top, untouched, thread)
        if blocks > 1:
            T.cluster_sync()  # until here the others read this block's memory

    @T.prim_func
    def min_p_mask(X: T.Tensor(shape, dtype), p: T.Tensor((B,), F32), Y: T.Tensor(shape, dtype)):
        with T.Kernel(B * blocks, threads=how.threads, cluster_dims=blocks) as block:
            T.import_source(PEERS)
            row, part = T.truncdiv(block, blocks), T.truncmod(block, blocks)
            filter_row(X, p, Y, row, part, T.get_thread_binding(0))

    return Program(min_p_mask, _SETTINGS)
