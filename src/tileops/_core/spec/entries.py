"""Walking a spec field by field: each fault is noted once, at its field, and reading goes on.

An `Entry` is one written value with its field path. It never raises on what an author wrote: a
value of the wrong form is reported to the `Reading`, and the caller gets None or an empty
container. Invariant: every fault marks its path (or a given one) as unknown, so that later checks
can skip exactly what depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tileops._core.lang.spelling import suggest
from tileops._core.lang.values import shown
from tileops._core.spec.model import Finding, Location
from tileops._core.spec.yaml12 import Node


def field_path(parts: Iterable[object]) -> str:
    """Keys and positions as a field path: `workloads[0].label`."""
    text = ""
    for part in parts:
        if isinstance(part, int) and not isinstance(part, bool):
            text += f"[{part}]"
        else:
            text = joined(text, part)
    return text


def joined(path: str, key: object) -> str:
    """The field path of a key below a path."""
    name = key if isinstance(key, str) else shown(key)
    return f"{path}.{name}" if path else name


class Reading:
    """What reading one spec (or one `adts` section) collects.

    Args:
        op: the spec's name, or the file's label where no spec is at fault.
        file: label of the file or mapping, for places.
    """

    def __init__(self, op: str, file: str) -> None:
        self.op = op
        self.file = file
        self.findings: list[Finding] = []
        self.unknown: set[str] = set()
        self.locations: dict[str, Location] = {}

    def error(self, check: int, path: str, message: str) -> None:
        """Report a fault and mark its path as unknown."""
        self.unknown.add(path)
        self.findings.append(Finding.of(self.op, path, check, message))

    def remark(self, check: int, path: str, message: str) -> None:
        """Report an advisory."""
        self.findings.append(Finding.of(self.op, path, check, message, "advisory"))

    def inherit(self, path: str, findings: Collection[Finding]) -> None:
        """Mark a path as unknown because of faults found elsewhere."""
        self.unknown.add(path)
        self.findings += [found for found in findings if found not in self.findings]

    def is_unknown(self, path: str) -> bool:
        """Whether this path could not be read."""
        return path in self.unknown

    def place_of(self, path: str) -> Location:
        """Where a field stands; for one that is absent, where its owner stands."""
        return nearest(self.locations, path)

    def entry(self, path: str, node: Node) -> Entry:
        """An entry at a path; its place is remembered."""
        self.locations[path] = Location(self.file, node.line, node.column)
        return Entry(self, path, node)


class Entry:
    """One written value at its field path."""

    __slots__ = ("node", "path", "reading")

    def __init__(self, reading: Reading, path: str, node: Node) -> None:
        self.reading = reading
        self.path = path
        self.node = node

    @property
    def value(self) -> Any:
        """The value: a scalar, a dict of nodes or a list of nodes."""
        return self.node.value

    @property
    def name(self) -> str:
        """The last part of the field path."""
        return self.path.rpartition(".")[2]

    @property
    def location(self) -> Location:
        """Where the entry stands."""
        return self.reading.locations[self.path]

    def error(self, check: int, message: str) -> None:
        """Report a fault here."""
        self.reading.error(check, self.path, message)

    def expected(self, check: int, what: str) -> None:
        """Report that something else was expected here."""
        self.error(check, f"expected {what}, got {show(self.value)}")

    def mapping(self, check: int) -> dict[str, Entry]:
        """The entries of a mapping with text keys; anything else is a fault."""
        if not isinstance(self.value, dict):
            self.expected(check, "a mapping")
            return {}
        return dict(self._children(check))

    def _children(self, check: int) -> Iterator[tuple[str, Entry]]:
        for key, node in self.value.items():
            entry = self.reading.entry(self.join(key), node)
            if isinstance(key, str):
                yield key, entry
            else:
                entry.error(check, f"a key must be text, got {show(key)}")

    def fields(self, check: int, allowed: Collection[str], what: str) -> dict[str, Entry]:
        """The entries of a mapping with fixed keys; an unknown key is a fault at that key."""
        found = self.mapping(check)
        for key in [key for key in found if key not in allowed]:
            found.pop(key).error(check, f"not a key of {what}{suggest(key, allowed)}")
        return found

    def items(self, check: int) -> list[Entry]:
        """The items of a list; anything else is a fault."""
        if not isinstance(self.value, list):
            self.expected(check, "a list")
            return []
        return [self.reading.entry(f"{self.path}[{i}]", node) for i, node in enumerate(self.value)]

    def text(self, check: int, what: str = "text") -> str | None:
        """The value as text; anything else is a fault."""
        if isinstance(self.value, str):
            return self.value
        self.expected(check, what)
        return None

    def flag(self, check: int) -> bool | None:
        """The value as a boolean; anything else is a fault."""
        if isinstance(self.value, bool):
            return self.value
        self.expected(check, "true or false")
        return None

    def join(self, key: object) -> str:
        """The field path of a key below this entry."""
        return joined(self.path, key)


def nearest(locations: Mapping[str, Location], path: str) -> Location:
    """The place of a field, or of the nearest one around it that was written."""
    while path and path not in locations:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return locations[path] if path in locations else next(iter(locations.values()))


def section(fields: Mapping[str, Entry], name: str) -> Entry | None:
    """A section unless it is absent, which null equals."""
    entry = fields.get(name)
    return None if entry is None or entry.value is None else entry


def show(value: Any) -> str:
    """A written value in a message: containers by their type, long text cut."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = shown(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
