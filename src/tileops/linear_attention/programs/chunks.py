"""The program that runs a gated delta rule a chunk at a time, on Hopper's tensor cores.

One launch inverts the systems of all chunks. In the next a warpgroup keeps 64 columns of a head's
state in registers from the first chunk to the last, while a warp copies ahead what it reads. The
state is turned, columns by channels of the key: so is all that is made of it, and each product
takes what the one before left in registers. Numbers that are not given in 16 bits, the state above
all, are multiplied as the sum of two that are.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T
from tilelang.layout import make_full_bank_swizzled_layout

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, as_float
from tileops.gemm.programs.ring import ROWS, WARP, WARPGROUP, WARPS, advance
from tileops.linear_attention.programs.chunk_systems import (
    FACTORS,
    INVERSE,
    KEPT,
    LAST,
    MATRICES,
    READ,
    REST,
    TAKEN,
    WEIGHTS,
    chunk_preparer,
)
from tileops.linear_attention.programs.sequences import (
    CHUNK,
    chunk_locator,
    sequence_locator,
    slot_count,
    tail_cleaner,
)
from tileops.linear_attention.programs.tokens import Recurrence

COLUMNS = ROWS
"""Columns of the state that a block keeps."""

_STAGES = 3
SETTINGS = {
    **GUARDED,
    "tl.disable_thread_storage_sync": True,
    "tl.disable_buffer_init_check": True,
}
_STORE_BARRIER, _CLEAN_BARRIER = 8, 9
_ACCUMULATORS = CHUNK // 2  # registers of a product of 64 by 64
_PANEL = {"policy": T.GemmWarpPolicy.FullRow}


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _producer(how: Recurrence):
    """Makes the macro by which one warp copies chunk after chunk into the ring."""
    group = how.value_heads // how.heads

    @T.macro
    def produce(
        Q, K, V, X, F, Qs, Ks, Vs, Xs, Fs, full, empty, b, head, left, begin, place, chunks,
    ):
        slot = T.alloc_var("int32", init=0)
        phase = T.alloc_var("int32", init=0)
        T.pdl_sync()
        for n in T.serial(chunks):
            first = begin + n * CHUNK
            T.barrier_wait(empty[slot], 1 - phase)
            T.tma_copy(
                K[b, first : first + CHUNK, head // group, :], Ks[slot, :, :], barrier=full[slot]
            )
            T.tma_copy(
                V[b, first : first + CHUNK, head, left : left + COLUMNS], Vs[slot, :, :],
                barrier=full[slot],
            )
            for m in tuple(range(MATRICES)):
                T.tma_copy(
                    X[place + n, m, :, :], Xs[slot * MATRICES + m, :, :], barrier=full[slot]
                )
            T.tma_copy(F[place + n, :, :], Fs[slot, :, :], barrier=full[slot])
            T.tma_copy(
                Q[b, first : first + CHUNK, head // group, :], Qs[slot, :, :], barrier=full[slot]
            )
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full[slot])
            advance(slot, phase, _STAGES)

    return produce


def _taker(how: Recurrence):
    """Makes the macros that pass a chunk through the columns of the state in registers.

    All is turned: rows are columns of the state. `take` solves for what the tokens take up, and
    `add` begins to add it to the state; between them `read` becomes the result. Of what the state
    depends on, a factor is split into `x[0]`, rounded, and `x[1]`, what rounding left; results are
    rounded themselves, so rounded factors suffice them.
    """
    dim = how.key_dim
    clean = tail_cleaner(dim)

    @T.macro
    def split(number, x, columns):
        T.copy(number, x[0])
        for c, i in T.Parallel(COLUMNS, columns):
            x[1][c, i] = number[c, i] - as_float(x[0][c, i])

    @T.macro
    def multiply(x, B, to, clear=False):
        """`to += x Bᵀ`, from zeros where `clear`."""
        T.wgmma_gemm(x, B, to, transpose_B=True, clear_accum=clear, **_PANEL)

    @T.macro
    def take(Qs, Ks, Vs, Xs, Fs, state, held, value, part, taken, read, slot, count):
        if how.is_packed:
            for _ in T.serial(T.if_then_else(count < CHUNK, 1, 0)):
                clean(Ks, (slot,), count)
                T.sync_threads(_CLEAN_BARRIER, WARPGROUP)
        split(state, held, dim)
        multiply(held[0], Ks[slot, :, :], taken, clear=True)
        multiply(held[1], Ks[slot, :, :], taken)
        multiply(held[0], Qs[slot, :, :], read, clear=True)
        for c, i in T.Parallel(COLUMNS, CHUNK):
            value[c, i] = (
                T.if_then_else(i < count, Vs[slot, i, c], T.cast(0, how.dtype))
                if how.is_packed
                else Vs[slot, i, c]
            )
        T.wait_wgmma(1)
        T.warpgroup_fence_operand(taken, num_regs=_ACCUMULATORS)
        for c, i in T.Parallel(COLUMNS, CHUNK):
            taken[c, i] = as_float(value[c, i]) - Fs[slot, TAKEN, i] * taken[c, i]
        split(taken, part, CHUNK)
        multiply(part[0], Xs[slot * MATRICES + INVERSE, :, :], taken, clear=True)
        multiply(part[1], Xs[slot * MATRICES + INVERSE, :, :], taken)
        multiply(part[0], Xs[slot * MATRICES + REST, :, :], taken)
        T.wait_wgmma(3)
        T.warpgroup_fence_operand(read, num_regs=_ACCUMULATORS)
        for c, i in T.Parallel(COLUMNS, CHUNK):
            read[c, i] *= Fs[slot, READ, i]
        for c, d in T.Parallel(COLUMNS, dim):
            state[c, d] *= Fs[slot, LAST, 0]
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(taken, num_regs=_ACCUMULATORS)

    @T.macro
    def add(Ks, Xs, Fs, state, rounded, part, taken, read, slot):
        T.copy(taken, rounded)
        multiply(rounded, Xs[slot * MATRICES + WEIGHTS, :, :], read)
        for c, i in T.Parallel(COLUMNS, CHUNK):
            taken[c, i] *= Fs[slot, KEPT, i]
        split(taken, part, CHUNK)
        T.wgmma_gemm(part[0], Ks[slot, :, :], state, **_PANEL)
        T.wgmma_gemm(part[1], Ks[slot, :, :], state, **_PANEL)
        T.wait_wgmma(2)
        T.warpgroup_fence_operand(read, num_regs=_ACCUMULATORS)

    return take, add


def _writer():
    """Makes the macros that store what a chunk's tokens read, of all of them and of some."""

    @T.macro
    def write(read, Os, O, b, head, first, left):  # noqa: E741
        if T.shuffle_elect(WARPGROUP):
            T.tma_store_wait(0)
        T.sync_threads(_STORE_BARRIER, WARPGROUP)
        for c, i in T.Parallel(COLUMNS, CHUNK):
            Os[i, c] = read[c, i]
        T.fence_proxy_async()
        T.sync_threads(_STORE_BARRIER, WARPGROUP)
        T.tma_copy(
            Os, O[b, first : first + CHUNK, head, left : left + COLUMNS],
            leader_scope_threads=WARPGROUP,
        )

    @T.macro
    def write_some(read, O, b, head, first, left, count):  # noqa: E741
        """What `count` tokens read, from registers: the next sequence lies behind them."""
        for c, i in T.Parallel(COLUMNS, CHUNK):
            if i < count:
                O[b, first + i, head, left + c] = read[c, i]

    return write, write_some


