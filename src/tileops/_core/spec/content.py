"""Files and mappings as specs yet to be read: the rules that hold before any spec is.

Lenient by construction: whatever is wrong becomes a problem (a finding of check 1) and the rest is
kept. A strict caller refuses content that has problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tileops._core.lang.declared import dataclass
from tileops._core.spec.entries import field_path, joined, show
from tileops._core.spec.model import Finding, Location
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import MAX_BYTES, Node, YamlFault, read_yaml, wrap

if TYPE_CHECKING:
    from importlib.abc import Traversable

_SHARD = re.compile(r"[a-z][a-z0-9_]*\.yaml")


class Problem(NamedTuple):
    """A finding about a file, and where in it."""

    finding: Finding
    place: Location


@dataclass(frozen=True)
class Content:
    """What one source holds, in its order.

    `repeated` has, for a spec that repeats a key somewhere inside, the problems that say so.
    """

    source: Source
    specs: Mapping[str, Node] = field(default_factory=dict)
    adts: Mapping[str, Node] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    repeated: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Names of all specs and types that it holds."""
        return frozenset((*self.specs, *self.adts))


def problem(label: str, path: str, message: str, line: int = 0, column: int = 0) -> Problem:
    """A finding of check 1 about a file rather than a spec."""
    found = Finding.of(label, path, 1, message)
    return Problem(found, Location(label, line, column))


def file_content(path: str | os.PathLike[str], source: Source) -> Content:
    """One file given by path; it may bring `adts` of its own."""
    try:
        data = _bytes_of(Path(path))
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return Content(source, problems=(problem(source.label, "", reason),))
    return _parsed(data, source)


def _bytes_of(path: Path) -> bytes:
    """What a file holds, up to one byte more than is read.

    Raises:
        OSError: it cannot be read, lies in an archive, or is a pipe or a device, which may have
            no end.
        ValueError: the path cannot be one.
    """
    archive = next((each for each in path.parents if each.is_file()), None)
    if archive is not None:
        advice = "a package that is imported from an archive has to be installed as files"
        raise OSError(None, f"{archive} is no folder; {advice}")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(None, "not a regular file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def mapping_content(mapping: Mapping[Any, Any], source: Source) -> Content:
    """A mapping from running code; it may bring `adts` of its own."""
    try:
        root = wrap(mapping)
    except YamlFault as fault:
        return Content(source, problems=(problem(source.label, "", str(fault)),))
    return _sorted_out(root, source, ())


def family_files(folder: Traversable, family: str) -> Iterator[tuple[str, Traversable, str]]:
    """Label, file and family of each file that may hold specs or types."""
    for name in ("spec.yaml", "types.yaml"):
        if (folder / name).is_file():
            yield f"{family}/{name}", folder / name, family
    shards = folder / "spec"
    if shards.is_dir():
        for file in shards.iterdir():
            if file.name != "__pycache__":
                yield f"{family}/spec/{file.name}", file, family


def tree_content(label: str, file: Traversable, family: str) -> Content:
    """One file of a package tree, by its label and the family whose folder holds it."""
    source = Source(
        label=label,
        package="tileops",
        in_tree=True,
        folder_family=family,
        home=f"tileops.{family}",
    )
    if "/spec/" in label and not (file.is_file() and _SHARD.fullmatch(file.name)):
        reason = "not a spec file: a shard is called [a-z][a-z0-9_]*.yaml"
        return Content(source, problems=(problem(label, "", reason),))
    try:
        data = file.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        return Content(source, problems=(problem(label, "", reason),))
    content = _parsed(data, source)
    return _only_types(content) if label.endswith("/types.yaml") else _only_specs(content)


def _only_types(content: Content) -> Content:
    """A types file holds `adts` and nothing else."""
    surplus = [
        problem(content.source.label, name, "a types file holds 'adts' only", node.line)
        for name, node in content.specs.items()
    ]
    return replace(content, specs={}, problems=(*content.problems, *surplus))


def _only_specs(content: Content) -> Content:
    """An in-tree spec file holds no `adts`."""
    surplus = [
        problem(content.source.label, f"adts.{name}", "in tree, it stands in types.yaml", node.line)
        for name, node in content.adts.items()
    ]
    return replace(content, adts={}, problems=(*content.problems, *surplus))


def _parsed(data: bytes, source: Source) -> Content:
    try:
        document = read_yaml(data)
    except YamlFault as fault:
        found = problem(source.label, "", str(fault), fault.line, fault.column)
        return Content(source, problems=(found,))
    repeated = []
    for key in document.repeated:
        message = f"key {key.path[-1]!r} is repeated: lines {key.first_line} and {key.line}"
        found = problem(source.label, field_path(key.path), message, key.line, key.column)
        repeated.append((joined("", key.path[0]), found))
    return _sorted_out(document.root, source, repeated)


def _sorted_out(root: Node, source: Source, repeated: Iterable[tuple[str, Problem]]) -> Content:
    """Top-level keys told apart."""
    problems = [found for _, found in repeated]
    by_spec: dict[str, tuple[Finding, ...]] = {}
    for name, found in repeated:
        by_spec[name] = (*by_spec.get(name, ()), found.finding)
    if not isinstance(root.value, dict):
        message = f"expected a mapping of op names to specs, got {show(root.value)}"
        problems.append(problem(source.label, "", message, root.line))
        return Content(source, problems=tuple(problems), repeated=by_spec)
    specs = _with_text_keys(root, source.label, "", problems)
    types = specs.pop("adts", None)
    adts: dict[str, Node] = {}
    if types is not None and isinstance(types.value, dict):
        adts = _with_text_keys(types, source.label, "adts", problems)
    elif types is not None and types.value is not None:
        message = f"expected a mapping, got {show(types.value)}"
        problems.append(problem(source.label, "adts", message, types.line))
    if not (specs or adts or problems):
        problems.append(problem(source.label, "", "holds no spec and no type", root.line))
    return Content(source, specs, adts, tuple(problems), by_spec)


def _with_text_keys(node: Node, label: str, above: str, problems: list[Problem]) -> dict[str, Node]:
    """The entries of a mapping whose keys are names; others become problems."""
    for key, item in node.value.items():
        if not isinstance(key, str):
            message = f"a name is text, got {show(key)}"
            problems.append(problem(label, joined(above, key), message, item.line, item.column))
    return {key: item for key, item in node.value.items() if isinstance(key, str)}
