"""Specs from outside the package, all specs as data, the validator: the public surface.

Imports no torch. `branch_limit` may be set: a spec with more branches gets an advisory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileops._core.spec import registry
from tileops._core.spec.registry import SpecSource, allow, load_problems, specs

if TYPE_CHECKING:
    from tileops._core.validate.report import Report

__all__ = ["allow", "branch_limit", "load_problems", "register", "specs", "validate"]

branch_limit: int = 256
"""Branches above which a spec gets an advisory; it is checked in full all the same."""


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


def validate(names: str | Iterable[str] | None = None, source: SpecSource | None = None) -> Report:
    """Check specs, and the code of implemented ones against them.

    Args:
        names: a name or several; all by default.
        source: a path or a mapping as `register` takes it. It is checked on top of what is loaded
            without being registered, and only its specs are reported.

    Returns:
        A report; `report.findings` are named tuples `(op, field, level, message)`, `report.ok`
        tells that none of them is an error.

    Raises:
        ManifestError: a name is unknown.
    """
    from tileops._core.validate.validator import validate as run

    return run(names, source, caller=_calling_module(), branch_limit=branch_limit)


def _calling_module() -> str:
    """Name of the module that called the public function."""
    name = sys._getframe(2).f_globals.get("__name__", "__main__")
    return str(name)
