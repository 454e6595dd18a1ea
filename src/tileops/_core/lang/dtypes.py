"""The dtype registry: names, sizes and value ranges, without torch.

A dtype is known to the language by its bare name, `"float16"`. `float4_e2m1fn_x2` is a carrier
byte that holds two numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

BITS: Mapping[str, int] = MappingProxyType(
    {
        "bool": 8,
        "uint8": 8,
        "int8": 8,
        "float8_e4m3fn": 8,
        "float8_e5m2": 8,
        "float8_e4m3fnuz": 8,
        "float8_e5m2fnuz": 8,
        "float8_e8m0fnu": 8,
        "float4_e2m1fn_x2": 8,
        "uint16": 16,
        "int16": 16,
        "float16": 16,
        "bfloat16": 16,
        "uint32": 32,
        "int32": 32,
        "float32": 32,
        "uint64": 64,
        "int64": 64,
        "float64": 64,
        "complex64": 64,
        "complex128": 128,
    }
)
"""Every registered dtype with its bits per element."""

FLOAT_MAX: Mapping[str, float] = MappingProxyType(
    {
        "float8_e4m3fn": 448.0,
        "float8_e5m2": 57344.0,
        "float8_e4m3fnuz": 240.0,
        "float8_e5m2fnuz": 57344.0,
        "float8_e8m0fnu": 2.0**127,
        "float4_e2m1fn_x2": 6.0,
        "float16": 65504.0,
        "bfloat16": 2.0**128 - 2.0**120,
        "float32": 2.0**128 - 2.0**104,
        "float64": sys.float_info.max,
    }
)
"""The largest finite value of each floating dtype."""

FLOAT: frozenset[str] = frozenset(FLOAT_MAX)
INFINITE: frozenset[str] = frozenset({"float8_e5m2", "float16", "bfloat16", "float32", "float64"})
"""The floating dtypes that have infinities."""

COMPLEX_PART: Mapping[str, str] = MappingProxyType(
    {"complex64": "float32", "complex128": "float64"}
)
"""Each complex dtype with the dtype of its real and imaginary part."""

COMPLEX: frozenset[str] = frozenset(COMPLEX_PART)
UNSIGNED: frozenset[str] = frozenset({"uint8", "uint16", "uint32", "uint64"})
INT: frozenset[str] = UNSIGNED | {"int8", "int16", "int32", "int64"}
"""The integer dtypes; `bool` is not one."""


def is_registered(name: str) -> bool:
    """Whether `name` is a dtype of the registry."""
    return name in BITS


def category(name: str) -> str:
    """`"bool"`, `"int"`, `"float"` or `"complex"` for a registered dtype."""
    if name in INT:
        return "int"
    if name in FLOAT:
        return "float"
    return "complex" if name in COMPLEX else "bool"


def name_of(value: object) -> str | None:
    """The name of a `torch.dtype` object, told apart by its class; None for anything else."""
    cls = type(value)
    if cls.__module__ != "torch" or cls.__name__ != "dtype":
        return None
    return str(value).removeprefix("torch.")


def int_range(name: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype."""
    bits = BITS[name]
    return (0, 2**bits - 1) if name in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
