"""Whether the classes and functions that a spec names can be used."""

from __future__ import annotations

from collections.abc import Callable

from tileops._core.spec.objects import class_of, function_of
from tileops.errors import ManifestError


def unusable_class(path: str) -> str | None:
    """Why a dotted name gives no class, or None."""
    return _fault(class_of, path)


def unusable_function(path: str) -> str | None:
    """Why a dotted name gives no function of one argument, or None."""
    return _fault(function_of, path)


def _fault(find: Callable[[str], object], path: str) -> str | None:
    try:
        find(path)
    except ManifestError as error:
        return str(error)
    return None
