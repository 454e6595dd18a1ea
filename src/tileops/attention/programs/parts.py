"""Parts of a result, of keys that blocks share: kept in float32, merged by a second launch.

Each part weighs as much as its sum of exponentials, whose logarithm to base 2 is kept beside it.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import FAST, Program
from tileops.attention.programs.softmax import FLOOR

_QUAD = 4  # channels of a thread that merges: 16 bytes


@T.macro
def take_part(first, split, splits, begin: T.Ref, end: T.Ref):
    """Of the tiles from `first` to `end`, those of a part, from `begin` to `end`."""
    begin = T.truncdiv(end - first + splits - 1, splits)
    end = T.min(first + (split + 1) * begin, end)
    begin = T.min(first + split * begin, end)


def part_writer(count: int, rows: int, size: int):
    """Makes the macro that stores a block's part, divided by its sums, or all of the result.

    Args:
        count: query heads.
        rows: heads of a tile, of which a block may hold fewer.
        size: channels of the result.
    """

    @T.macro
    def store(A, m, sums, part, Partial, Lse, Out, token, head, held, split, splits):
        for i in T.Parallel(rows):
            part[i] = T.if_then_else(sums[i] == 0.0, 0.0, 1.0 / sums[i])
        if splits == 1:
            for i, j in T.Parallel(rows, size):
                if i < held:
                    Out[token, head + i, j] = A[i, j] * part[i]
        else:
            for i, j in T.Parallel(rows, size):
                if i < held:
                    Partial[((token * count + head + i) * splits + split) * size + j] = (
                        A[i, j] * part[i]
                    )
            for i in T.Parallel(rows):
                if i < held:
                    Lse[(token * count + head + i) * splits + split] = T.if_then_else(
                        sums[i] == 0.0, FLOOR, m[i] + T.log2(sums[i])
                    )

    return store


def build_merge(heads: int, size: int, dtype: str, *, groups: int, rows: int) -> Program:
    """The parts of split attention into one; the launch begins while that of the parts ends.

    Tensors: `Partial [T * H * splits * size]` and `Lse [T * H * splits]` float32, `Out
    [T, H, size]`; contiguous, none empty. A launch says how many groups of threads, `spread`, a
    divisor of all, share the parts of a head.

    Args:
        heads: query heads, H.
        size: channels of a head of the result, a multiple of 4.
        dtype: element type of the result.
        groups: groups of threads of a block, each of which reads whole parts.
        rows: parts that a thread reads at once.
    """
    lanes = size // _QUAD
    tokens, area, height = T.dynamic("tokens"), T.dynamic("area"), T.dynamic("height")

    @T.macro
    def gather(Partial, Lse, result, head, lane, first, step, splits, largest: T.Ref, total: T.Ref):
        """The sum of every so many parts, in units of two to the power of the largest logarithm."""
        parts = T.alloc_local((rows, _QUAD), "float32")
        weights = T.alloc_local((rows,), "float32")
        shrink = T.alloc_var("float32", init=0.0)
        place = T.alloc_var("int32", init=0)
        for c in T.serial(T.truncdiv(splits + step * rows - 1, step * rows)):
            for i in T.unroll(rows):
                place = head * splits + T.min((c * rows + i) * step + first, splits - 1)
                weights[i] = Lse[place]
                for v in T.vectorized(_QUAD):
                    parts[i, v] = Partial[place * size + lane * _QUAD + v]
            shrink = largest
            for i in T.unroll(rows):
                largest = T.max(largest, weights[i])
            shrink = T.exp2(shrink - largest)
            total = total * shrink
            for v in T.unroll(_QUAD):
                result[v] = result[v] * shrink
            for i in T.unroll(rows):
                weights[i] = T.if_then_else(
                    (c * rows + i) * step + first < splits, T.exp2(weights[i] - largest), 0.0
                )
                total = total + weights[i]
                for v in T.unroll(_QUAD):
                    result[v] = result[v] + parts[i, v] * weights[i]

    @T.prim_func
    def merge(
        Partial: T.Tensor((area,), "float32"),
        Lse: T.Tensor((height,), "float32"),
        Out: T.Tensor((tokens, heads, size), dtype),
        splits: T.int32,
        spread: T.int32,
    ):
        with T.Kernel(T.ceildiv(tokens * heads * spread, groups), threads=lanes * groups) as block:
            thread = T.get_thread_binding()
            results = T.alloc_shared((groups, size), "float32")
            maxima = T.alloc_shared((groups,), "float32")
            totals = T.alloc_shared((groups,), "float32")
            result = T.alloc_local((_QUAD,), "float32")
            largest = T.alloc_var("float32", init=FLOOR)
            total = T.alloc_var("float32", init=0.0)
            weight = T.alloc_var("float32", init=0.0)
            group = T.alloc_var("int32", init=0)
            head = T.alloc_var("int32", init=0)
            lane = thread % lanes
            group = thread // lanes
            head = T.truncdiv(block * groups + group, spread)
            for v in T.unroll(_QUAD):
                result[v] = 0
            T.pdl_sync()
            gather(
                Partial, Lse, result, T.min(head, tokens * heads - 1), lane,
                T.truncmod(group, spread), spread, splits, largest, total,
            )  # fmt: skip
            for v in T.vectorized(_QUAD):
                results[group, lane * _QUAD + v] = result[v]
            if lane == 0:
                maxima[group] = largest
                totals[group] = total
            T.sync_threads()
            if T.And(T.truncmod(group, spread) == 0, head < tokens * heads):
                for g in T.serial(spread):
                    largest = T.max(largest, maxima[group + g])
                total = 0.0
                for v in T.unroll(_QUAD):
                    result[v] = 0
                for g in T.serial(spread):
                    weight = T.exp2(maxima[group + g] - largest)
                    total = total + totals[group + g] * weight
                    for v in T.unroll(_QUAD):
                        result[v] = result[v] + results[group + g, lane * _QUAD + v] * weight
                total = 1.0 / total
                for v in T.vectorized(_QUAD):
                    Out[head // heads, head % heads, lane * _QUAD + v] = result[v] * total

    return Program(merge, {**FAST, "tl.disable_thread_storage_sync": True})
