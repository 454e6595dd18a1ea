"""YAML 1.2 text to values with places; knows nothing of specs.

Scalars follow the core rules of YAML 1.2: `on` is a string, `1e-6` a float, `017` decimal. The
reader pulls parser events and keeps its own stack, so nesting, alias expansion and scalar length
are bounded before anything is built. Invariant: every fault carries a line and a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tileops._core.lang.values import shown, shown_with_type

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_DATA = 1_000_000
MAX_SCALAR = 100_000
MAX_DIGITS = 400


class Node(NamedTuple):
    """A value and where its entry begins.

    `value` is a scalar, a `dict` from key to `Node`, or a `list` of `Node`. A mapping's entry
    stands where its key stands. What came from running code has line 0, and its column counts
    entries, so that places order entries in either case.
    """

    value: Any
    line: int = 0
    column: int = 0


class Foreign:
    """An object from running code that YAML could not hold; equal to itself alone.

    Args:
        value: the object.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return shown_with_type(self.value)


class RepeatedKey(NamedTuple):
    """A key written twice in one mapping; the first entry is kept.

    `path` leads to it through keys and positions.
    """

    path: tuple[Any, ...]
    line: int
    column: int
    first_line: int


class Document(NamedTuple):
    """The root of one file and the keys it repeats."""

    root: Node
    repeated: tuple[RepeatedKey, ...]


class YamlFault(Exception):
    """Text that is not admissible YAML; `line` and `column` count from 1, 0 when there is none."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message = message
        self.line = line
        self.column = column
        super().__init__(message, line, column)

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return place + self.message


def read_yaml(data: bytes) -> Document:
    """Read one document.

    Args:
        data: the file's bytes, UTF-8.

    Returns:
        The root node; an empty file has a root whose value is None.

    Raises:
        YamlFault: at the first place that is not admissible.
    """
    if len(data) > MAX_BYTES:
        raise YamlFault(f"the file has {len(data)} bytes, the limit is {MAX_BYTES}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise YamlFault("not UTF-8", before.count(b"\n") + 1, column) from None
    builder = _Builder()
    for event in _events(text):
        builder.take(event)
    return builder.document()


def wrap(value: Any) -> Node:
    """Turn data from running code into nodes without places.

    Raises:
        YamlFault: when the data nests too deeply (as data that contains itself does), is too
            large, or holds half a character, which could not be shown again.
    """
    return _Wrapper().wrap(value, 0)


def plain(node: Node) -> Any:
    """The bare data below a node: dicts, lists and scalars."""
    value = node.value
    if isinstance(value, dict):
        return {bare(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bare(value)


def bare(scalar: Any) -> Any:
    """A key or a scalar as it was given."""
    return scalar.value if isinstance(scalar, Foreign) else scalar


class _Wrapper:
    """Copies plain data into nodes, counting them."""

    def __init__(self) -> None:
        self._count = 0

    def wrap(self, value: Any, depth: int) -> Node:
        """The node of one value at a depth."""
        self._count += 1
        place = self._count
        if depth > MAX_DEPTH:
            raise YamlFault(f"nested more than {MAX_DEPTH} deep, or contains itself")
        if place > MAX_DATA:
            raise YamlFault(f"more than {MAX_DATA} values, or contains itself")
        if isinstance(value, Mapping):
            entries = {_scalar(key): self.wrap(item, depth + 1) for key, item in value.items()}
            return Node(entries, 0, place)
        if isinstance(value, (list, tuple)):
            return Node([self.wrap(item, depth + 1) for item in value], 0, place)
        return Node(_scalar(value), 0, place)


def _scalar(value: Any) -> Any:
    """A scalar as YAML has it, of the very type; a text with half a character in it is none."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii() and _SURROGATE.search(text):
            raise YamlFault(f"half a character in {shown(text)}")
        return text
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else Foreign(value)


_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_BREAKS = "\x85\u2028\u2029"
"""What breaks a line in YAML 1.1, which the parser reads, and is like any other text in 1.2."""
_PRIVATE = range(0xE000, 0xF900)
_ESCAPED = re.compile(r"\\(?:u|U0000)([0-9A-Fa-f]{4})")


