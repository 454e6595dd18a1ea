"""Which ops are tested: those of the tree, or those named, or those of packages named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tileops._core.spec import registry
from tileops._core.validate.code import find_class

TREE = "tileops"
"""The package of the ops that ship here."""


class ChoiceFault(ValueError):
    """A name that stands for nothing that can be tested."""


def chosen_ops(names: Sequence[str] | None) -> list[str]:
    """Names of implemented ops, sorted.

    Args:
        names: ops, and packages whose ops are meant; None for those of the tree.

    Raises:
        ChoiceFault: a name is neither an implemented op nor a package that has one.
    """
    found: set[str] = set()
    for name in (TREE,) if names is None else names:
        ops = set(_ops_of(name))
        if not ops:
            raise ChoiceFault(f"{name} is neither an implemented op nor a package that has one")
        found |= ops
    return sorted(found)


def runnable_ops(names: Sequence[str] | None) -> list[str]:
    """Those of the chosen ops that have a class; a test of its own names the others.

    Args:
        names: as for `chosen_ops`.
    """
    specs = [registry.lookup(name) for name in chosen_ops(names)]
    return [spec.name for spec in specs if spec and not isinstance(find_class(spec), str)]


def _ops_of(name: str) -> Iterator[str]:
    """The implemented ops that a name stands for."""
    for op in registry.specs():
        spec = registry.lookup(op)
        if spec and spec.status == "implemented":
            home = f"{spec.home or ''}."
            if name == op or home.startswith(f"{name}."):
                yield op
