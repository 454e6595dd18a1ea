"""Dtypes and scalar values. A dtype is its name."""

from __future__ import annotations

import math

from tileops._core.lang import dtypes
from tileops._core.lang.values import shown


def promote_int_to_float(d: str) -> str:
    """`float32` for an integer dtype (`bool` is not one), else the dtype itself."""
    return "float32" if d in dtypes.INT else d


def coalesce_dtype(m: str | None, d: str) -> str:
    """The first dtype if it is given, else the second."""
    return d if m is None else m


def category(value: object) -> str:
    """`"bool"`, `"int"`, `"float"` or `"complex"`: of a number's Python type, or of a dtype.

    Raises:
        ValueError: neither a number nor a dtype.

    Example:
        >>> category(True), category(2.0), category("int8")
        ('bool', 'float', 'int')
    """
    if isinstance(value, str) and dtypes.is_registered(value):
        return dtypes.category(value)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float"
    if isinstance(value, complex):
        return "complex"
    if hasattr(value, "__index__"):
        return "int"
    raise ValueError(f"category needs a number or a dtype, got {shown(value)}")


def representable(value: int | float | complex, d: str) -> bool:
    """Whether a scalar converts to a dtype without overflow.

    Rounding is no overflow. A float dtype takes what lies within its finite range, NaN, and an
    infinity if the format has them; an unsigned dtype of b bits also takes integers down to
    -(2^b - 1), which wrap.

    Example:
        >>> representable(300, "uint8"), representable(-255, "uint8")
        (False, True)
    """
    if d == "bool":
        return True
    if d in dtypes.COMPLEX:
        part = dtypes.COMPLEX_PART[d]
        return _fits_float(value.real, part) and _fits_float(value.imag, part)
    if isinstance(value, complex):
        return False
    return _fits_float(value, d) if d in dtypes.FLOAT else _fits_int(value, d)


def _fits_float(value: int | float, d: str) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return math.isnan(value) or d in dtypes.INFINITE
    return -dtypes.FLOAT_MAX[d] <= value <= dtypes.FLOAT_MAX[d]


def _fits_int(value: int | float, d: str) -> bool:
    lowest, highest = dtypes.int_range(d)
    if isinstance(value, float):
        return math.isfinite(value) and lowest <= value <= highest
    if d in dtypes.UNSIGNED:
        lowest = -highest
    return lowest <= value <= highest
