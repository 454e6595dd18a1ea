"""TileLang programs of the normalisations of rows.

One builder for rows that registers hold and one for longer rows; a `Norm` says what they compute.
The row count is a run-time value everywhere. Element offsets are formed in 64 bits, so matrices of
more than 2**31 elements are served. Statistics are float32 and each result is rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import tilelang.language as T

from tileops._programs.moments import merge_equal_moments, merge_moments, take_moments
from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import WARP, row_loader, row_reduction, row_sum
from tileops._programs.vectors import F32, as_float, item_bytes, store_vector, widest_vector

_CHAINS = 4  # independent partial sums of a thread, so that additions do not wait for each other
_GATE = 2  # its place among the parameters; it is a matrix always
_PREFETCH_BYTES = 64  # per thread: parameters up to this size are fetched together with the row


@dataclass(frozen=True)
class Channels:
    """Weights and biases of a norm of channels: an element for each channel of a sample.

    Args:
        groups: rows of a sample, which have channels of their own.
        count: channels of a row, one after another.
        length: elements of a channel.
    """

    groups: int
    count: int
    length: int

    def place(self, row: Any, column: Any) -> Any:
        """The channel of an element."""
        return T.truncmod(row, self.groups) * self.count + T.truncdiv(column, self.length)


@dataclass(frozen=True)
class Norm:
    """What a program computes: `(x - mean) / sqrt(variance + eps) * weight + bias` or parts of it.

    Args:
        dtype: `"float32"`, `"float16"` or `"bfloat16"`.
        eps: added to the variance, or to the mean of squares.
        centred: whether the mean is subtracted; without it the squares are of `x` itself.
        weighted: whether there is a weight.
        biased: whether there is a bias.
        added: whether `x` is the rounded sum of two matrices, which is a result as well.
        adaptive: whether weight and bias are matrices, with a row for each row of `x`.
        gated: whether results are multiplied by one more matrix.
        channels: how weight and bias belong to channels; None where each column has its own.
    """

    dtype: str
    eps: float
    centred: bool = False
    weighted: bool = True
    biased: bool = False
    added: bool = False
    adaptive: bool = False
    gated: bool = False
    channels: Channels | None = None

    @property
    def parameters(self) -> tuple[int, ...]:
        """Which of weight, bias and gate there are."""
        present = (self.weighted, self.biased, self.gated)
        return tuple(place for place, found in enumerate(present) if found)

    def has_rows(self, parameter: int) -> bool:
        """Whether a parameter has a row for each row of `x`."""
        return self.adaptive or parameter == _GATE

    def vector_of(self, width: Any) -> Any:
        """The tensor of weight or bias where rows share it."""
        channels = self.channels
        length = width if channels is None else channels.groups * channels.count
        return T.Tensor((length,), self.dtype)


def _join(total):
    """The sum of a thread's chains."""
    T.buffer_store(total, (total[0] + total[1]) + (total[2] + total[3]), [0])


@T.macro
def _clear(total):
    for i in T.unroll(_CHAINS):
        total[i] = 0.0


@T.macro
def _accumulate(x, total, first, n):
    for i in T.unroll(n):
        total[i % _CHAINS] += as_float(x[first + i])


@T.macro
def _accumulate_squares(x, total, centre, first, n):
    for i in T.unroll(n):
        total[i % _CHAINS] += (as_float(x[first + i]) - centre[0]) * (
            as_float(x[first + i]) - centre[0]
        )


def _normaliser(norm: Norm, count: int):
    """Makes a macro that stores one normalised vector of a row."""

    @T.macro
    def put(x, i, beside, j, scale, centre, Y, row, column):
        f = T.alloc_local((count,), F32)
        y = T.alloc_local((count,), norm.dtype)
        for v in T.unroll(count):
            f[v] = (as_float(x[i + v]) - centre[0]) * scale[0]
        if norm.weighted:
            for v in T.unroll(count):
                f[v] = f[v] * as_float(beside[0][j + v])
        if norm.biased:
            for v in T.unroll(count):
                f[v] = f[v] + as_float(beside[1][j + v])
        if norm.gated:
            for v in T.unroll(count):
                f[v] = f[v] * as_float(beside[2][j + v])
        for v in T.vectorized(count):
            y[v] = T.cast(f[v], norm.dtype)
        store_vector(Y[row, column], y, count, norm.dtype)

    return put


