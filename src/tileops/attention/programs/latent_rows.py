"""TileLang program of attention by one query of each request over a narrow latent cache, on Hopper.

The latent part of an entry is key and value at once, so a tile is read once for both. A warpgroup
keeps the whole result of 64 heads; the two of a block share its tiles, and take turns: while one is
in its softmax, the other feeds the tensor cores. Of wider latents, which `latent` serves, a
warpgroup can keep half only.

Requests, entries and parts are run-time values; the rest is compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import Program
from tileops.attention.programs.latent import FEW, MANY, Latent
from tileops.attention.programs.parts import part_writer, take_part
from tileops.attention.programs.prefill import SETTINGS
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
    turns,
)


@dataclass(frozen=True)
class Rows:
    """How heads and entries are cut up.

    Args:
        warpgroups: that multiply, one or two, of 64 heads each.
        columns: entries of a tile.
        stages: buffers of the ring of tiles.
    """

    warpgroups: int
    columns: int
    stages: int

    @property
    def rows(self) -> int:
        """Heads of a tile."""
        return self.warpgroups * ROWS

    @property
    def threads(self) -> int:
        """Threads that multiply."""
        return self.warpgroups * WARPGROUP


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _producer(how: Rows):
    """Makes the macro by which one warp copies the queries, then tiles of entries, last first."""
    BM, BN = how.rows, how.columns
    slot, phase = ring(how.stages)

    @T.macro
    def produce(Q, QR, C, R, Qs, Qp, Cs, Rs, q_full, full, empty, b, head, begin, end):
        step = T.alloc_var("int32", init=0)
        row = T.alloc_var("int32", init=0)
        T.tma_copy(Q[b, head : head + BM, :], Qs, barrier=q_full)
        T.tma_copy(QR[b, head : head + BM, :], Qp, barrier=q_full)
        if T.shuffle_elect(WARP):
            T.barrier_arrive(q_full)
        for t in T.serial(end - begin):
            row = (end - 1 - t) * BN
            T.barrier_wait(empty[slot(step)], 1 - phase(step))
            T.tma_copy(C[b, row : row + BN, :], Cs[slot(step), :, :], barrier=full[slot(step)])
            T.tma_copy(R[b, row : row + BN, :], Rs[slot(step), :, :], barrier=full[slot(step)])
            arrive(full, slot(step))
            step += 1

    return produce


def _consumer(latent: Latent, how: Rows):
    """Makes the macro by which the warpgroups attend to a part of the entries.

    Scores of the next entries are issued before the values of the current ones.
    """
    BM, BN, D = how.rows, how.columns, latent.size
    slot, phase = ring(how.stages)
    heads = Heads(latent.heads, 1, D, latent.dtype, latent.scale)
    _, weigh_first, weigh = online_softmax(heads, BM, BN)
    take_turn, pass_turn = turns(how.warpgroups)
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def score(Qs, Qp, Cs, Rs, S, place):
        T.wgmma_gemm(Qs, Cs[place, :, :], S, transpose_B=True, clear_accum=True, **layout)
        T.wgmma_gemm(Qp, Rs[place, :, :], S, transpose_B=True, **layout)

    @T.macro
    def advance(
        Qs, Qp, Cs, Rs, full, empty, S, P, A, m, last, sums, part, shrink, step: T.Ref, thread,
    ):
        T.barrier_wait(full[slot(step + 1)], phase(step + 1))
        take_turn(thread)
        score(Qs, Qp, Cs, Rs, S, slot(step + 1))
        T.wgmma_gemm(P, Cs[slot(step), :, :], A, **layout)
        pass_turn(thread)
        T.wait_wgmma(1)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        weigh(S, m, last, sums, part, shrink)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)
        release(empty, slot(step), thread)
        T.copy(S, P)
        for i, j in T.Parallel(BM, D):
            A[i, j] *= shrink[i]
        step += 1

    @T.macro
    def attend(
        Qs, Qp, Cs, Rs, full, empty, S, P, A, m, last, sums, part, shrink, thread, begin, end,
        entries,
    ):
        step = T.alloc_var("int32", init=0)
        T.barrier_wait(full[0], 0)
        take_turn(thread)
        score(Qs, Qp, Cs, Rs, S, 0)
        pass_turn(thread)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        for i, j in T.Parallel(BM, BN):
            S[i, j] = T.if_then_else(
                (end - 1) * BN + j < entries, S[i, j], -T.infinity("float32")
            )
        weigh_first(S, m, sums)
        T.copy(S, P)
        for _ in T.serial(end - 1 - begin):
            advance(
                Qs, Qp, Cs, Rs, full, empty, S, P, A, m, last, sums, part, shrink, step, thread
            )
        T.wgmma_gemm(P, Cs[slot(step), :, :], A, **layout)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)

    return attend


def _block(latent: Latent, how: Rows):
    """Makes the macro that is one block: a part of the entries, for the heads of a tile."""
    BM, BN, D, DR = how.rows, how.columns, latent.size, latent.rope
    dtype, stages = latent.dtype, how.stages
    produce, attend = _producer(how), _consumer(latent, how)
    _, pass_turn = turns(how.warpgroups)
    store = part_writer(latent.heads, BM, D)

    @T.macro
    def run(Q, QR, C, R, Partial, Lse, Out, b, head, entries, begin, end, split, splits):
        Qs = T.alloc_shared((BM, D), dtype)
        Qp = T.alloc_shared((BM, DR), dtype)
        Cs = T.alloc_shared((stages, BN, D), dtype)
        Rs = T.alloc_shared((stages, BN, DR), dtype)
        S = T.alloc_fragment((BM, BN), "float32")
        P = T.alloc_fragment((BM, BN), dtype)
        A = T.alloc_fragment((BM, D), "float32")
        m = T.alloc_fragment((BM,), "float32")
        last = T.alloc_fragment((BM,), "float32")
        sums = T.alloc_fragment((BM,), "float32")
        part = T.alloc_fragment((BM,), "float32")
        shrink = T.alloc_fragment((BM,), "float32")
        q_full = T.alloc_barrier(1)
        full = T.alloc_barrier([1] * stages)
        empty = T.alloc_barrier([WARPS * how.warpgroups] * stages)
        thread = T.get_thread_binding()
        if thread >= how.threads:
            T.dec_max_nreg(FEW)
            if thread < how.threads + WARP:
                produce(Q, QR, C, R, Qs, Qp, Cs, Rs, q_full, full, empty, b, head, begin, end)
        else:
            T.inc_max_nreg(MANY)
            if thread >= how.threads - WARPGROUP:
                pass_turn(thread)
            T.fill(A, 0)
            T.fill(sums, 0)
            T.fill(m, FLOOR)
            T.barrier_wait(q_full, 0)
            for _ in T.serial(T.min(end - begin, 1)):  # whole, where an if would be split up
                attend(
                    Qs, Qp, Cs, Rs, full, empty, S, P, A, m, last, sums, part, shrink, thread,
                    begin, end, entries,
                )
            store(
                A, m, sums, part, Partial, Lse, Out, b, head, latent.heads - head, split, splits
            )

    return run
# fmt: on


def build_latent_decode_rows(latent: Latent, *, how: Rows) -> Program:
    """Attention of one query of each request over its latent entries, of up to 256 channels.

    Tensors as `build_latent_decode` has them.

    Args:
        latent: what attends.
        how: how heads and entries are cut up.
    """
    H, D, DR, dtype = latent.heads, latent.size, latent.rope, latent.dtype
    cuts = -(-H // how.rows)
    run = _block(latent, how)
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
        with T.Kernel(B * splits * cuts, threads=how.threads + WARPGROUP) as block:
            T.pdl_trigger()
            b = T.alloc_var("int32", init=0)
            split = T.alloc_var("int32", init=0)
            begin = T.alloc_var("int32", init=0)
            end = T.alloc_var("int32", init=0)
            b = T.truncdiv(block // cuts, splits)
            split = block // cuts - b * splits
            end = T.ceildiv(N, how.columns)
            take_part(0, split, splits, begin, end)
            run(
                Q, QR, C, R, Partial, Lse, Out, b, block % cuts * how.rows, N, begin, end, split,
                splits,
            )  # fmt: skip

    return Program(decode, SETTINGS)
