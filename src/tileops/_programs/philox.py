"""Random words in registers: Philox4x32-10 of a key and a counter.

Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

import tilelang.language as T

from tileops._programs.vectors import kept

_U32, _U64 = "uint32", "uint64"
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def _halves(word):
    """The low and the high half of a 64-bit word."""
    return T.cast(word, _U32), T.cast(T.shift_right(word, T.uint64(32)), _U32)


def philox(key, counter):
    """The four words of a key and a counter of two 64-bit words, each `uint32`."""
    (first, second), (a, b, c, d) = _halves(key), (*_halves(counter[0]), *_halves(counter[1]))
    for step in range(_ROUNDS):
        left = kept(T.cast(a, _U64) * T.uint64(_MULTIPLIERS[0]))
        right = kept(T.cast(c, _U64) * T.uint64(_MULTIPLIERS[1]))
        keys = [
            word + T.uint32(step * by % 2**32)
            for word, by in zip((first, second), _KEY_STEPS, strict=True)
        ]
        a, b, c, d = (
            kept(T.bitwise_xor(T.bitwise_xor(_halves(right)[1], b), keys[0])),
            kept(_halves(right)[0]),
            kept(T.bitwise_xor(T.bitwise_xor(_halves(left)[1], d), keys[1])),
            kept(_halves(left)[0]),
        )
    return a, b, c, d
