"""TileLang macros that find the logit at which a running sum over the largest ones passes a bound.

Logits are ranked as 32-bit words of which the least stands for the largest logit, NaN before all.
A digit of the rank is found at a time: masses are added up by digit in shared memory, and the digit
is chosen by which the running sum reaches what is wanted. The mass of a logit is 1, or its weight
in fixed point: integers, so that no order of additions is seen.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.rows import WARP, warp_scan
from tileops._programs.vectors import F32, kept
from tileops.sampling.programs.logits import Masking, meeting, peer

_I32, _U32, _U64 = "int32", "uint32", "uint64"
_DIGIT = 11
BINS = 1 << _DIGIT
_LAST = 0xFF800000  # the rank of -inf
_COARSE = 2  # digits of a rank that need not be exact
_ONE = 2.0**41
"""A weight of 1 in fixed point: the masses of 2^22 logits add up to less than 2^64."""
_ZERO_BITS = {"float32": 0, "float16": 13, "bfloat16": 16}  # at the end of numbers in float32

MASSES = """
__device__ __forceinline__ unsigned add(void* word, unsigned mass) {
  return atomicAdd(static_cast<unsigned*>(word), mass);
}
__device__ __forceinline__ void add_mass(void* low, void* high, unsigned long long mass) {
  if (!mass) return;
  unsigned part = static_cast<unsigned>(mass), before = add(low, part);
  unsigned rest = static_cast<unsigned>(mass >> 32) + (before + part < before);
  if (rest) add(high, rest);
}
__device__ __forceinline__ bool not_below(float value, float least) { return !(value < least); }
"""
"""What kernels that add up masses import."""


def rank_of(value):
    """The rank of a float32 among all: the greater, the earlier, NaN first."""
    bits = kept(T.reinterpret(value, _I32))
    turned = T.if_then_else(bits < 0, bits, T.bitwise_xor(bits, 0x7FFFFFFF))
    return T.if_then_else(T.isnan(value), T.uint32(0), T.reinterpret(turned, _U32))


def ranked(rank):
    """The value that has a rank."""
    bits = kept(T.reinterpret(rank, _I32))
    return T.reinterpret(T.if_then_else(bits < 0, bits, T.bitwise_xor(bits, 0x7FFFFFFF)), F32)


def not_below(value, least):
    """Whether a logit may be one of the largest: not less than one of them, or NaN."""
    return T.call_extern("bool", "not_below", value, least)


def add(word, mass):
    """Adds to a word of shared memory, and returns what it was."""
    return T.call_extern(_U32, "add", T.address_of(word), mass)


def mass_of(value, top):
    """The weight of a logit in fixed point."""
    return T.cast(T.exp(value - top) * _ONE, _U64)


def share_of(share, total):
    """The least mass that is a share of the whole or more."""
    return T.cast(T.ceil(T.cast(share, "float64") * T.cast(total, "float64")), _U64)


def masks(share):
    """Whether a share masks anything: not if it is 1 or more, and so if it is NaN."""
    return T.if_then_else(share >= T.float32(1), 0, 1) != 0


def has_share(share, top):
    """Whether anything stays: there is a share, and a softmax."""
    return T.And(share > T.float32(0), T.abs(top) < T.infinity(F32))


def _chooser(how: Masking, blocks: int, weighed: bool):
    """Makes the macro that chooses the first bin by which the running mass reaches `wanted`.

    It leaves the bin, and in `wanted` what remains of it there. Before, where `share` is not
    negative, `wanted` becomes that share of the whole mass.
    """
    held, warps = BINS // how.threads, how.threads // WARP
    scan = warp_scan(lambda a, b: a + b, T.uint64(0))

    @T.macro
    def read(mass, bins, side, thread):
        for j in T.unroll(held):
            mass[j] = T.uint64(0)
            for rank in T.unroll(blocks):
                mass[j] += T.cast(peer(bins[0, side, thread * held + j], rank, blocks), _U64)
                if weighed:
                    high = T.cast(peer(bins[1, side, thread * held + j], rank, blocks), _U64)
                    mass[j] += T.shift_left(high, T.uint64(32))

    @T.macro
    def choose(bins, side, wanted, share, chosen, memory, thread):
        partial, found = memory
        lane, warp = thread % WARP, thread // WARP
        mass = T.alloc_local((held,), _U64)
        running = T.alloc_local((1,), _U64)
        own = T.alloc_local((1,), _U64)
        before = T.alloc_local((1,), _U64)
        read(mass, bins, side, thread)
        own[0] = mass[0]
        for j in T.unroll(1, held):
            own[0] += mass[j]
        scan(own, before, lane)
        running[0] = before[0]
        if lane == WARP - 1:
            partial[warp] = own[0]
        T.sync_threads()
        own[0] = T.uint64(0)
        if lane < warps:
            own[0] = partial[lane]
        scan(own, before, lane)
        running[0] += T.shfl_sync(before[0], warp)
        if weighed:
            before[0] = T.shfl_sync(own[0], WARP - 1)
            if share[0] >= T.float32(0):
                wanted[0] = share_of(share[0], before[0])
                share[0] = T.float32(-1)
        for j in T.unroll(held):
            own[0] = running[0] + mass[j]
            if T.And(running[0] < wanted[0], own[0] >= wanted[0]):
                found[0] = T.cast(thread * held + j, _U64)
                found[1] = wanted[0] - running[0]
            running[0] = own[0]
        T.sync_threads()
        chosen[0] = T.cast(found[0], _U32)
        wanted[0] = found[1]

    return choose


def selector(how: Masking, add_all, *, weighed: bool = False, alone: bool = False):
    """Makes the macro that finds the rank by which the running mass reaches `wanted`.

    `add_all` is one of `adders`. A block `alone` finds that of its own masses, or one a little
    further on, for it leaves out the last digit of long ones.
    """
    blocks = 1 if alone else how.blocks
    meet, choose = meeting(blocks), _chooser(how, blocks, weighed)
    zeros = _ZERO_BITS[how.dtype]
    digits = -(-(32 - zeros) // _DIGIT)
    if alone:
        digits = min(digits, _COARSE)

    @T.macro
    def select(limit, wanted, share, common, least, top, row, thread):
        bins, side, memory = common
        known = T.alloc_local((2,), _U32)
        chosen = T.alloc_local((1,), _U32)
        shift = T.alloc_var(_U32)
        known[0] = T.uint32(0)
        known[1] = T.uint32(0)
        for turn in T.serial(digits):
            shift = T.cast(T.max(32 - _DIGIT * (turn + 1), zeros), _U32)
            add_all((known, shift, bins, side[0], least, top), row, thread)
            meet()
            for j in T.unroll(BINS // how.threads):
                for part in T.unroll(2):
                    bins[part, 1 - side[0], j * how.threads + thread] = T.uint32(0)
            choose(bins, side[0], wanted, share, chosen, memory, thread)
            known[0] = T.bitwise_or(known[0], T.shift_left(chosen[0], shift))
            known[1] = T.bitwise_or(known[1], T.shift_left(T.uint32(BINS - 1), shift))
            side[0] = 1 - side[0]
        # All that is not known is as late as it can be, and nothing later than -inf.
        limit[0] = T.min(T.bitwise_or(known[0], T.bitwise_not(known[1])), T.uint32(_LAST))

    return select


def adders(how: Masking, sweep):
    """Makes the macros that add up masses: of the threads' largest logits, ones, weights."""

    def bin_of(rank, shift):
        return T.cast(T.bitwise_and(T.shift_right(rank, shift), T.uint32(BINS - 1)), _I32)

    @T.macro
    def count(state, x):
        known, shift, bins, side, least, _ = state
        rank = T.alloc_local((1,), _U32)
        if not_below(x, least[0]):
            rank[0] = rank_of(x)
            if T.bitwise_and(rank[0], known[1]) == known[0]:
                add(bins[0, side, bin_of(rank[0], shift)], T.uint32(1))

    @T.macro
    def weigh(state, x):
        known, shift, bins, side, least, top = state
        rank = T.alloc_local((1,), _U32)
        mass = T.alloc_local((1,), _U64)
        if x >= least[0]:
            rank[0] = rank_of(x)
            if T.bitwise_and(rank[0], known[1]) == known[0]:
                place = bin_of(rank[0], shift)
                mass[0] = mass_of(x, top[0])
                low, high = T.address_of(bins[0, side, place]), T.address_of(bins[1, side, place])
                T.call_extern("handle", "add_mass", low, high, mass[0])

    @T.macro
    def add_tops(state, row, thread):
        count(state, state[5][0])

    @T.macro
    def add_ones(state, row, thread):
        sweep(count, state, *row, thread)

    @T.macro
    def add_weights(state, row, thread):
        sweep(weigh, state, *row, thread)

    return add_tops, add_ones, add_weights