def _disguised(text: str) -> tuple[str, dict[int, str]]:
    """The text with others in the place of those characters, and what turns them back.

    They are replaced by characters for private use that the text neither holds nor escapes.
    """
    found = [char for char in _BREAKS if char in text]
    if not found:
        return text, {}
    taken = {*map(ord, set(text)), *(int(digits, 16) for digits in _ESCAPED.findall(text))}
    free = [code for code in _PRIVATE if code not in taken][: len(found)]
    if len(free) < len(found):
        raise YamlFault("a line separator of Unicode beside all characters for private use")
    return text.translate(dict(zip(map(ord, found), free, strict=True))), dict(
        zip(free, found, strict=True)
    )


def _events(text: str) -> Iterator[Any]:
    """The parser's events, its errors turned into faults."""
    text, breaks = _disguised(text)
    try:
        parser = _PARSER(text)
        while True:
            event = parser.get_event()
            if breaks and type(event) is yaml.ScalarEvent:
                event.value = event.value.translate(breaks)
            yield event
            if type(event) is yaml.StreamEndEvent:
                return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        if (error.context or "").startswith("while parsing a flow"):
            message += "; text with brackets, braces or a comma is quoted"
        if mark and text[mark.index : mark.index + 1] == "\t":
            message += "; YAML is indented by spaces, and a tab stands here"
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        for stand_in, char in breaks.items():
            message = message.replace(repr(chr(stand_in)), repr(char))
        raise YamlFault(message, *place) from None
    except yaml.reader.ReaderError as error:
        before = text.partition(chr(error.character))[0] if isinstance(error.character, int) else ""
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise YamlFault("a character that YAML does not allow", line, column) from None


class _Frame:
    """An open collection: its node, the pending key, the nodes before it, the levels below it."""

    __slots__ = ("anchor", "before", "has_key", "height", "key", "key_column", "key_line", "node")

    def __init__(self, node: Node, anchor: str | None, before: int) -> None:
        self.node = node
        self.anchor = anchor
        self.before = before
        self.height = 1
        self.has_key = False
        self.key: Any = None
        self.key_line = self.key_column = 0

    @property
    def position(self) -> Any:
        """The key or the number of the entry being read."""
        entries = self.node.value
        return len(entries) if isinstance(entries, list) else self.key


class _Anchored(NamedTuple):
    """What an alias stands for, with its number of nodes and of levels."""

    node: Node
    size: int
    height: int


