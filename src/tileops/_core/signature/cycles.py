"""Cycles in references between names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


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
