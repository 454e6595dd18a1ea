"""TileLang program of dropout: random words are drawn where they are used, and never stored.

The number of elements, the seed and the probability are run-time values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T
from tvm import tirx

from tileops._programs.philox import philox
from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import READ_ONCE, as_float, load_once, store_vector

_I64, _U32, _U64 = "int64", "uint32", "uint64"
_WORDS = 4  # of a draw


def build_dropout(dtype: str, vector: int, *, threads: int) -> Program:
    """`Y[i] = X[i] * scale` where word `i % 4` of draw `i // 4` is at least `least`, else 0.

    Arguments: input and result `[n]`, which start on 16-byte boundaries; the seed, the least word
    of an element that is kept, and the scale.

    Args:
        dtype: element type.
        vector: elements of one access, a multiple of 4.
        threads: threads of a block.
    """
    tile = threads * vector
    n = T.dynamic("n", _I64)

    @T.macro
    def draw(words, first, place, seed):
        """Four words from the first <- those of the draw of the element at `place`."""
        counter = T.cast(T.truncdiv(place, _WORDS), _U64)
        drawn = philox(T.cast(seed, _U64), (counter, T.uint64(0)))
        for w in tuple(range(_WORDS)):
            words[first + w] = drawn[w]

    def value(x, word, least, scale):
        is_kept = word >= T.cast(least, _U32)
        return T.cast(tirx.Select(is_kept, as_float(x) * scale, T.float32(0)), dtype)

    @T.prim_func
    def dropout(
        X: T.Tensor((n,), dtype),
        Y: T.Tensor((n,), dtype),
        seed: T.int64,
        least: T.int64,
        scale: T.float32,
    ):
        with T.Kernel(T.ceildiv(n, tile), threads=threads) as block:
            T.import_source(READ_ONCE)
            x = T.alloc_local((vector,), dtype)
            y = T.alloc_local((vector,), dtype)
            words = T.alloc_local((vector,), _U32)
            place = T.alloc_var(_I64)
            place = T.cast(block, _I64) * tile + T.get_thread_binding(0) * vector
            if place + vector <= n:
                load_once(x, X[place], vector)
                for g in T.unroll(vector // _WORDS):
                    draw(words, g * _WORDS, place + g * _WORDS, seed)
                for v in T.unroll(vector):
                    y[v] = value(x[v], words[v], least, scale)
                store_vector(Y[place], y, vector, dtype)
            else:
                for g in T.serial(vector // _WORDS):
                    draw(words, 0, place + g * _WORDS, seed)
                    for w in T.unroll(_WORDS):
                        if place + g * _WORDS + w < n:
                            at = place + g * _WORDS + w
                            Y[at] = value(X[at], words[w], least, scale)

    return Program(dropout, GUARDED)
