"""The two products of attention, of which one tile's values and the next one's keys overlap.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops.attention.programs.softmax import Heads, release, ring, turns


def overlapped(heads: Heads, columns: int, stages: int, warpgroups: int):
    """Makes the macros that issue both products, and that await the second.

    The softmax of the next scores is formed between them.

    Args:
        heads: what attends.
        columns: keys of a tile.
        stages: buffers of the rings of keys and of values.
        warpgroups: that multiply, 64 rows each, and take turns.
    """
    slot, phase = ring(stages)
    take_turn, pass_turn = turns(warpgroups)
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    # fmt: off
    @T.macro
    def multiply(Qs, Ks, Vs, k_full, k_empty, v_full, S, P, A, step: T.Ref, query, thread):
        """The scores of the next keys are there, the current values are being multiplied."""
        T.barrier_wait(k_full[slot(step + 1)], phase(step + 1))
        take_turn(thread)
        T.wgmma_gemm(
            Qs[query, :, :], Ks[slot(step + 1), :, :], S,
            transpose_B=True, clear_accum=True, **layout,
        )
        T.barrier_wait(v_full[slot(step)], phase(step))
        T.wgmma_gemm(P, Vs[slot(step), :, :], A, **layout)
        pass_turn(thread)
        T.wait_wgmma(1)
        T.warpgroup_fence_operand(S, num_regs=columns // 2)
        release(k_empty, slot(step + 1), thread)

    @T.macro
    def settle(v_empty, S, P, A, step: T.Ref, thread):
        """The current values are multiplied; the weights of the next take their place."""
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=heads.size // 2)
        release(v_empty, slot(step), thread)
        T.copy(S, P)
    # fmt: on

    return multiply, settle
