"""Files and mappings to undigested specs: the rules that hold before any spec is read.

Lenient by construction: whatever is wrong becomes a problem (a finding of check 1) and the rest is
kept. A strict caller refuses content that has problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileops._core.spec.entries import field_path, show
from tileops._core.spec.model import Finding
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import Node, YamlFault, read_yaml, wrap

if TYPE_CHECKING:
    from importlib.abc import Traversable

_SHARD = re.compile(r"[a-z][a-z0-9_]*\.yaml")


@dataclass(frozen=True)
class Content:
    """What one source holds, in its order.

    `repeated` has, for a spec that repeats a key somewhere inside, the problems that say so.
    """

    source: Source
    specs: Mapping[str, Node] = field(default_factory=dict)
    adts: Mapping[str, Node] = field(default_factory=dict)
    problems: tuple[Finding, ...] = ()
    repeated: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)


def problem(label: str, path: str, message: str) -> Finding:
    """A finding about a file rather than a spec."""
    return Finding(label, path, "error", f"[V1] {message}")


def tree_contents(root: Traversable, families: Iterable[str]) -> list[Content]:
    """All spec and type files of a package tree, in sorted path order.

    Args:
        root: the package that holds a folder per family.
        families: names of the folders.
    """
    files = sorted(
        (found for family in families for found in _family_files(root / family, family)),
        key=lambda found: found[0],
    )
    return [_tree_content(label, file, family) for label, file, family in files]


def file_content(path: str | os.PathLike[str], source: Source) -> Content:
    """One file given by path; it may bring `adts` of its own."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        return Content(source, problems=(problem(source.label, "", reason),))
    return _parsed(data, source)


def mapping_content(mapping: Mapping[Any, Any], source: Source) -> Content:
    """A mapping from running code; it may bring `adts` of its own."""
    try:
        root = wrap(mapping)
    except YamlFault as fault:
        return Content(source, problems=(problem(source.label, "", str(fault)),))
    return _sorted_out(root, source, ())


def _family_files(folder: Traversable, family: str) -> Iterator[tuple[str, Traversable, str]]:
    """Label, file and family of each file that may hold specs or types."""
    for name in ("spec.yaml", "types.yaml"):
        if (folder / name).is_file():
            yield f"{family}/{name}", folder / name, family
    shards = folder / "spec"
    if shards.is_dir():
        for file in shards.iterdir():
            if file.name != "__pycache__":
                yield f"{family}/spec/{file.name}", file, family


def _tree_content(label: str, file: Traversable, family: str) -> Content:
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
    label = content.source.label
    surplus = [problem(label, name, "a types file holds 'adts' only") for name in content.specs]
    return Content(
        content.source, {}, content.adts, (*content.problems, *surplus), content.repeated
    )


def _only_specs(content: Content) -> Content:
    """An in-tree spec file holds no `adts`."""
    if not content.adts:
        return content
    surplus = problem(content.source.label, "adts", "in tree, 'adts' stands in types.yaml")
    return Content(
        content.source, content.specs, {}, (*content.problems, surplus), content.repeated
    )


def _parsed(data: bytes, source: Source) -> Content:
    try:
        document = read_yaml(data)
    except YamlFault as fault:
        return Content(source, problems=(problem(source.label, "", str(fault)),))
    repeated = []
    for key in document.repeated:
        path = field_path(key.path)
        message = f"key {key.path[-1]!r} is repeated: lines {key.first_line} and {key.line}"
        repeated.append((str(key.path[0]), problem(source.label, path, message)))
    return _sorted_out(document.root, source, repeated)


def _sorted_out(root: Node, source: Source, repeated: Iterable[tuple[str, Finding]]) -> Content:
    """Top-level keys told apart."""
    label = source.label
    problems = [found for _, found in repeated]
    by_spec: dict[str, tuple[Finding, ...]] = {}
    for name, found in repeated:
        by_spec[name] = (*by_spec.get(name, ()), found)
    if not isinstance(root.value, dict):
        wanted = "a mapping of op names to specs"
        problems.append(problem(label, "", f"expected {wanted}, got {show(root.value)}"))
        return Content(source, problems=tuple(problems), repeated=by_spec)
    specs: dict[str, Node] = {}
    adts: dict[str, Node] = {}
    for name, node in root.value.items():
        if not isinstance(name, str):
            problems.append(problem(label, str(name), f"an op's name is text, got {show(name)}"))
        elif name != "adts":
            specs[name] = node
        elif isinstance(node.value, dict):
            adts = {key: item for key, item in node.value.items() if isinstance(key, str)}
            problems += [
                problem(label, f"adts.{key}", f"an ADT's name is text, got {show(key)}")
                for key in node.value
                if not isinstance(key, str)
            ]
        else:
            problems.append(problem(label, "adts", f"expected a mapping, got {show(node.value)}"))
    if not root.value:
        problems.append(problem(label, "", "holds no spec"))
    return Content(source, specs, adts, tuple(problems), by_spec)
