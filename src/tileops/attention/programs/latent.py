"""TileLang program of attention by one query of each request over a latent cache, on Hopper.

The latent part of an entry is key and value at once, so a tile is read once for both. A block owns
64 heads and walks its part of the entries two tiles at a time, last first. Warpgroup 0 scores the
even tiles and keeps the left half of the result, warpgroup 1 the odd tiles and the right half; each
multiplies both tiles' weights with its half of the values, and gets the other's weights through
shared memory. While one is in its softmax, the other feeds the tensor cores. A warp refills each
quarter, of an even or odd tile and a left or right half, as soon as its last reader is done.

Requests, entries and parts are run-time values; the rest is compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from math import e, log2

import tilelang.language as T

from tileops._programs.program import Program
from tileops.attention.programs.parts import take_part
from tileops.attention.programs.softmax import FLOOR, PANEL, ROWS, WARP, WARPGROUP, WARPS, release

COLUMNS = 64
"""Entries of a tile."""
_SUMS_BARRIER, _LEFT_BARRIER, _RIGHT_BARRIER = 8, 9, 10  # named; lower ones are the compiler's
FEW, MANY = 24, 240  # registers of threads that copy, and that multiply
_SETTINGS = {"tl.enable_fast_math": True, "tl.disable_buffer_init_check": True}


@dataclass(frozen=True)
class Latent:
    """What attends.

    Args:
        heads: query heads.
        size: channels of the latent part, a multiple of 128.
        rope: channels of the rotated part, 64.
        dtype: `"float16"` or `"bfloat16"`.
        scale: factor of the scores, positive.
    """

    heads: int
    size: int
    rope: int
    dtype: str
    scale: float

    @property
    def half(self) -> int:
        """Channels of the left half."""
        return self.size // 2

    @property
    def panels(self) -> int:
        """Copies that fill a half."""
        return self.half // PANEL


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _producer(latent: Latent):
    """Makes the macro by which one warp copies the queries, then the quarters of each pair."""
    D, half, panels = latent.size, latent.half, latent.panels

    @T.macro
    def fetch(C, Xs, full, b, row, column):
        for j in T.unroll(panels):
            T.tma_copy(
                C[b, row : row + COLUMNS, column + j * PANEL : column + j * PANEL + PANEL],
                Xs[:, j * PANEL : j * PANEL + PANEL],
                barrier=full[j],
            )
            if T.shuffle_elect(WARP):
                T.barrier_arrive(full[j])

    @T.macro
    def fetch_rope(R, Xs, full, b, row):
        T.tma_copy(R[b, row : row + COLUMNS, :], Xs, barrier=full)
        if T.shuffle_elect(WARP):
            T.barrier_arrive(full)

    @T.macro
    def produce(
        Q, QR, C, R, Ql, Qr, Qp, L0, R0, P0, L1, R1, P1, q_full, l0_full, r0_full, p0_full,
        l1_full, r1_full, p1_full, l0_empty, r0_empty, l1_empty, r1_empty, b, head, begin, end,
    ):
        T.tma_copy(Q[b, head : head + ROWS, 0:half], Ql, barrier=q_full)
        T.tma_copy(Q[b, head : head + ROWS, half:D], Qr, barrier=q_full)
        T.tma_copy(QR[b, head : head + ROWS, :], Qp, barrier=q_full)
        if T.shuffle_elect(WARP):
            T.barrier_arrive(q_full)
        for k in T.serial(end - begin):
            row = T.alloc_var("int32", init=0)
            row = (end - 1 - k) * 2 * COLUMNS
            T.barrier_wait(l0_empty, (k + 1) % 2)
            fetch(C, L0, l0_full, b, row, 0)
            fetch_rope(R, P0, p0_full, b, row)
            T.barrier_wait(r1_empty, (k + 1) % 2)
            fetch(C, R1, r1_full, b, row + COLUMNS, half)
            fetch_rope(R, P1, p1_full, b, row + COLUMNS)
            T.barrier_wait(r0_empty, (k + 1) % 2)
            fetch(C, R0, r0_full, b, row, half)
            T.barrier_wait(l1_empty, (k + 1) % 2)
            fetch(C, L1, l1_full, b, row + COLUMNS, 0)

    return produce


def _scores(latent: Latent):
    """Makes the macros that multiply queries and a tile: by the near half, then far and rotated."""

    @T.macro
    def near(Qn, Xn, full, S, phase):
        for j in T.unroll(latent.panels):
            T.barrier_wait(full[j], phase)
            T.wgmma_gemm(
                Qn[:, j * PANEL : j * PANEL + PANEL], Xn[:, j * PANEL : j * PANEL + PANEL], S,
                transpose_B=True, clear_accum=(j == 0),
            )

    @T.macro
    def far(Qx, Xx, full, rope, Xp, p_full, S, phase):
        for j in T.unroll(latent.panels):
            T.barrier_wait(full[j], phase)
            T.wgmma_gemm(
                Qx[:, j * PANEL : j * PANEL + PANEL], Xx[:, j * PANEL : j * PANEL + PANEL], S,
                transpose_B=True,
            )
        T.barrier_wait(p_full, phase)
        T.wgmma_gemm(rope, Xp, S, transpose_B=True)

    @T.macro
    def hide(S, first, entries):
        for i, j in T.Parallel(ROWS, COLUMNS):
            S[i, j] = T.if_then_else(first + j < entries, S[i, j], -T.infinity("float32"))

    return near, far, hide


def _even(latent: Latent):
    """Makes the macro by which warpgroup 0 takes a pair of tiles, and scores its next tile."""
    half, scale = latent.half, latent.scale * log2(e)
    near, far, _ = _scores(latent)

    @T.macro
    def advance(
        Ql, Qr, rope, L0, R0, P0, L1, l0_full, r0_full, p0_full, l0_empty, l1_empty,
        even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0, W1,
        S, P, A, m, last, sums, part, shrink, shrink_odd, thread, k, is_last,
    ):
        T.copy(maxima, last)
        T.reduce_max(S, m, dim=1)
        for i in T.Parallel(ROWS):
            m[i] = T.max(m[i] * scale, last[i])
        for i in T.Parallel(ROWS):
            shrink[i] = T.exp2(last[i] - m[i])
        T.copy(m, maxima)
        T.copy(shrink, shrinks0)
        T.barrier_arrive(even_max)
        for i, j in T.Parallel(ROWS, COLUMNS):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.copy(S, P)
        for i, j in T.Parallel(ROWS, half):
            A[i, j] *= shrink[i]
        T.wgmma_gemm(P, L0, A)
        T.reduce_sum(S, part, dim=1)
        for i in T.Parallel(ROWS):
            sums[i] = sums[i] * shrink[i] + part[i]
        T.barrier_wait(odd_max, k % 2)
        T.copy(shrinks1, shrink_odd)
        for i, j in T.Parallel(ROWS, COLUMNS):
            S[i, j] = S[i, j] * shrink_odd[i]
        T.copy(S, W0)
        T.fence_proxy_async()
        T.barrier_arrive(even_weights)
        for i in T.Parallel(ROWS):
            sums[i] = sums[i] * shrink_odd[i]
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=half // 2)
        release(l0_empty, 0, thread)
        for i, j in T.Parallel(ROWS, half):
            A[i, j] *= shrink_odd[i]
        T.barrier_wait(odd_weights, k % 2)
        T.wgmma_gemm(W1, L1, A)
        if not is_last:
            near(Ql, L0, l0_full, S, (k + 1) % 2)
            T.wait_wgmma(latent.panels)
            T.warpgroup_fence_operand(A, num_regs=half // 2)
            release(l1_empty, 0, thread)
            far(Qr, R0, r0_full, rope, P0, p0_full, S, (k + 1) % 2)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=half // 2)
        T.warpgroup_fence_operand(S, num_regs=COLUMNS // 2)

    return advance


def _odd(latent: Latent):
    """Makes the macro by which warpgroup 1 takes a pair of tiles, and scores its next tile."""
    half, scale = latent.half, latent.scale * log2(e)
    near, far, _ = _scores(latent)

    @T.macro
    def advance(
        Ql, Qr, rope, L1, R1, P1, R0, l1_full, r1_full, p1_full, r0_empty, r1_empty,
        even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0, W1,
        S, P, A, m, last, sums, part, shrink, shrink_even, thread, k, is_last,
    ):
        T.reduce_max(S, m, dim=1)
        T.barrier_wait(even_max, k % 2)
        T.copy(maxima, last)
        T.copy(shrinks0, shrink_even)
        for i in T.Parallel(ROWS):
            m[i] = T.max(m[i] * scale, last[i])
        for i in T.Parallel(ROWS):
            shrink[i] = T.exp2(last[i] - m[i])
        T.copy(m, maxima)
        T.copy(shrink, shrinks1)
        T.barrier_arrive(odd_max)
        for i, j in T.Parallel(ROWS, COLUMNS):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.copy(S, P)
        T.copy(P, W1)
        T.fence_proxy_async()
        T.barrier_arrive(odd_weights)
        for i in T.Parallel(ROWS):
            shrink_even[i] = shrink_even[i] * shrink[i]
        for i, j in T.Parallel(ROWS, half):
            A[i, j] *= shrink_even[i]
        T.wgmma_gemm(P, R1, A)
        T.reduce_sum(S, part, dim=1)
        for i in T.Parallel(ROWS):
            sums[i] = sums[i] * shrink_even[i] + part[i]
        T.barrier_wait(even_weights, k % 2)
        T.wgmma_gemm(W0, R0, A)
        T.wait_wgmma(1)
        release(r1_empty, 0, thread)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=half // 2)
        release(r0_empty, 0, thread)
        if not is_last:  # the right half is refilled first, so it is read first
            near(Qr, R1, r1_full, S, (k + 1) % 2)
            far(Ql, L1, l1_full, rope, P1, p1_full, S, (k + 1) % 2)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(S, num_regs=COLUMNS // 2)

    return advance


def _finish(latent: Latent, barrier: int, first: int):
    """Makes the macro by which a warpgroup ends: its half of the result, divided, is stored.

    Args:
        latent: what attends.
        barrier: the warpgroup's named barrier.
        first: the channel where its half begins.
    """
    H, D, half = latent.heads, latent.size, latent.half

    @T.macro
    def finish(
        A, m, sums, others, own, their, Os, Partial, Lse, Out, b, head, split, splits,
    ):
        T.copy(sums, own)
        T.sync_threads(_SUMS_BARRIER, 2 * WARPGROUP)
        T.copy(their, others)
        for i in T.Parallel(ROWS):
            sums[i] = sums[i] + others[i]
        if first and splits > 1:
            for i in T.Parallel(ROWS):
                if head + i < H:
                    Lse[(b * H + head + i) * splits + split] = T.if_then_else(
                        sums[i] == 0.0, FLOOR, m[i] + T.log2(sums[i])
                    )
        for i in T.Parallel(ROWS):
            sums[i] = T.if_then_else(sums[i] == 0.0, 0.0, 1.0 / sums[i])
        for i, j in T.Parallel(ROWS, half):
            A[i, j] = A[i, j] * sums[i]
        if splits == 1:  # through the queries' buffer: narrow stores of registers are slow
            T.copy(A, Os)
            T.fence_proxy_async()
            T.sync_threads(barrier, WARPGROUP)
            T.tma_copy(Os, Out[b, head : head + ROWS, first : first + half])
            if T.shuffle_elect(WARPGROUP):
                T.tma_store_wait(0)
        else:
            for i, j in T.Parallel(ROWS, half):
                if head + i < H:
                    Partial[((b * H + head + i) * splits + split) * D + first + j] = A[i, j]

    return finish


def _left(latent: Latent):
    """Makes the macro that is warpgroup 0."""
    half = latent.half
    near, far, hide = _scores(latent)
    advance = _even(latent)
    finish = _finish(latent, _LEFT_BARRIER, 0)

    @T.macro
    def run(
        Ql, Qr, Qp, L0, R0, P0, L1, q_full, l0_full, r0_full, p0_full, l0_empty, l1_empty,
        even_max, odd_max, even_weights, odd_weights, rope_read, maxima, shrinks0, shrinks1,
        sums0, sums1, W0, W1, Partial, Lse, Out, b, head, split, splits, begin, end, entries,
        thread,
    ):
        rope = T.alloc_fragment((ROWS, latent.rope), latent.dtype)
        S = T.alloc_fragment((ROWS, COLUMNS), "float32")
        P = T.alloc_fragment((ROWS, COLUMNS), latent.dtype)
        A = T.alloc_fragment((ROWS, half), "float32")
        m = T.alloc_fragment((ROWS,), "float32")
        last = T.alloc_fragment((ROWS,), "float32")
        sums = T.alloc_fragment((ROWS,), "float32")
        part = T.alloc_fragment((ROWS,), "float32")
        shrink = T.alloc_fragment((ROWS,), "float32")
        shrink_odd = T.alloc_fragment((ROWS,), "float32")
        T.fill(A, 0)
        T.fill(sums, 0)
        T.fill(m, FLOOR)
        T.fill(last, FLOOR)
        T.copy(last, maxima)
        T.barrier_wait(q_full, 0)
        T.copy(Qp, rope)
        T.barrier_arrive(rope_read)
        for _ in T.serial(T.min(end - begin, 1)):  # whole, where an if would be split up
            near(Ql, L0, l0_full, S, 0)
            far(Qr, R0, r0_full, rope, P0, p0_full, S, 0)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(S, num_regs=COLUMNS // 2)
            hide(S, (end - 1) * 2 * COLUMNS, entries)
            for k in T.serial(end - begin - 1):
                advance(
                    Ql, Qr, rope, L0, R0, P0, L1, l0_full, r0_full, p0_full, l0_empty, l1_empty,
                    even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0,
                    W1, S, P, A, m, last, sums, part, shrink, shrink_odd, thread, k, False,
                )
            advance(
                Ql, Qr, rope, L0, R0, P0, L1, l0_full, r0_full, p0_full, l0_empty, l1_empty,
                even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0, W1,
                S, P, A, m, last, sums, part, shrink, shrink_odd, thread, end - begin - 1, True,
            )
        finish(A, m, sums, part, sums0, sums1, Ql, Partial, Lse, Out, b, head, split, splits)

    return run


def _right(latent: Latent):
    """Makes the macro that is warpgroup 1."""
    half = latent.half
    near, far, hide = _scores(latent)
    advance = _odd(latent)
    finish = _finish(latent, _RIGHT_BARRIER, half)

    @T.macro
    def run(
        Ql, Qr, Qp, L1, R1, P1, R0, q_full, l1_full, r1_full, p1_full, r0_empty, r1_empty,
        even_max, odd_max, even_weights, odd_weights, rope_read, maxima, shrinks0, shrinks1,
        sums0, sums1, W0, W1, Partial, Lse, Out, b, head, split, splits, begin, end, entries,
        thread,
    ):
        rope = T.alloc_fragment((ROWS, latent.rope), latent.dtype)
        S = T.alloc_fragment((ROWS, COLUMNS), "float32")
        P = T.alloc_fragment((ROWS, COLUMNS), latent.dtype)
        A = T.alloc_fragment((ROWS, half), "float32")
        m = T.alloc_fragment((ROWS,), "float32")
        last = T.alloc_fragment((ROWS,), "float32")
        sums = T.alloc_fragment((ROWS,), "float32")
        part = T.alloc_fragment((ROWS,), "float32")
        shrink = T.alloc_fragment((ROWS,), "float32")
        shrink_even = T.alloc_fragment((ROWS,), "float32")
        T.fill(A, 0)
        T.fill(sums, 0)
        T.fill(m, FLOOR)
        T.barrier_wait(q_full, 0)
        T.copy(Qp, rope)
        T.barrier_arrive(rope_read)
        T.barrier_wait(rope_read, 0)  # both hold the rotated part: its buffer may be overwritten
        for _ in T.serial(T.min(end - begin, 1)):
            near(Qr, R1, r1_full, S, 0)
            far(Ql, L1, l1_full, rope, P1, p1_full, S, 0)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(S, num_regs=COLUMNS // 2)
            hide(S, (end - 1) * 2 * COLUMNS + COLUMNS, entries)
            for k in T.serial(end - begin - 1):
                advance(
                    Ql, Qr, rope, L1, R1, P1, R0, l1_full, r1_full, p1_full, r0_empty, r1_empty,
                    even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0,
                    W1, S, P, A, m, last, sums, part, shrink, shrink_even, thread, k, False,
                )
            advance(
                Ql, Qr, rope, L1, R1, P1, R0, l1_full, r1_full, p1_full, r0_empty, r1_empty,
                even_max, odd_max, even_weights, odd_weights, maxima, shrinks0, shrinks1, W0, W1,
                S, P, A, m, last, sums, part, shrink, shrink_even, thread, end - begin - 1, True,
            )
        finish(A, m, sums, part, sums1, sums0, Qr, Partial, Lse, Out, b, head, split, splits)

    return run


def build_latent_decode(latent: Latent) -> Program:
    """Attention of one query of each request over its latent entries.

    Tensors: `Q [B, H, D]`, `QR [B, H, R]`, `C [B, N, D]`, `R [B, N, R]`, `Partial
    [B * H * splits * D]` and `Lse [B * H * splits]` float32, `Out [B, H, D]`; contiguous, 16-byte
    aligned, none empty. With one split `Out` is written and the two before it are any memory, else
    these two are.

    Args:
        latent: what attends.
    """
    H, D, DR, dtype, half = latent.heads, latent.size, latent.rope, latent.dtype, latent.half
    cuts = -(-H // ROWS)
    produce, left, right = _producer(latent), _left(latent), _right(latent)
    B, N, area, height = T.dynamic("B"), T.dynamic("N"), T.dynamic("area"), T.dynamic("height")

    @T.prim_func
    def decode(
        Q: T.Tensor((B, H, D), dtype),
        QR: T.Tensor((B, H, DR), dtype),
        C: T.Tensor((B, N, D), dtype),
        R: T.Tensor((B, N, DR), dtype),
        Partial: T.Tensor((area,), "float32"),
        Lse: T.Tensor((height,), "float32"),
        Out: T.Tensor((B, H, D), dtype),
        splits: T.int32,
    ):
        with T.Kernel(B * splits * cuts, threads=3 * WARPGROUP) as block:
            T.pdl_trigger()
            Ql = T.alloc_shared((ROWS, half), dtype)
            Qr = T.alloc_shared((ROWS, half), dtype)
            Qp = T.alloc_shared((ROWS, DR), dtype)
            L0 = T.alloc_shared((COLUMNS, half), dtype)
            R0 = T.alloc_shared((COLUMNS, half), dtype)
            P0 = T.alloc_shared((COLUMNS, DR), dtype)
            L1 = T.alloc_shared((COLUMNS, half), dtype)
            R1 = T.alloc_shared((COLUMNS, half), dtype)
            P1 = T.alloc_shared((COLUMNS, DR), dtype)
            W0 = T.alloc_shared((ROWS, COLUMNS), dtype)
            W1 = Qp  # the rotated part of the queries moves to registers
            maxima = T.alloc_shared((ROWS,), "float32")
            shrinks0 = T.alloc_shared((ROWS,), "float32")
            shrinks1 = T.alloc_shared((ROWS,), "float32")
            sums0 = T.alloc_shared((ROWS,), "float32")
            sums1 = T.alloc_shared((ROWS,), "float32")
            q_full = T.alloc_barrier(1)
            l0_full = T.alloc_barrier([1] * latent.panels)
            r0_full = T.alloc_barrier([1] * latent.panels)
            p0_full = T.alloc_barrier(1)
            l1_full = T.alloc_barrier([1] * latent.panels)
            r1_full = T.alloc_barrier([1] * latent.panels)
            p1_full = T.alloc_barrier(1)
            l0_empty = T.alloc_barrier([WARPS])
            r0_empty = T.alloc_barrier([WARPS])
            l1_empty = T.alloc_barrier([WARPS])
            r1_empty = T.alloc_barrier([WARPS])
            even_max = T.alloc_barrier(WARPGROUP)
            odd_max = T.alloc_barrier(WARPGROUP)
            even_weights = T.alloc_barrier(WARPGROUP)
            odd_weights = T.alloc_barrier(WARPGROUP)
            rope_read = T.alloc_barrier(2 * WARPGROUP)
            thread = T.get_thread_binding()
            b = T.alloc_var("int32", init=0)
            split = T.alloc_var("int32", init=0)
            head = T.alloc_var("int32", init=0)
            begin = T.alloc_var("int32", init=0)
            end = T.alloc_var("int32", init=0)
            head = block % cuts * ROWS
            b = T.truncdiv(block // cuts, splits)
            split = block // cuts - b * splits
            end = T.ceildiv(N, 2 * COLUMNS)
            take_part(0, split, splits, begin, end)
            if thread >= 2 * WARPGROUP:
                T.dec_max_nreg(FEW)
                if thread < 2 * WARPGROUP + WARP:
                    produce(
                        Q, QR, C, R, Ql, Qr, Qp, L0, R0, P0, L1, R1, P1, q_full, l0_full, r0_full,
                        p0_full, l1_full, r1_full, p1_full, l0_empty, r0_empty, l1_empty, r1_empty,
                        b, head, begin, end,
                    )
            elif thread < WARPGROUP:
                T.inc_max_nreg(MANY)
                left(
                    Ql, Qr, Qp, L0, R0, P0, L1, q_full, l0_full, r0_full, p0_full, l0_empty,
                    l1_empty, even_max, odd_max, even_weights, odd_weights, rope_read, maxima,
                    shrinks0, shrinks1, sums0, sums1, W0, W1, Partial, Lse, Out, b, head, split,
                    splits, begin, end, N, thread,
                )
            else:
                T.inc_max_nreg(MANY)
                right(
                    Ql, Qr, Qp, L1, R1, P1, R0, q_full, l1_full, r1_full, p1_full, r0_empty,
                    r1_empty, even_max, odd_max, even_weights, odd_weights, rope_read, maxima,
                    shrinks0, shrinks1, sums0, sums1, W0, W1, Partial, Lse, Out, b, head, split,
                    splits, begin, end, N, thread,
                )

    return Program(decode, _SETTINGS)
# fmt: on
