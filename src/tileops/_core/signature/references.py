"""What stands behind the names and presences of a spec: lets and presence conditions.

A let names other lets and tests presences; the condition of a tensor does the same. Everything is
found without recursion and listed so that what is read stands before what reads it, so chains of
any length can be resolved one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tileops._core.lang.nodes import Bytes, Expr, Name, Present, Shape
from tileops._core.lang.walk import walk


class Reference(NamedTuple):
    """The value of a let, or the presence of a conditional tensor or output."""

    aspect: Literal["value", "presence"]
    name: str


class References:
    """The references of one spec.

    Args:
        definitions: what each let is defined as and each conditional presence depends on.
    """

    def __init__(self, definitions: Mapping[Reference, Expr]) -> None:
        self.definitions = definitions
        self._graph = {key: self._direct(expr) for key, expr in definitions.items()}
        self._ranks = {key: rank for rank, key in enumerate(self._ordered())}
        self._below: dict[int, tuple[Expr | Shape, tuple[Reference, ...]]] = {}

    def _direct(self, tree: Expr | Shape) -> tuple[Reference, ...]:
        """The references that a tree makes itself; a size in bytes depends on a presence too.

        A let that is never absent has no presence of its own: what asks for that reads the let.
        """
        found: dict[Reference, None] = {}
        for node in walk(tree):
            if isinstance(node, Name):
                found[Reference("value", node.id)] = None
            elif isinstance(node, Present | Bytes):
                key = Reference("presence", node.name)
                found[key if key in self.definitions else Reference("value", node.name)] = None
        return tuple(key for key in found if key in self.definitions)

    def _ordered(self) -> Iterator[Reference]:
        """All references, each after those it leads to; a cycle is cut somewhere."""
        done: set[Reference] = set()
        for start in self._graph:
            pending = [(start, iter(self._graph[start]))]
            entered = {start}
            while pending and start not in done:
                key, rest = pending[-1]
                inner = next((k for k in rest if k not in done and k not in entered), None)
                if inner is not None:
                    entered.add(inner)
                    pending.append((inner, iter(self._graph[inner])))
                else:
                    done.add(key)
                    pending.pop()
                    yield key

    def below(self, tree: Expr | Shape) -> tuple[Reference, ...]:
        """Everything that a tree leads to, each after what it leads to itself."""
        kept = self._below.get(id(tree))
        if kept is None:
            found: set[Reference] = set()
            pending = list(self._direct(tree))
            while pending:
                key = pending.pop()
                if key not in found:
                    found.add(key)
                    pending += self._graph[key]
            kept = (tree, tuple(sorted(found, key=self._ranks.__getitem__)))
            self._below[id(tree)] = kept
        return kept[1]

    def cycles(self, aspect: str) -> Iterator[tuple[str, ...]]:
        """Each cycle of lets (`"value"`) or of presences, from a name back to that name."""
        keys = [key for key in self._graph if key.aspect == aspect]
        graph = {key.name: self._alike(key) for key in keys}
        yield from cycles(graph)

    def _alike(self, key: Reference) -> list[str]:
        """The names of the same aspect that a reference leads to; presences through lets too.

        Whether a let is there is told by its definition, so asking for that refers to the let.
        """
        if key.aspect == "value":
            read = self._graph[key]
            return [each.name for each in read if Reference("value", each.name) in self._graph]
        found: list[str] = []
        seen: set[Reference] = set()
        pending = list(reversed(self._graph[key]))
        while pending:
            inner = pending.pop()
            if inner.aspect == "presence":
                found.append(inner.name)
            elif inner not in seen:
                seen.add(inner)
                pending += reversed(self._graph[inner])
        return found


def cycles(references: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each cycle once, from its first name in declaration order back to that name.

    Args:
        references: each name with the names it refers to; others refer to nothing.
    """
    reported: set[str] = set()
    for start in references:
        path = None if start in reported else _path_back(start, references)
        if path is not None:
            reported.update(path)
            yield path


def _path_back(start: str, references: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """A shortest way from a name back to itself."""
    came_from: dict[str, str] = {}
    level = [start]
    while level:
        reached: list[str] = []
        for name in level:
            for target in references.get(name, ()):
                if target == start:
                    return _way(start, name, came_from)
                if target not in came_from:
                    came_from[target] = name
                    reached.append(target)
        level = reached
    return None


def _way(start: str, last: str, came_from: Mapping[str, str]) -> tuple[str, ...]:
    way = [start]
    name = last
    while name != start:
        way.append(name)
        name = came_from[name]
    return (start, *reversed(way[1:]), start)
