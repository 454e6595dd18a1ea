"""Objects that specs name by dotted names: classes of algebraic types, functions of rooflines.

Which names a source may use is decided when it is read. Here they are resolved, on first use. An
object counts only if it is defined in the package that its name begins with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from tileops._core import plugins
from tileops.errors import ManifestError


@cache
def resolve(dotted: str) -> Any:
    """The object of a dotted name; the module that holds it is imported.

    Raises:
        ImportError: there is none, or another package defines it.
    """
    module, _, path = dotted.rpartition(".")
    names = [path]
    while module:
        try:
            found: Any = plugins.module(module)
        except ModuleNotFoundError as error:
            if not plugins.is_missing(module, error):
                raise
            module, _, name = module.rpartition(".")
            names.insert(0, name)
            continue
        for name in names:
            found = getattr(found, name, None)
        if found is not None:
            return _at_home(dotted, found)
        break
    raise ImportError(f"{dotted} does not exist")


def class_of(dotted: str) -> type:
    """The class of a dotted name.

    Raises:
        ManifestError: the name gives none.
    """
    found = _resolved(dotted)
    if not isinstance(found, type):
        raise ManifestError(f"{dotted} is not a class")
    return found


@cache
def function_of(dotted: str) -> Callable[[Any], Any]:
    """The function of one argument of a dotted name.

    Raises:
        ManifestError: the name gives none.
    """
    found: Callable[[Any], Any] = _resolved(dotted)
    if not callable(found):
        raise ManifestError(f"{dotted} is not callable")
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        raise ManifestError(f"{dotted} does not take the call alone: {error}") from error
    return found


def _resolved(dotted: str) -> Any:
    try:
        return resolve(dotted)
    except Exception as error:
        raise ManifestError(f"{dotted} cannot be resolved: {plugins.described(error)}") from error


def _at_home(dotted: str, found: Any) -> Any:
    """The object, which the package that its name begins with must define."""
    owner = str(getattr(found, "__module__", None) or type(found).__module__)
    if _package(owner) != _package(dotted):
        raise ImportError(f"{dotted} is defined in {owner}, under which name alone it may be used")
    return found


def _package(dotted: str) -> str:
    """The first part of a dotted name; `_io`, in which `io` is written, counts as `io`."""
    return dotted.partition(".")[0].lstrip("_")
