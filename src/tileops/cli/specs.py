"""Finding specs and op classes by the names given on the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileops._core.spec import registry
from tileops._core.spec.model import OpSpec
from tileops.cli.output import UsageFault

if TYPE_CHECKING:
    from tileops import Op


def spec_named(name: str) -> OpSpec:
    """The spec of this name.

    Raises:
        UsageFault: there is none; the nearest names are given.
    """
    spec = registry.lookup(name)
    if spec is None:
        raise UsageFault(f"no op is called {name}{_nearest(name, registry.specs())}")
    return spec


def _nearest(name: str, known: Iterable[str]) -> str:
    """`; nearest: A, B`, or nothing; neither case nor the suffix of op names counts."""
    by_stem = {_stem(word): word for word in known}
    guesses = difflib.get_close_matches(_stem(name), by_stem, 3)
    return f"; nearest: {', '.join(by_stem[guess] for guess in guesses)}" if guesses else ""


def _stem(name: str) -> str:
    return re.sub("(fwd|bwd)?op$", "", name.lower())


def class_of(spec: OpSpec) -> type[Op]:
    """The class that implements an in-tree spec.

    Raises:
        UsageFault: the family has no such class.
    """
    from importlib import import_module

    found: type[Op] | None = getattr(import_module(f"tileops.{spec.family}"), spec.name, None)
    if found is None:
        raise UsageFault(
            f"{spec.name} is {spec.status}, but tileops.{spec.family} has no such class"
        )
    return found
