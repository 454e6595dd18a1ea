"""The program that turns matrices of codes, for tensor cores that read codes along the depth.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import GUARDED, Program

_SIDE = 128  # codes of a tile, either way
_WORD = 4  # codes
_RUN = 16  # codes that a thread turns for each of the columns of a word
_PAIR = 2  # words of one read: rows are multiples of 8 codes
_THREADS = _SIDE // _RUN * (_SIDE // _WORD)
_WORDS = _SIDE // _WORD  # of a row of a tile


def _place(row, pair):
    """Where a pair of words of a tile is kept: neither rows nor runs of rows share banks."""
    return row * _WORDS + (pair ^ (row // _RUN * _PAIR)) * _PAIR


@T.macro
def _turn(words, column, out):
    """Code `column` of each of 16 words, as 4 words."""
    for q in T.unroll(_RUN // _WORD):
        out[q] = 0
        for i in T.unroll(_WORD):
            code = (words[q * _WORD + i] >> (column * 8)) & 0xFF
            out[q] = out[q] | (code << (i * 8))


def build_turn() -> Program:
    """`D[b] = B[b]^T` of codes of one byte, four to a word.

    Tensors: `B [batch, K, N / 4]`, `D [batch, N, K / 4]` in int32; contiguous, 16-byte aligned, K a
    multiple of 16, N of 8, none 0.
    """
    batch, KU, NU = T.dynamic("batch"), T.dynamic("KU"), T.dynamic("NU")
    K, N = KU * _RUN, NU * _PAIR * _WORD

    @T.prim_func
    def turn(
        B: T.Tensor((batch, K, NU * _PAIR), "int32"),
        D: T.Tensor((batch, N, KU * (_RUN // _WORD)), "int32"),
    ):
        down, across = T.ceildiv(K, _SIDE), T.ceildiv(N, _SIDE)
        with T.Kernel(batch * down * across, threads=_THREADS) as block:
            tile = T.alloc_shared((_SIDE * _WORDS,), "int32")
            words = T.alloc_local((_RUN,), "int32")
            out = T.alloc_local((_RUN // _WORD,), "int32")
            thread = T.get_thread_binding()
            item = T.alloc_var("int32")
            top = T.alloc_var("int32")
            left = T.alloc_var("int32")
            item = T.truncdiv(block, down * across)
            top = T.truncdiv(block - item * down * across, across)
            left = (block - (item * down + top) * across) * _SIDE
            top = top * _SIDE
            pairs = _WORDS // _PAIR  # of a row
            for u in T.unroll(_SIDE * pairs // _THREADS):
                row = u * (_THREADS // pairs) + thread // pairs
                pair = thread % pairs
                if top + row < K and left + pair * _PAIR * _WORD < N:
                    for w in T.vectorized(_PAIR):
                        tile[_place(row, pair) + w] = B[
                            item, top + row, (left // (_PAIR * _WORD) + pair) * _PAIR + w
                        ]
            T.sync_threads()
            run = thread % (_SIDE // _RUN)
            column = thread // (_SIDE // _RUN)
            for i in T.unroll(_RUN):
                words[i] = tile[_place(run * _RUN + i, column // _PAIR) + column % _PAIR]
            for c in T.unroll(_WORD):
                _turn(words, c, out)
                if left + column * _WORD + c < N and top + run * _RUN < K:
                    for q in T.vectorized(_RUN // _WORD):
                        D[
                            item,
                            left + column * _WORD + c,
                            (top // _RUN + run) * (_RUN // _WORD) + q,
                        ] = out[q]

    return Program(turn, GUARDED)
