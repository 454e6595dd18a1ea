"""What the attention programs share: the heads, and a softmax that is formed tile by tile.

Maxima and sums are kept in units of base 2: `m` is the largest score times `log2(e)`.
"""

from dataclasses import dataclass
from math import e, log2

import tilelang.language as T

FLOOR = -1.0e30  # a finite maximum of nothing: differences of maxima stay numbers
PANEL = 64  # columns of a swizzled tile that lie together, hence of one copy by rows
ROWS = 64  # query rows of one warpgroup
WARP, WARPGROUP = 32, 128
WARPS = WARPGROUP // WARP
_TURN_BARRIER = 8  # first of the named barriers by which warpgroups take turns


@dataclass(frozen=True)
class Heads:
    """What attends.

    Args:
        count: query heads, a multiple of `kv_count`.
        kv_count: key and value heads.
        size: channels of a head, a multiple of 64.
        dtype: `"float16"` or `"bfloat16"`.
        scale: factor of the scores, positive.
        softcap: bound of the scores; 0 for none.
    """

    count: int
    kv_count: int
    size: int
    dtype: str
    scale: float
    softcap: float = 0.0

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.count // self.kv_count


def online_softmax(heads: Heads, rows: int, columns: int):
    """Makes the macros that bound a tile of scores, and that weigh the first tile and later ones.

    Both leave the weights in the scores' place. `last`, `part` and `shrink` are scratch; `shrink`
    ends as the factor of everything that was summed before.
    """
    scale = (heads.softcap or heads.scale) * log2(e)

    @T.macro
    def bound(S):
        if heads.softcap > 0:
            for i, j in T.Parallel(rows, columns):
                # tanh by an exponential: the device's own is too coarse for large bounds.
                S[i, j] = 1.0 - 2.0 / (
                    T.exp2(S[i, j] * (2 * log2(e) * heads.scale / heads.softcap)) + 1.0
                )

    @T.macro
    def weigh_first(S, m, sums):
        T.reduce_max(S, m, dim=1)
        for i in T.Parallel(rows):
            m[i] = T.max(m[i] * scale, FLOOR)
        for i, j in T.Parallel(rows, columns):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.reduce_sum(S, sums, dim=1)

    @T.macro
    def weigh(S, m, last, sums, part, shrink):
        T.copy(m, last)
        T.reduce_max(S, m, dim=1)
        for i in T.Parallel(rows):
            m[i] = T.max(m[i] * scale, last[i])
        for i in T.Parallel(rows):
            shrink[i] = T.exp2(last[i] - m[i])
        for i, j in T.Parallel(rows, columns):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.reduce_sum(S, part, dim=1)
        for i in T.Parallel(rows):
            sums[i] = sums[i] * shrink[i] + part[i]

    return bound, weigh_first, weigh


def ring(stages: int):
    """The buffer and the phase of a step; divisions by other than powers of two cost."""
    if stages & (stages - 1) == 0:
        return (lambda step: step % stages), (lambda step: step // stages % 2)
    return (lambda step: T.truncmod(step, stages)), (lambda step: T.truncdiv(step, stages) % 2)


def turns(warpgroups: int):
    """Makes the macros by which a warpgroup takes its turn to multiply, and passes it on."""

    @T.macro
    def take_turn(thread):
        if warpgroups > 1:
            T.sync_threads(_TURN_BARRIER + thread // WARPGROUP, 2 * WARPGROUP)

    @T.macro
    def pass_turn(thread):
        if warpgroups > 1:
            T.named_barrier_arrive(
                _TURN_BARRIER + (thread // WARPGROUP + 1) % warpgroups, 2 * WARPGROUP
            )

    return take_turn, pass_turn


@T.macro
def release(barriers, slot, thread):
    """Hands a buffer back, once for each warp."""
    if thread % WARP == 0:
        T.barrier_arrive(barriers[slot])


@T.macro
def arrive(barriers, slot):
    """Announces what the calling warp copies into a buffer."""
    if T.shuffle_elect(WARP):
        T.barrier_arrive(barriers[slot])
