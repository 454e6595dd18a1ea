"""Whether the classes and functions that a spec names can be used."""

from __future__ import annotations

import inspect

from tileops._core.spec.objects import resolve


def unusable_class(path: str) -> str | None:
    """Why a dotted name gives no class, or None."""
    try:
        found = resolve(path)
    except Exception as error:
        return f"{path} cannot be resolved: {type(error).__name__}: {error}"
    return None if isinstance(found, type) else f"{path} is not a class"


def unusable_function(path: str) -> str | None:
    """Why a dotted name gives no function of one argument, or None."""
    try:
        found = resolve(path)
    except Exception as error:
        return f"{path} cannot be resolved: {type(error).__name__}: {error}"
    if not callable(found):
        return f"{path} is not callable"
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        return f"{path} does not take the call alone: {error}"
    return None
