"""Specs from outside the package, all specs as data, and what may be named: the public surface.

Imports no torch.
"""

from __future__ import annotations

import sys

from tileops._core.spec import registry
from tileops._core.spec.registry import SpecSource, allow, load_problems, specs

__all__ = ["allow", "load_problems", "register", "specs"]


def register(source: SpecSource) -> None:
    """Add specs from outside the package, all of them or none.

    An `Op` subclass defined afterwards whose name is a key of the source gets its generated
    methods exactly as an in-tree op does.

    Args:
        source: path of a YAML file, or a mapping of names to specs. Either may carry the key
            `adts` to bring algebraic types of its own.

    Raises:
        ManifestError: the source cannot be read, is malformed, or defines a known name.

    Example:
        >>> register("acme/spec.yaml")  # doctest: +SKIP
    """
    registry.register(source, _calling_module())


def _calling_module() -> str:
    """Name of the module that called the public function."""
    name = sys._getframe(2).f_globals.get("__name__", "__main__")
    return str(name)
