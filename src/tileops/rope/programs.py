"""TileLang program of rotary embeddings.

Batch, sequence, heads and strides are run-time values; the layout of pairs, the channels of a head
and the width of accesses are compiled in. A thread keeps its cosines and sines for every head that
it visits. Arithmetic is float32, rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, as_float, store_vector

_I32 = "int32"


@dataclass(frozen=True)
class Rotation:
    """What is rotated.

    Args:
        dtype: element type of input and result.
        interleaved: whether channels `2i` and `2i + 1` are a pair, else `i` and `i + width / 2`.
        width: channels that are rotated, the first of a head.
        head: channels of a head.
        vector: elements of one access; divides the channels that are rotated (half of them where
            not interleaved) and the head, and is even where interleaved.
    """

    dtype: str
    interleaved: bool
    width: int
    head: int
    vector: int

    @property
    def pairs(self) -> int:
        """Pairs that a thread rotates at once."""
        return self.vector // 2 if self.interleaved else self.vector

    @property
    def units(self) -> int:
        """Threads along a head."""
        return self.width // 2 // self.pairs


def _turner(rotation: Rotation):
    """Makes a macro that rotates the pairs of one unit of a head, from `at` to `to`."""
    vector, pairs, dtype = rotation.vector, rotation.pairs, rotation.dtype
    second = 0 if rotation.interleaved else rotation.units  # accesses to the other channels
    step = 2 if rotation.interleaved else 1
    count = 2 * pairs

    @T.macro
    def load(x, X, at):
        for v in T.vectorized(vector):
            x[v] = X[at * vector + v]
        if second:
            for v in T.vectorized(vector):
                x[vector + v] = X[(at + second) * vector + v]

    @T.macro
    def turn(x, c, s, Y, to):
        f = T.alloc_local((count,), F32)
        y = T.alloc_local((count,), dtype)
        other = 1 if step == 2 else pairs
        for p in T.unroll(pairs):
            f[step * p] = as_float(x[step * p]) * c[p] - as_float(x[step * p + other]) * s[p]
            f[step * p + other] = (
                as_float(x[step * p + other]) * c[p] + as_float(x[step * p]) * s[p]
            )
        for v in T.vectorized(count):
            y[v] = T.cast(f[v], dtype)
        store_vector(Y[to * vector], y, vector, dtype)
        if second:
            store_vector(Y[(to + second) * vector], y, vector, dtype, vector)

    return load, turn, count


def build_rotary(
    rotation: Rotation, positions: str | None, *, heads: int, tokens: int, unroll: int
) -> Program:
    """Rotates `[B, S, H, head]` by tabled angles.

    Arguments: the input as one axis from its first element to its last, cosines and sines
    `[P, width / 2]`, the table row of each place of the sequence `[S]` (the cosines again where
    place `s` takes row `s`), the contiguous result as one axis; then the number of tokens `B * S`,
    `S`, `H` and the strides of batch, sequence and heads, in accesses.

    Args:
        rotation: what is rotated.
        positions: element type of the table rows, or None.
        heads: heads that a block works on at once.
        tokens: tokens of a block.
        unroll: heads a thread has in flight.
    """
    vector, units, pairs = rotation.vector, rotation.units, rotation.pairs
    dtype, half = rotation.dtype, rotation.width // 2
    kept = (rotation.head - rotation.width) // vector  # accesses that are copied
    load, turn, count = _turner(rotation)
    threads = units * heads * tokens
    LX, Q, P, SP = T.dynamic("LX, Q, P, SP")

    @T.macro
    def copy(X, Y, at, to, unit):
        x = T.alloc_local((vector,), dtype)
        for k in T.serial(-(-kept // units)):
            if k * units + unit < kept:
                for v in T.vectorized(vector):
                    x[v] = X[(at + rotation.width // vector + k * units + unit) * vector + v]
                store_vector(
                    Y[(to + rotation.width // vector + k * units + unit) * vector], x, vector, dtype
                )

    @T.macro
    def rotate_token(X, C, S, Y, row, first, token, H, stride, thread):
        c = T.alloc_local((pairs,), F32)
        s = T.alloc_local((pairs,), F32)
        x = [T.alloc_local((count,), dtype) for _ in tuple(range(unroll))]
        unit = thread % units
        lane = thread // units % heads
        for v in T.vectorized(pairs):
            c[v] = C[row, unit * pairs + v]
        for v in T.vectorized(pairs):
            s[v] = S[row, unit * pairs + v]
        for group in T.serial(T.ceildiv(H, heads * unroll)):
            for j in tuple(range(unroll)):
                head = (group * unroll + j) * heads + lane
                if head < H:
                    load(x[j], X, first + head * stride + unit)
            for j in tuple(range(unroll)):
                head = (group * unroll + j) * heads + lane
                if head < H:
                    to = (token * H + head) * (rotation.head // vector)
                    turn(x[j], c, s, Y, to + unit)
                    if kept:
                        copy(X, Y, first + head * stride, to, unit)

    def rows():
        return T.Tensor((P, half), F32) if positions is None else T.Tensor((SP,), positions)

    @T.prim_func
    def rotary(
        X: T.Tensor((LX * vector,), dtype),
        C: T.Tensor((P, half), F32),
        S: T.Tensor((P, half), F32),
        R: rows(),
        Y: T.Tensor((Q * vector,), dtype),
        N: T.int32, L: T.int32, H: T.int32, s0: T.int32, s1: T.int32, s2: T.int32,
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, tokens), threads=threads) as block:
            thread = T.get_thread_binding(0)
            token = block * tokens + thread // (units * heads)
            batch = T.alloc_var(_I32)
            place = T.alloc_var(_I32)
            row = T.alloc_var(_I32)
            first = T.alloc_var(_I32)
            if token < N:
                batch = T.truncdiv(token, L)
                place = token - batch * L
                first = batch * s0 + place * s1
                row = place
                if positions is not None:
                    row = T.cast(R[place], _I32)
                rotate_token(X, C, S, Y, row, first, token, H, s2, thread)

    return Program(rotary, GUARDED)