def _parameter_loader(norm: Norm, count: int):
    """Makes a macro that loads what an access of a row needs of a parameter.

    It takes the parameter's place, registers and the first of them, the parameter, the row and the
    access.
    """
    run = 1 if norm.channels is None else gcd(count, norm.channels.length)

    @T.macro
    def load(j, registers, first, source, row, access):
        if norm.has_rows(j):
            for v in T.vectorized(count):
                registers[first + v] = source[row, access * count + v]
        elif norm.channels is None:
            for v in T.vectorized(count):
                registers[first + v] = source[access * count + v]
        else:
            for v in T.unroll(count):
                column = access * count + v // run * run
                registers[first + v] = source[norm.channels.place(row, column)]

    return load


def _row_adder(width: int, dtype: str, lanes: int):
    """Makes a macro that adds a second matrix to rows in registers, and stores the sums."""
    count = widest_vector(width, dtype)
    whole, rest = divmod(width // count, lanes)
    load_row = row_loader(width // count, lanes, count)

    @T.macro
    def add_vector(x, r, S, row, first, column):
        f = T.alloc_local((count,), F32)
        for v in T.unroll(count):
            f[v] = as_float(x[first + v]) + as_float(r[first + v])
        for v in T.vectorized(count):
            x[first + v] = T.cast(f[v], dtype)
        store_vector(S[row, column], x, count, dtype, first)

    @T.macro
    def add(x, R, S, row, lane, inside):
        r = T.alloc_local(((whole + (rest > 0)) * count,), dtype)
        load_row(r, R, row, lane)
        if inside:
            for k in T.unroll(whole):
                add_vector(x, r, S, row, k * count, (k * lanes + lane) * count)
            if rest:
                if lane < rest:
                    add_vector(x, r, S, row, whole * count, (whole * lanes + lane) * count)

    return add


def _row_statistics(norm: Norm, width: int, lanes: int, rows: int):
    """Makes a macro that gives the centre of a row in registers, and the factor of its distances.

    It takes the row's registers, the two results' registers, the thread's lane and its index.
    """
    count = widest_vector(width, norm.dtype)
    whole, rest = divmod(width // count, lanes)
    partials = rows * max(1, lanes // WARP)
    sum_row = row_sum(lanes, rows)
    merge_row = row_reduction(lanes, rows, merge_moments if rest else merge_equal_moments)

    @T.macro
    def squares_of_row(x, total, centre, lane, thread):
        """Total <- the sum of squares of the row."""
        partial = T.alloc_shared((partials,), F32)
        centre[0] = 0.0
        _clear(total)
        _accumulate_squares(x, total, centre, 0, whole * count)
        if rest:
            if lane < rest:
                _accumulate_squares(x, total, centre, whole * count, count)
        _join(total)
        sum_row(total, partial, thread)

    @T.macro
    def moments_of_row(x, total, centre, lane, thread):
        """Centre <- the mean of the row, total <- the sum of squares of the distances from it."""
        partial = tuple(T.alloc_shared((partials,), F32) for _ in range(3))
        size = T.alloc_local((1,), F32)
        centre[0] = 0.0
        total[0] = 0.0
        size[0] = 0.0
        if whole:
            take_moments((centre, total, size), 0, x, 0, 1, whole * count)
        if rest:
            if lane < rest:
                take_moments((centre, total, size), 0, x, whole * count, 1, count)
        merge_row((centre, total, size), partial, thread)

    @T.macro
    def statistics(x, total, centre, lane, thread):
        if norm.centred:
            moments_of_row(x, total, centre, lane, thread)
        else:
            squares_of_row(x, total, centre, lane, thread)
        total[0] = T.rsqrt(total[0] * (1.0 / width) + norm.eps)

    return statistics


def build_norm_on_chip(
    norm: Norm, width: int, *, lanes: int, rows: int, resident: int = 1
) -> Program:
    """Each row is held in registers: one read and one write of every matrix.

    Tensors: `X [M, width]`, the other summand or the gate, weight `[width]` (`[M, width]` where it
    is adaptive), bias, the result `Y [M, width]` and the sum; contiguous, `M` at run time, all
    starting on 16-byte boundaries. In the place of one that `norm` does not have, the caller passes
    `X`, or `Y` for a result.

    Args:
        norm: what is computed.
        width: elements of a row.
        lanes: threads that share a row, a power of two.
        rows: rows of a block.
        resident: blocks that a multiprocessor must have registers for.
    """
    dtype = norm.dtype
    count = widest_vector(width, dtype)
    whole, rest = divmod(width // count, lanes)
    held = (whole + (rest > 0)) * count
    parameters = norm.parameters
    prefetch = held * item_bytes(dtype) <= _PREFETCH_BYTES
    load_row = row_loader(width // count, lanes, count)
    load_parameter = _parameter_loader(norm, count)
    statistics = _row_statistics(norm, width, lanes, rows)
    put = _normaliser(norm, count)
    add = _row_adder(width, dtype, lanes)
    M = T.dynamic("M")

    @T.macro
    def load_parameters(beside, sources, row, k, column):
        for j in parameters:
            load_parameter(j, beside[j], k * count, sources[j], row, column)

    @T.macro
    def store(x, beside, total, centre, sources, Y, row, k, column):
        if not prefetch:
            load_parameters(beside, sources, row, 0, column)
        at = k * count if prefetch else 0
        put(x, k * count, beside, at, total, centre, Y, row, column * count)

    @T.macro
    def normalise(X, R, W, B, Y, S, block):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((held,), dtype)
        beside = tuple(T.alloc_local((held if prefetch else count,), dtype) for _ in range(3))
        total = T.alloc_local((_CHAINS,), F32)
        centre = T.alloc_local((1,), F32)
        lane = thread % lanes
        # A block's surplus rows repeat the last one up to the store: barriers stay uniform.
        row = T.min(block * rows + thread // lanes, M - 1) if rows > 1 else block
        load_row(x, X, row, lane)
        if prefetch:
            for k in T.unroll(whole):
                load_parameters(beside, (W, B, R), row, k, k * lanes + lane)
            if rest:
                if lane < rest:
                    load_parameters(beside, (W, B, R), row, whole, whole * lanes + lane)
        if norm.added:
            add(x, R, S, row, lane, block * rows + thread // lanes < M)
        statistics(x, total, centre, lane, thread)
        if block * rows + thread // lanes < M:
            for k in T.unroll(whole):
                store(x, beside, total, centre, (W, B, R), Y, row, k, k * lanes + lane)
            if rest:
                if lane < rest:
                    at = whole * lanes + lane
                    store(x, beside, total, centre, (W, B, R), Y, row, whole, at)

    def matrix() -> Any:
        return T.Tensor((M, width), dtype)

    def parameter(present: bool) -> Any:
        return norm.vector_of(width) if present and not norm.adaptive else matrix()

    @T.prim_func
    def norm_on_chip(
        X: matrix(),
        R: matrix(),
        W: parameter(norm.weighted),
        B: parameter(norm.biased),
        Y: matrix(),
        S: matrix(),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=lanes * rows) as block:
            T.annotate_min_blocks_per_sm(resident)
            normalise(X, R, W, B, Y, S, block)

    return Program(norm_on_chip, GUARDED)


def _vector_loader(count: int, threads: int):
    """Makes a macro that loads `n` vectors, `threads` apart, of a row or of a single row."""

    @T.macro
    def load(x, source, row, first, n):
        for u in T.unroll(n):
            for v in T.vectorized(count):
                if row is None:
                    x[u * count + v] = source[(first + u * threads) * count + v]
                else:
                    x[u * count + v] = source[row, (first + u * threads) * count + v]

    return load


def build_norm_streaming(norm: Norm, *, count: int, threads: int, unroll: int) -> Program:
    """The same for rows that do not fit in registers: each is read again for every statistic.

    Tensors as `build_norm_on_chip`, with rows of `L * count` elements, `L` at run time, starting on
    boundaries of one access. Later reads of a row mostly hit the caches.

    Args:
        norm: what is computed.
        count: elements of one access; divides the width and is at most 16 bytes.
        threads: threads of a block, which works on one row; a power of two.
        unroll: vectors a thread has in flight.
    """
    dtype = norm.dtype
    sum_row = row_sum(threads, 1)
    load = _vector_loader(count, threads)
    put = _normaliser(norm, count)
    M, L = T.dynamic("M, L")

    @T.macro
    def sweep(visit, state, tensors, row, steps, thread):
        """Visits the row in whole steps, then vector by vector."""
        for step in T.serial(steps):
            visit(state, tensors, row, step * unroll * threads + thread, unroll)
        for u in T.serial(T.ceildiv(L - steps * unroll * threads, threads)):
            if (steps * unroll + u) * threads + thread < L:
                visit(state, tensors, row, (steps * unroll + u) * threads + thread, 1)

    @T.macro
    def take(state, tensors, row, first, n):
        """Loads vectors of the row, and makes and stores them where they are sums."""
        x, w = state[0], state[1]
        load(x, tensors[0], row, first, n)
        if norm.added:
            f = T.alloc_local((count,), F32)
            load(w, tensors[1], row, first, n)
            for u in T.unroll(n):
                for v in T.unroll(count):
                    f[v] = as_float(x[u * count + v]) + as_float(w[u * count + v])
                for v in T.vectorized(count):
                    x[u * count + v] = T.cast(f[v], dtype)
                at = (first + u * threads) * count
                store_vector(tensors[5][row, at], x, count, dtype, u * count)

    @T.macro
    def take_again(state, tensors, row, first, n):
        load(state[0], tensors[5 if norm.added else 0], row, first, n)

    @T.macro
    def add_values(state, tensors, row, first, n):
        take(state, tensors, row, first, n)
        _accumulate(state[0], state[3], 0, n * count)

    @T.macro
    def add_squares(state, tensors, row, first, n):
        if norm.centred:
            take_again(state, tensors, row, first, n)
        else:
            take(state, tensors, row, first, n)
        _accumulate_squares(state[0], state[3], state[4], 0, n * count)

    @T.macro
    def scale(state, tensors, row, first, n):
        x, w, b, total, centre = state
        take_again(state, tensors, row, first, n)
        if norm.weighted:
            load(w, tensors[2], None, first, n)
        if norm.biased:
            load(b, tensors[3], None, first, n)
        for u in T.unroll(n):
            at = (first + u * threads) * count
            put(x, u * count, (w, b), u * count, total, centre, tensors[4], row, at)

    @T.macro
    def normalise(tensors, row):
        thread = T.get_thread_binding(0)
        x = T.alloc_local((unroll * count,), dtype)
        w = T.alloc_local((unroll * count,), dtype)
        b = T.alloc_local((unroll * count,), dtype)
        total = T.alloc_local((_CHAINS,), F32)
        centre = T.alloc_local((1,), F32)
        partial_mean = T.alloc_shared((threads // WARP,), F32)
        partial = T.alloc_shared((threads // WARP,), F32)
        steps = T.alloc_var("int32")
        steps = T.truncdiv(L, threads * unroll)
        state = (x, w, b, total, centre)
        centre[0] = 0.0
        if norm.centred:
            _clear(total)
            sweep(add_values, state, tensors, row, steps, thread)
            _join(total)
            sum_row(total, partial_mean, thread)
            centre[0] = total[0] / as_float(L * count)
        _clear(total)
        sweep(add_squares, state, tensors, row, steps, thread)
        _join(total)
        sum_row(total, partial, thread)
        total[0] = T.rsqrt(total[0] / as_float(L * count) + norm.eps)
        sweep(scale, state, tensors, row, steps, thread)

    def matrix() -> Any:
        return T.Tensor((M, L * count), dtype)

    def parameter(present: bool) -> Any:
        return T.Tensor((L * count,), dtype) if present else matrix()

    @T.prim_func
    def norm_streaming(
        X: matrix(),
        R: matrix(),
        W: parameter(norm.weighted),
        B: parameter(norm.biased),
        Y: matrix(),
        S: matrix(),
    ):
        with T.Kernel(M, threads=threads) as row:
            normalise((X, R, W, B, Y, S), row)

    return Program(norm_streaming, GUARDED)