def _consumer(how: Recurrence, keeps: bool):
    """Makes the macro by which a warpgroup takes all chunks, and stores what is read of them."""
    dim, dtype = how.key_dim, how.dtype
    take, add = _taker(how)
    write, write_some = _writer()

    @T.macro
    def store(state, R, b, place, left):
        for c, d in T.Parallel(COLUMNS, dim):
            if how.is_v_first:
                R[b, place, left + c, d] = state[c, d]
            else:
                R[b, place, d, left + c] = state[c, d]

    @T.macro
    def consume(
        S, O, R, Qs, Ks, Vs, Xs, Fs, Os, full, empty, b, n, head, left, begin, count, thread,  # noqa: E741
    ):
        state = T.alloc_fragment((COLUMNS, dim), F32)
        high = T.alloc_fragment((COLUMNS, dim), dtype)
        low = T.alloc_fragment((COLUMNS, dim), dtype)
        value = T.alloc_fragment((COLUMNS, CHUNK), dtype)
        part = T.alloc_fragment((COLUMNS, CHUNK), dtype)
        rest = T.alloc_fragment((COLUMNS, CHUNK), dtype)
        taken = T.alloc_fragment((COLUMNS, CHUNK), F32)
        read = T.alloc_fragment((COLUMNS, CHUNK), F32)
        slot = T.alloc_var("int32", init=0)
        phase = T.alloc_var("int32", init=0)
        if how.has_state:
            for c, d in T.Parallel(COLUMNS, dim):
                state[c, d] = S[n, head, left + c, d] if how.is_v_first else S[n, head, d, left + c]
        else:
            T.fill(state, 0)
        if keeps:
            store(state, R, n, 0, left)
        for m in T.serial(T.ceildiv(count, CHUNK)):
            T.barrier_wait(full[slot], phase)
            take(
                Qs, Ks, Vs, Xs, Fs, state, (high, low), value, (part, rest), taken, read, slot,
                count - m * CHUNK,
            )
            add(Ks, Xs, Fs, state, value, (part, rest), taken, read, slot)
            if how.is_packed:
                if count - m * CHUNK < CHUNK:
                    write_some(read, O, b, head, begin + m * CHUNK, left, count - m * CHUNK)
                else:
                    write(read, Os, O, b, head, begin + m * CHUNK, left)
            else:
                write(read, Os, O, b, head, m * CHUNK, left)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(state, num_regs=dim // 2)
            if thread % WARP == 0:
                T.barrier_arrive(empty[slot])
            advance(slot, phase, _STAGES)
            if keeps:
                store(state, R, n, m + 1, left)
        if not keeps:
            store(state, R, n, head, left)
        if T.shuffle_elect(WARPGROUP):
            T.tma_store_wait(0)

    return consume
# fmt: on


def state_launch(how: Recurrence, keeps: bool = False):
    """Makes the macro that is the launch which carries states through all chunks.

    Args:
        how: what is done with each token.
        keeps: whether `R` of a batch entry, of one head, holds the states at all bounds of chunks,
            and not those of all heads after the last.
    """
    produce, consume = _producer(how), _consumer(how, keeps)
    locate = sequence_locator(how.is_packed)
    HV, dim, dtype = how.value_heads, how.key_dim, how.dtype

    @T.macro
    def carry(Q, K, V, starts, X, F, S, O, R, N, length):  # noqa: E741
        with T.Kernel(how.value_dim // COLUMNS, HV, N, threads=WARPGROUP + WARP) as (part, head, n):
            Ks = T.alloc_shared((_STAGES, CHUNK, dim), dtype)
            Qs = T.alloc_shared((_STAGES, CHUNK, dim), dtype)
            Vs = T.alloc_shared((_STAGES, CHUNK, COLUMNS), dtype)
            Xs = T.alloc_shared((_STAGES * MATRICES, CHUNK, CHUNK), dtype)
            Fs = T.alloc_shared((_STAGES, FACTORS, CHUNK), F32)
            Os = T.alloc_shared((CHUNK, COLUMNS), dtype)
            T.annotate_layout(
                {Vs: make_full_bank_swizzled_layout(Vs), Os: make_full_bank_swizzled_layout(Os)}
            )
            full = T.alloc_barrier([1] * _STAGES)
            empty = T.alloc_barrier([WARPS] * _STAGES)
            thread = T.get_thread_binding()
            begin = T.alloc_var("int32", init=0)
            count = T.alloc_var("int32", init=0)
            place = T.alloc_var("int32", init=0)
            locate(starts, n, length, begin, count, place)
            b = 0 if how.is_packed else n
            left = part * COLUMNS
            if thread >= WARPGROUP:
                place += (b * HV + head) * slot_count(starts, length, how.is_packed)
                produce(
                    Q, K, V, X, F, Qs, Ks, Vs, Xs, Fs, full, empty, b, head, left, begin, place,
                    T.ceildiv(count, CHUNK),
                )  # fmt: skip
            else:
                consume(
                    S, O, R, Qs, Ks, Vs, Xs, Fs, Os, full, empty, b, n, head, left, begin, count,
                    thread,
                )  # fmt: skip

    return carry


def build_chunks(how: Recurrence) -> Program:
    """Each sequence from its state `S` to `R`, 64 tokens after the other.

    Tensors: `Q`, `K` `[B, S, heads, key_dim]` and `V`, `O` `[B, S, value_heads, value_dim]`;
    `G` and `strengths` `[B, S, value_heads]`; `rates` and `biases [value_heads]` in float32, of a
    raw gate; `starts [N + 1]` int64 of packed sequences, N being B of others; `S`, `R`
    `[N, value_heads, ·, ·]` in float32. For what a recurrence does not take `R` stands, which is
    not read. Then, of all slots of all value heads, `X [·, MATRICES, CHUNK, CHUNK]` and, in
    float32, `F [·, FACTORS, CHUNK]`, which are written and read again. All contiguous, 16-byte
    aligned, B, S and N not 0.

    Args:
        how: what is done with each token: a delta rule without a decay or with one for each head,
            of 16-bit tensors, `key_dim` 64 or 128, `value_dim` a multiple
            of 64.
    """
    prepare, carry = chunk_preparer(how), state_launch(how)
    locate = chunk_locator(how.is_packed)
    B, length, places, N, C = (T.dynamic(name) for name in ("B", "length", "places", "N", "C"))
    HV, dim, dtype = how.value_heads, how.key_dim, how.dtype
    keys, values = (B, length, how.heads, dim), (B, length, HV, how.value_dim)
    states = ((N if how.is_packed else B, HV, *how.state_shape), F32)
    gates = ((B, length, HV), dtype) if how.gate == "head" else states

    @T.prim_func
    def run_chunks(
        Q: T.Tensor(keys, dtype),
        K: T.Tensor(keys, dtype),
        V: T.Tensor(values, dtype),
        G: T.Tensor(*gates),
        strengths: T.Tensor((B, length, HV), dtype),
        rates: T.Tensor(*(((HV,), F32) if how.is_raw_gate else states)),
        biases: T.Tensor(*(((HV,), F32) if how.has_gate_bias else states)),
        starts: T.Tensor(*(((C,), "int64") if how.is_packed else states)),
        S: T.Tensor(*states),
        X: T.Tensor((places, MATRICES, CHUNK, CHUNK), dtype),
        F: T.Tensor((places, FACTORS, CHUNK), F32),
        O: T.Tensor(values, dtype),  # noqa: E741
        R: T.Tensor(*states),
    ):
        with T.Kernel(slot_count(starts, length, how.is_packed), HV, B, threads=WARPGROUP) as (
            slot,
            head,
            b,
        ):
            T.pdl_trigger()
            first = T.alloc_var("int32", init=0)
            stop = T.alloc_var("int32", init=0)
            locate(starts, slot, length, first, stop)
            place = (b * HV + head) * slot_count(starts, length, how.is_packed) + slot
            prepare(
                Q, K, G, strengths, rates, biases, X, F, (), b, head, first, stop, place,
                slot + head,
            )  # fmt: skip
        carry(Q, K, V, starts, X, F, S, O, R, N if how.is_packed else B, length)

    return Program(run_chunks, SETTINGS)
