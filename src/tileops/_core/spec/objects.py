"""Objects that specs name by dotted names: classes of algebraic types, functions of rooflines.

Which names a source may use is decided when it is read. Here they are resolved, on first use; an
object counts only where its name says that it is, in the package that the name begins with.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


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
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
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


def _at_home(dotted: str, found: Any) -> Any:
    """The object, which the package that its name begins with must define."""
    owner = str(getattr(found, "__module__", None) or type(found).__module__)
    if _package(owner) != _package(dotted):
        raise ImportError(f"{dotted} is defined in {owner}, under which name alone it may be used")
    return found


def _package(dotted: str) -> str:
    """The first part of a dotted name; what a module is written in, as `_io`, makes no other."""
    return dotted.partition(".")[0].lstrip("_")
