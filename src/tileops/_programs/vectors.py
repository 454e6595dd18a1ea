"""Element types as programs store them, and accesses of several elements at once."""

from __future__ import annotations

import math

import tilelang.language as T
from tvm import tirx

F32 = "float32"
WIDEST = 16
"""Bytes of the widest access."""
_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2,
    "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "int16": 2, "int32": 4, "int64": 8,
}  # fmt: skip


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return _BYTES[dtype]


def widest_vector(width: int, dtype: str) -> int:
    """Elements of the widest access that divides every row: at most 16 bytes, at least one."""
    return math.gcd(WIDEST // _BYTES[dtype], width)


READ_ONCE = """
template <typename Word>
__device__ __forceinline__ void read_once(void* to, const void* from) {
  *static_cast<Word*>(to) = __ldcs(static_cast<const Word*>(from));
}
"""
"""What a kernel that calls `load_once` imports."""
_WORDS = {16: "uint4", 8: "uint2", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}


def as_float(value):
    """The value in float32."""
    return T.cast(value, F32)


def kept(value):
    """The value in a register: an expression that is used twice would be computed twice."""
    register = T.alloc_local((1,), value.dtype)
    T.buffer_store(register, value, [0])
    return register[0]


def load_once(values, place, count, first=0):
    """Loads `values[first:first + count]` from `place` in one instruction, never to be read again.

    The cache gives up what it holds of it before anything else.

    Args:
        values: register buffer.
        place: load expression of the first element of the source, of the same element type.
        count: elements, a power of two of at most 16 bytes.
        first: the first register.
    """
    word = _WORDS[count * _BYTES[values.dtype]]
    to, source = T.address_of(values[first]), T.address_of(place)
    return T.call_extern("handle", f"read_once<{word}>", to, source)


def store_vector(place, values, count, dtype, first=0):
    """Stores `values[first:first + count]` from registers at `place` in one instruction.

    A plain vectorised store passes through a register array that nvcc may split into narrow ones.

    Args:
        place: load expression of the first element of the destination.
        values: register buffer.
        count: elements, a power of two of at most 16 bytes.
        dtype: element type of both.
        first: the first register.
    """
    if count == 1:
        return tirx.BufferStore(place.buffer, values[first], place.indices)
    if count * _BYTES[dtype] < 4:  # there is no such instruction
        *outer, column = place.indices
        for v in range(count):
            T.buffer_store(place.buffer, values[first + v], [*outer, column + v])
        return None
    store, word = {
        16: (T.stg128, "uint32x4"),
        8: (T.stg64, "uint32x2"),
        4: (T.stg32, "uint32"),
    }[count * _BYTES[dtype]]
    return store(place, T.reinterpret(values[first : first + count], word))
