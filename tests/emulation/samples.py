"""Small programs that exercise the emulated device: some are right, some break its rules.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import row_sum
from tileops._programs.vectors import store_vector

F32, I32 = "float32", "int32"
THREADS = 64


def shifted_copy(read: int, write: int) -> Program:
    """`Y[i + write] = X[i + read]` for every i."""
    n = T.dynamic("n")

    @T.prim_func
    def copy(X: T.Tensor((n,), F32), Y: T.Tensor((n,), F32)):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding(0)
            if i < n:
                Y[i + write] = X[i + read]

    return Program(copy, GUARDED)


def misaligned_store() -> Program:
    """Stores vectors that begin one element late."""
    n = T.dynamic("n")

    @T.prim_func
    def store(Y: T.Tensor((n,), F32)):
        with T.Kernel(1, threads=1):
            y = T.alloc_local((4,), F32)
            T.clear(y)
            store_vector(Y[1], y, 4, F32)

    return Program(store, GUARDED)


def lonely_barrier() -> Program:
    """Half of the threads wait at a barrier for the other half."""
    n = T.dynamic("n")

    @T.prim_func
    def wait(Y: T.Tensor((n,), F32)):
        with T.Kernel(1, threads=THREADS):
            thread = T.get_thread_binding(0)
            if thread < THREADS // 2:
                T.sync_threads(9, THREADS)
            Y[thread] = 0.0

    return Program(wait, {**GUARDED, "tl.disable_thread_storage_sync": True})


def scan() -> Program:
    """Inclusive sums within every warp."""
    n = T.dynamic("n")

    @T.prim_func
    def scan(X: T.Tensor((n,), F32), Y: T.Tensor((n,), F32)):
        with T.Kernel(n // THREADS, threads=THREADS) as block:
            thread = T.get_thread_binding(0)
            total = T.alloc_local((1,), F32)
            other = T.alloc_local((1,), F32)
            total[0] = X[block * THREADS + thread]
            for distance in (1, 2, 4, 8, 16):
                other[0] = T.shfl_up(total[0], distance)
                if thread % 32 >= distance:
                    total[0] += other[0]
            Y[block * THREADS + thread] = total[0]

    return Program(scan, GUARDED)


def last_block_sum() -> Program:
    """The sum of all elements: the block that draws the last ticket adds the blocks' sums."""
    n, blocks = T.dynamic("n, blocks")
    sum_row = row_sum(THREADS, 1)

    @T.prim_func
    def total(
        X: T.Tensor((n,), F32),
        P: T.Tensor((blocks,), F32),
        C: T.Tensor((1,), I32),
        Y: T.Tensor((1,), F32),
    ):
        with T.Kernel(blocks, threads=THREADS) as block:
            thread = T.get_thread_binding(0)
            part = T.alloc_local((1,), F32)
            partial = T.alloc_shared((THREADS // 32,), F32)
            ticket = T.alloc_shared((1,), I32)
            part[0] = X[block * THREADS + thread]
            sum_row(part, partial, thread)
            if thread == 0:
                P[block] = part[0]
                ticket[0] = T.atomic_add(C[0], 1, return_prev=True, memory_order="acq_rel")
            T.sync_threads()
            if ticket[0] == blocks - 1 and thread == 0:
                part[0] = 0.0
                for b in T.serial(blocks):
                    part[0] += P[b]
                Y[0] = part[0]

    return Program(total, GUARDED)


def reductions() -> Program:
    """Maximum and sum of every row, through TileLang's own reductions over a block."""
    m = T.dynamic("m")

    @T.prim_func
    def reduce(X: T.Tensor((m, 128), F32), Y: T.Tensor((m, 2), F32)):
        with T.Kernel(m, threads=128) as row:
            x = T.alloc_fragment((128,), F32)
            top = T.alloc_fragment((1,), F32)
            total = T.alloc_fragment((1,), F32)
            T.copy(X[row, 0:128], x)
            T.reduce_max(x, top)
            T.reduce_sum(x, total)
            Y[row, 0] = top[0]
            Y[row, 1] = total[0]

    return Program(reduce, {})


def atomic_columns() -> Program:
    """Column sums, each thread adding its element."""
    m = T.dynamic("m")

    @T.prim_func
    def add(X: T.Tensor((m, THREADS), F32), Y: T.Tensor((THREADS,), F32)):
        with T.Kernel(m, threads=THREADS) as row:
            thread = T.get_thread_binding(0)
            T.atomic_add(Y[thread], X[row, thread])

    return Program(add, GUARDED)
