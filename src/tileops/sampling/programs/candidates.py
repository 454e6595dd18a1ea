"""TileLang macros that settle a filter by rank among few candidates, each compared with all others.

As many threads as logits shall stay have one that is no less than the last of their largest, so
what is below that need not be looked at. Where many are equal, candidates are too many: then
`radix` goes through the row.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.vectors import F32, kept
from tileops.sampling.programs.logits import Masking, meeting, peer
from tileops.sampling.programs.radix import (
    add,
    has_share,
    masks,
    mass_of,
    not_below,
    rank_of,
    ranked,
    share_of,
)

_I32, _U32, _U64 = "int32", "uint32", "uint64"
_ENTRIES, _RANKS, _TAKEN = range(3)  # in one buffer: what others read must not be used again
_LAST = 0xFFFFFFFF


def _gatherer(how: Masking, sweep):
    """Makes the macro that brings the candidates of all blocks of a row to each, by their ranks.

    A thread gets one, of those that `least` does not leave out, and `number` how many there are.
    More than threads are counted, but not all of them brought.
    """
    meet = meeting(how.blocks)

    @T.macro
    def enter(state, x):
        least, words = state
        place = T.alloc_local((1,), _U32)
        if not_below(x, least[0]):
            place[0] = add(words[_TAKEN, 0], T.uint32(1))
            if place[0] < T.uint32(how.threads):
                words[_ENTRIES, T.cast(place[0], _I32)] = rank_of(x)

    @T.macro
    def gather(mine, number, least, row, words, thread):
        held = T.alloc_local((1,), _I32)
        sweep(enter, (least, words), *row, thread)
        meet()
        number[0] = 0
        mine[0] = T.uint32(0)
        for block in T.unroll(how.blocks):
            held[0] = T.cast(peer(words[_TAKEN, 0], block, how.blocks), _I32)
            place = kept(thread - number[0])
            if T.And(place >= 0, place < held[0]):
                mine[0] = peer(words[_ENTRIES, place], block, how.blocks)
            number[0] += held[0]
        words[_RANKS, thread] = mine[0]
        T.sync_threads()

    return gather


def settler(how: Masking, sweep, has_p: bool):
    """Makes the macro that finds the last logit that stays of a row with few candidates.

    It raises `least` to it and sets `settled`, unless there are more candidates than threads.
    `words [3, threads]` and `masses [threads]` are shared memory, the first word of the last
    row of `words` being 0.
    """
    gather = _gatherer(how, sweep)

    @T.macro
    def by_count(mine, number, most, words, found, first, thread):
        """Finds the last candidate that stays, and the first that is a number."""
        before = T.alloc_local((1,), _I32)
        upto = T.alloc_local((1,), _I32)
        other = T.alloc_local((1,), _U32)
        before[0] = 0
        upto[0] = 0
        first[0] = T.uint32(_LAST)
        for j in T.serial(number[0]):
            other[0] = words[_RANKS, j]
            before[0] += T.if_then_else(other[0] < mine[0], 1, 0)
            upto[0] += T.if_then_else(other[0] <= mine[0], 1, 0)
            first[0] = T.min(first[0], other[0] - T.uint32(1))  # which of NaN is the last
        first[0] += T.uint32(1)
        if T.And(thread < number[0], T.And(before[0] < most, most <= upto[0])):
            found[0] = T.cast(mine[0], _U64)
        T.sync_threads()

    @T.macro
    def by_mass(mine, number, least, top, share, memory, thread):
        """Finds the last of those from `least` on with less than a share of their mass above it."""
        words, masses, found = memory
        mass = T.alloc_local((1,), _U64)
        above = T.alloc_local((1,), _U64)
        upto = T.alloc_local((1,), _U64)
        total = T.alloc_local((1,), _U64)
        mass[0] = T.uint64(0)
        if T.And(thread < number[0], ranked(mine[0]) >= least[0]):
            mass[0] = mass_of(ranked(mine[0]), top[0])
        masses[thread] = mass[0]
        T.sync_threads()
        above[0] = T.uint64(0)
        upto[0] = T.uint64(0)
        total[0] = T.uint64(0)
        for j in T.serial(number[0]):
            mass[0] = masses[j]
            total[0] += mass[0]
            above[0] += T.if_then_else(words[_RANKS, j] < mine[0], mass[0], T.uint64(0))
            upto[0] += T.if_then_else(words[_RANKS, j] <= mine[0], mass[0], T.uint64(0))
        mass[0] = share_of(share, total[0])
        if T.And(thread < number[0], T.And(above[0] < mass[0], mass[0] <= upto[0])):
            found[0] = T.cast(mine[0], _U64)
        T.sync_threads()

    @T.macro
    def settle(settled, least, most, share, row, memory, thread):
        words, _, found = memory
        mine = T.alloc_local((1,), _U32)
        number = T.alloc_local((1,), _I32)
        first = T.alloc_local((1,), _U32)
        top = T.alloc_local((1,), F32)
        gather(mine, number, least, row, words, thread)
        if number[0] <= how.threads:
            settled[0] = 1
            by_count(mine, number, most, words, found, first, thread)
            least[0] = ranked(T.cast(found[0], _U32))
            if has_p:
                top[0] = ranked(first[0])
                if masks(share):
                    if has_share(share, top[0]):
                        by_mass(mine, number, least, top, share, memory, thread)
                        least[0] = ranked(T.cast(found[0], _U32))
                    else:
                        least[0] = ranked(T.uint32(0))

    return settle
