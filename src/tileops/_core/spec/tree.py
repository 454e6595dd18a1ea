"""The spec files of a package tree, each parsed when something in it is first asked for.

Which names a file defines is seen without parsing it: they begin its lines. So an op costs the
parsing of its own file, not of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tileops._core.lang.cached import cached_property
from tileops._core.spec.content import Content, family_files, tree_content

if TYPE_CHECKING:
    from importlib.abc import Traversable

_NAME = re.compile(rb"^([A-Za-z_]\w*)[ \t]*:", re.MULTILINE)


class TreeFile:
    """One file.

    Args:
        label: how messages call it.
        file: where it is.
        family: the family whose folder holds it.
    """

    def __init__(self, label: str, file: Traversable, family: str) -> None:
        self.label = label
        self._file = file
        self._family = family

    @cached_property
    def names(self) -> frozenset[str]:
        """What the file defines, as far as that is seen; nothing where it cannot be read."""
        try:
            return frozenset(name.decode() for name in _NAME.findall(self._file.read_bytes()))
        except OSError:
            return frozenset()

    @cached_property
    def content(self) -> Content:
        """What the file holds."""
        return tree_content(self.label, self._file, self._family)


class Tree:
    """All spec and type files of a package tree, in sorted path order.

    Args:
        root: the package that holds a folder per family.
        families: names of the folders.
    """

    def __init__(self, root: Traversable, families: Iterable[str]) -> None:
        found = (each for family in families for each in family_files(root / family, family))
        self._files = [TreeFile(*each) for each in sorted(found, key=lambda each: each[0])]

    def contents(self) -> list[Content]:
        """What all files hold."""
        return [file.content for file in self._files]

    def defining(self, name: str) -> Iterator[Content]:
        """What the files hold that define a spec of this name."""
        return (file.content for file in self._files if name in file.names)

    def types(self) -> Iterator[Content]:
        """What the types files hold."""
        return (file.content for file in self._files if file.label.endswith("/types.yaml"))