class _Builder:
    """Consumes events with an explicit stack and keeps every limit."""

    def __init__(self) -> None:
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._root: Node | None = None
        self._repeated: list[RepeatedKey] = []
        self._nodes = 0
        self._aliased = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }

    def take(self, event: Any) -> None:
        """Consume one event."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def document(self) -> Document:
        """What was read."""
        return Document(self._root or Node(None), tuple(self._repeated))

    def _document(self, event: Any) -> None:
        if self._root is not None:
            raise _fault("a file holds one document", event)

    def _open(self, event: Any) -> None:
        is_mapping = type(event) is yaml.MappingStartEvent
        expected = "tag:yaml.org,2002:map" if is_mapping else "tag:yaml.org,2002:seq"
        if event.tag not in (None, expected):
            raise _fault(f"tag {_tag_text(event.tag)} is not allowed here", event)
        if len(self._stack) >= MAX_DEPTH:
            raise _fault(f"nested more than {MAX_DEPTH} deep", event)
        if self._stack and self._awaits_key(self._stack[-1]):
            raise _fault("a key must be a scalar", event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        mark = event.start_mark
        node = Node({} if is_mapping else [], mark.line + 1, mark.column + 1)
        self._stack.append(_Frame(node, event.anchor, self._nodes))
        self._count(1, event)

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        if frame.anchor is not None:
            size = self._nodes - frame.before
            self._anchors[frame.anchor] = _Anchored(frame.node, size, frame.height)
        self._place(frame.node, frame.height)

    def _scalar(self, event: Any) -> None:
        length = len(event.value)
        if length > MAX_SCALAR:
            raise _fault(f"a scalar of {length} characters, the limit is {MAX_SCALAR}", event)
        if not event.value.isascii() and _SURROGATE.search(event.value):
            raise _fault("half a character, as an escape may give", event)
        frame = self._stack[-1] if self._stack else None
        value = _resolve(event)
        mark = event.start_mark
        node = Node(value, mark.line + 1, mark.column + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(node, 1, 0)
        self._count(1, event)
        if frame is not None and self._awaits_key(frame):
            if value == "<<" and event.implicit[0]:
                raise _fault("merge keys (<<) are not allowed", event)
            self._take_key(frame, node)
        else:
            self._place(node, 0)

    def _alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor)
        if found is None:
            is_open = event.anchor in self._anchors
            absent = "has no anchor before it; text with a * at its head is quoted"
            fault = "stands inside its own anchor" if is_open else absent
            raise _fault(f"alias *{event.anchor} {fault}", event)
        self._aliased = True
        self._count(found.size, event)
        if len(self._stack) + found.height > MAX_DEPTH:
            raise _fault(f"nested more than {MAX_DEPTH} deep once aliases are expanded", event)
        mark = event.start_mark
        node = Node(found.node.value, mark.line + 1, mark.column + 1)
        frame = self._stack[-1]
        if not self._awaits_key(frame):
            self._place(node, found.height)
        elif isinstance(node.value, (dict, list)):
            raise _fault("a key must be a scalar", event)
        else:
            self._take_key(frame, node)

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._aliased and self._nodes > MAX_NODES:
            raise _fault(f"more than {MAX_NODES} nodes once aliases are expanded", event)

    @staticmethod
    def _awaits_key(frame: _Frame) -> bool:
        return isinstance(frame.node.value, dict) and not frame.has_key

    @staticmethod
    def _take_key(frame: _Frame, node: Node) -> None:
        frame.has_key = True
        frame.key = node.value
        frame.key_line, frame.key_column = node.line, node.column

    def _place(self, node: Node, height: int) -> None:
        """Put a finished node where it belongs."""
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        frame.height = max(frame.height, height + 1)
        entries = frame.node.value
        if isinstance(entries, list):
            entries.append(node)
            return
        frame.has_key = False
        first = entries.get(frame.key)
        if first is None:
            entries[frame.key] = Node(node.value, frame.key_line, frame.key_column)
        else:
            path = *(each.position for each in self._stack[:-1]), frame.key
            self._repeated.append(RepeatedKey(path, frame.key_line, frame.key_column, first.line))


def _fault(message: str, event: Any) -> YamlFault:
    return YamlFault(message, event.start_mark.line + 1, event.start_mark.column + 1)


_SURROGATE = re.compile("[\ud800-\udfff]")
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = {".nan", ".NaN", ".NAN"}
_STARTS = frozenset("0123456789+-.")


_TAG = "tag:yaml.org,2002:"
_TAGGED: dict[str, type] = {"null": type(None), "bool": bool, "int": int, "float": float}


def _resolve(event: Any) -> Any:
    """A scalar's value: by its core tag, or by the core rules when plain and untagged."""
    tag = event.tag
    if tag is None:
        return _resolve_plain(event.value, event) if event.implicit[0] else event.value
    name = tag.removeprefix(_TAG)
    if name in {"str", "!"}:
        return event.value
    if name not in _TAGGED:
        raise _fault(f"tag {_tag_text(tag)} is not allowed", event)
    value = _resolve_plain(event.value, event)
    if name == "float" and type(value) is int:
        return float(str(value))
    if type(value) is not _TAGGED[name]:
        raise _fault(f"{event.value!r} is not a {_tag_text(tag)}", event)
    return value


def _resolve_plain(text: str, event: Any) -> Any:
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in _STARTS:
        return text
    if _INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise _fault(f"an integer of more than {MAX_DIGITS} digits", event)
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise _fault("a number beyond the range of floats", event)
        return number
    if _INFINITE.fullmatch(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if text in _NAN else text


def _tag_text(tag: str) -> str:
    """A tag as an author writes it."""
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
