"""TileLang macros by which the blocks of a cluster go through a row of logits.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.rows import WARP, row_reduction
from tileops._programs.vectors import F32, as_float, kept, store_vector

_I32, _U32 = "int32", "uint32"

PEERS = """
__device__ __forceinline__ unsigned peer_word(const void* word, unsigned rank) {
  return *static_cast<const unsigned*>(__cluster_map_shared_rank(word, rank));
}
"""
"""What a kernel that calls `peer` imports."""


@dataclass(frozen=True)
class Masking:
    """How rows of logits are walked.

    Args:
        dtype: element type of the logits.
        vector: elements of one access, which divides the row.
        blocks: of a cluster that share a row.
        threads: threads of a block.
        unroll: accesses a thread has in flight.
    """

    dtype: str
    vector: int
    blocks: int
    threads: int
    unroll: int


def peer(word, rank, blocks: int):
    """A word of the shared memory of a block of the cluster."""
    if blocks == 1:
        return word
    return T.call_extern(_U32, "peer_word", T.address_of(word), rank)


def walk(how: Masking):
    """Makes macros: one that visits the logits of a block, and one that stores those that stay.

    `visit(state, x)` is given one logit in float32.
    """
    vector, threads, unroll = how.vector, how.threads, how.unroll

    @T.macro
    def load(x, X, row, first, last, u):
        access = T.min(first + u * threads, last - 1)
        for v in T.vectorized(vector):
            x[u * vector + v] = X[row, access * vector + v]

    @T.macro
    def sweep(visit, state, X, row, span, thread):
        x = T.alloc_local((unroll * vector,), how.dtype)
        for step in T.serial(T.ceildiv(span[1] - span[0], threads * unroll)):
            first = span[0] + step * threads * unroll + thread
            for u in T.unroll(unroll):
                load(x, X, row, first, span[1], u)
            for u in T.unroll(unroll):
                if first + u * threads < span[1]:
                    for v in T.unroll(vector):
                        visit(state, as_float(x[u * vector + v]))

    @T.macro
    def store(X, Y, row, span, threshold, untouched, thread):
        x = T.alloc_local((unroll * vector,), how.dtype)
        gone = kept(T.cast(kept(-T.infinity(F32)), how.dtype))
        for step in T.serial(T.ceildiv(span[1] - span[0], threads * unroll)):
            first = span[0] + step * threads * unroll + thread
            for u in T.unroll(unroll):
                load(x, X, row, first, span[1], u)
            for u in T.unroll(unroll):
                for v in T.unroll(vector):
                    stays = T.Or(as_float(x[u * vector + v]) >= threshold[0], untouched[0] != 0)
                    x[u * vector + v] = T.if_then_else(stays, x[u * vector + v], gone)
                access = first + u * threads
                if access < span[1]:
                    store_vector(Y[row, access * vector], x, vector, how.dtype, u * vector)

    return sweep, store


def meeting(blocks: int):
    """Makes the macro by which the blocks that share a row wait for each other."""

    @T.macro
    def meet():
        if blocks > 1:
            T.cluster_sync()
        else:
            T.sync_threads()

    return meet


def summit(how: Masking, sweep):
    """Makes macros that find the largest logit but for NaN, and whether there is a NaN.

    `look` finds those of a thread, and `join` makes of them those of the row.
    """
    meet = meeting(how.blocks)
    merge = row_reduction(
        how.threads, 1, lambda mine, other: (T.max(mine[0], other[0]), T.max(mine[1], other[1]))
    )

    @T.macro
    def rise(state, x):
        state[0][0] = T.max(state[0][0], x)
        if T.isnan(x):
            state[1][0] = 1

    @T.macro
    def look(top, bad, X, row, span, thread):
        top[0] = -T.infinity(F32)
        bad[0] = 0
        sweep(rise, (top, bad), X, row, span, thread)

    @T.macro
    def join(top, bad, thread):
        tops = T.alloc_shared((how.threads // WARP,), F32)
        bads = T.alloc_shared((how.threads // WARP,), _I32)
        words = T.alloc_shared((2,), _U32)
        merge((top, bad), (tops, bads), thread)
        if how.blocks > 1:
            T.sync_threads()  # the words may lie where some of the row's states did
            if thread == 0:
                words[0] = T.reinterpret(top[0], _U32)
                words[1] = T.cast(bad[0], _U32)
            meet()
            for rank in T.unroll(how.blocks):
                top[0] = T.max(top[0], T.reinterpret(peer(words[0], rank, how.blocks), F32))
                bad[0] = T.max(bad[0], T.cast(peer(words[1], rank, how.blocks), _I32))

    return look, join
