"""Every check on every spec, in one report; holds no check of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tileops._core.lang.values import printable
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.check import complaints
from tileops._core.signature.findings import findings
from tileops._core.spec.content import Content, Problem, problem
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import Finding, Location, OpSpec
from tileops._core.spec.registry import SpecSource, content_of, manifest
from tileops._core.spec.source import Source
from tileops._core.validate.advisories import check_advisories
from tileops._core.validate.cases import check_cases
from tileops._core.validate.code import check_code, check_exports, class_place
from tileops._core.validate.gate import Gate
from tileops._core.validate.references import check_references
from tileops._core.validate.report import Report, check_number, in_document_order
from tileops.errors import ManifestError

_FEW = 8
"""Names that an error lists as those there are."""
_OF_CLASS = frozenset({45, 47, 48, 52, 53})
"""Checks whose findings are mended in the class, whatever field of the spec they compare."""


def validate(
    names: str | Iterable[str] | None = None,
    source: SpecSource | None = None,
    *,
    caller: str,
    branch_limit: int,
    tell: Callable[[float, float], object] = lambda _done, _total: None,
) -> Report:
    """Check specs.

    Args:
        names: which specs; all by default.
        source: a path or a mapping as `register` takes it, checked on top of what is loaded
            without being registered; only its specs are reported.
        caller: name of the module that asks, whose package a file may name.
        branch_limit: number of branches above which a spec gets an advisory.
        tell: told how many specs are checked, and of how many.

    Raises:
        ManifestError: a name is unknown, or not in the source.
    """
    known = manifest()
    available: Iterable[str] = known.names
    problems = [*known.problems, *_type_problems(known)]
    if source is not None:
        content = content_of(source, caller)
        known, problems = _on_top(known, content)
        available = content.specs
    chosen = _chosen(names, known, available)
    if names is None and source is None:
        problems += _check_exports(known)
    elif names is not None:
        files = {spec.origin for name in chosen if (spec := known.lookup(name))}
        problems = [each for each in problems if each.finding.op in {*files, *chosen}]
    return check_manifest(known, chosen, problems, branch_limit, tell)


def check_manifest(
    known: Manifest,
    names: Iterable[str],
    problems: Iterable[Problem],
    branch_limit: int,
    tell: Callable[[float, float], object] = lambda _done, _total: None,
) -> Report:
    """A report on some specs of a manifest, headed by problems with files."""
    places = dict(problems)
    chosen = list(filter(None, map(known.lookup, names)))
    for number, spec in enumerate(chosen):
        tell(number, len(chosen))
        found = tuple(_findings(spec, known, branch_limit))
        types = known.adt_table.places
        places |= {each: types[each] for each in found if each in types}
        places |= in_document_order(spec, found) | _at_class(spec, found)
    return Report(list(places), places)


def _at_class(spec: OpSpec, found: Iterable[Finding]) -> dict[Finding, Location]:
    """The findings about the class alone, at the class, where its place is known."""
    own = [each for each in found if check_number(each) in _OF_CLASS]
    place = class_place(spec) if own else None
    return dict.fromkeys(own, place) if place else {}


def _findings(spec: OpSpec, known: Manifest, branch_limit: int) -> Iterator[Finding]:
    analysis = Analysis(spec)
    static = (*spec.faults, *findings(spec, complaints(analysis)))
    yield from static
    yield from check_references(spec, known)
    yield from check_cases(analysis, Gate(spec, static))
    yield from check_advisories(spec, analysis.branches, branch_limit)
    if spec.status == "implemented":
        yield from check_code(spec, is_sound=all(each.level != "error" for each in static))


def _check_exports(known: Manifest) -> list[Problem]:
    """What the families export against what they have implemented."""
    statuses: dict[str, dict[str, str | None]] = {}
    for spec in filter(None, map(known.lookup, known.names)):
        if spec.folder_family is not None:
            statuses.setdefault(spec.folder_family, {})[spec.name] = spec.status
    return [Problem(found, Location(found.op, 0)) for found in check_exports(statuses)]


def _type_problems(known: Manifest) -> list[Problem]:
    """The findings of malformed types, which belong to their files."""
    return [Problem(found, place) for found, place in known.adt_table.places.items()]


def _on_top(known: Manifest, content: Content) -> tuple[Manifest, list[Problem]]:
    """A manifest in which a source's specs stand in place of loaded ones of the same name.

    Returns:
        The manifest, and what is wrong with the source as a file.
    """
    loaded = _as_loaded(known, content)
    content = replace(content, source=loaded or content.source)
    label = content.source.label
    taken = [
        problem(label, f"{prefix}{name}", holder.clash(name), node.line)
        for prefix, group in (("", content.specs), ("adts.", content.adts))
        for name, node in group.items()
        if (holder := known.source(name)) is not None and holder != loaded
    ]
    base = known.without({*content.specs, *content.adts})
    merged = base.adding([content])
    own = merged.problems[len(base.problems) :]
    types = [
        each for each in _type_problems(merged) if each.finding.field.split(".")[1] in content.adts
    ]
    return merged, [*own, *taken, *types]


def _as_loaded(known: Manifest, content: Content) -> Source | None:
    """The source that a content is loaded from already, where it is that file.

    Labels of in-tree sources are no paths.
    """
    file = Path(content.source.label).resolve()
    for loaded in filter(None, map(known.source, content.names)):
        if Path(loaded.label).is_absolute() and Path(loaded.label).resolve() == file:
            return loaded
    return None


def _chosen(
    names: str | Iterable[str] | None, known: Manifest, available: Iterable[str]
) -> tuple[str, ...]:
    """The names to check, in the order of the manifest."""
    listed = [name for name in available if known.lookup(name) is not None]
    if names is None:
        return tuple(listed)
    wanted = {names} if isinstance(names, str) else set(names)
    unknown = sorted(wanted - set(listed))
    if unknown:
        known_here = f"; known: {', '.join(listed)}" if 0 < len(listed) <= _FEW else ""
        raise ManifestError(f"validate: unknown op {printable(', '.join(unknown) + known_here)}")
    return tuple(name for name in listed if name in wanted)
