"""The process-wide manifest: in-tree files, installed packs, what running code registers.

Loading happens once, on the first look-up, and is lenient: what cannot be read becomes a problem.
Registration is strict and all-or-nothing. The manifest is immutable and replaced under one lock;
entry points are resolved without it, because they import foreign modules that may look specs up.
Importing a pack may define its op classes, which look up the pack's own specs: an entry point whose
package is half imported is therefore resolved as soon as it can be, and taken back should the
import fail after all. What a pack that fails registered goes with it.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from importlib.resources import files
from typing import Any

from tileops import FAMILIES
from tileops._core import owners
from tileops._core.lang.values import printable
from tileops._core.locks import make_lock
from tileops._core.owners import Origin
from tileops._core.plugins import (
    Loading,
    entry_points,
    failed_import,
    in_order,
    is_imported,
    is_importing,
    labelled,
    levels_to_the_user,
    loaded,
)
from tileops._core.spec.content import (
    Content,
    file_content,
    mapping_content,
    problem,
)
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import Finding, OpSpec
from tileops._core.spec.names import key_fault
from tileops._core.spec.source import Source
from tileops._core.spec.tree import Tree
from tileops.errors import ManifestError

GROUP = "tileops.ops"

SpecSource = str | os.PathLike[str] | Mapping[Any, Any]

_lock = make_lock()
_manifest: Manifest | None = None
_points: list[EntryPoint] = []
_pending: list[EntryPoint] = []
_loadings: list[Loading] = []
_unsaid: list[str] = []
_unsettled: list[EntryPoint] = []
"""Packs whose specs were merged while their import was under way."""
_registered: list[tuple[Origin, frozenset[str]]] = []
"""Where specs from outside come from, and their names."""


def manifest() -> Manifest:
    """The manifest as it stands; the first call loads it.

    A look-up made while this thread resolves an entry point sees what is loaded so far, the specs
    of packages that are being imported included.
    """
    _loaded()
    if _unsettled:
        _settle()
    for point in tuple(_pending):
        if _may_resolve(point):
            _load_entry_point(point)
    if _unsaid and owners.loading() is None:
        _warn_of_failures()
    return _loaded()


def _warn_of_failures() -> None:
    """One warning per failure, when none that is raised can keep another plug-in from loading."""
    failed = tuple(_unsaid)
    _unsaid.clear()
    for failure in failed:
        warnings.warn(failure, RuntimeWarning, stacklevel=levels_to_the_user())


def _may_resolve(point: EntryPoint) -> bool:
    """Whether this thread can resolve a point now: while it resolves one, only a half imported."""
    if owners.is_loading(GROUP):
        return is_importing(point) and owners.depth(point) < 2
    return is_importing(point) or owners.helping(GROUP, called=True) is None


def _loaded() -> Manifest:
    """The manifest without waiting for entry points."""
    global _manifest
    if _manifest is None:
        with _lock:
            if _manifest is None:
                _points[:] = in_order(entry_points(GROUP))
                _pending[:] = _points
                owners.announce(GROUP, _points)
                _manifest = Manifest(tree=Tree(files("tileops"), FAMILIES))
    return _manifest


def lookup(name: str) -> OpSpec | None:
    """The spec of this name as read leniently, or None."""
    return manifest().lookup(name)


def specs() -> Mapping[str, Any]:
    """Every loaded spec as data, deeply read-only."""
    return manifest().data()


def load_problems() -> tuple[Finding, ...]:
    """What could not be loaded, as findings whose `op` is a file or an entry point."""
    return tuple(found.finding for found in manifest().problems)


def owner(name: str) -> EntryPoint | None:
    """The plug-in that brought or registered the spec of this name."""
    return next((origin.owner for origin, names in _registered if name in names), None)


def loadings() -> tuple[Loading, ...]:
    """How loading each installed pack went."""
    manifest()
    return tuple(_loadings)


def register(source: SpecSource, caller: str) -> None:
    """Add specs from outside the package, all of them or none.

    Args:
        source: path of a YAML file, or a mapping of names to specs.
        caller: name of the module that registers.

    Raises:
        ManifestError: the source cannot be used.
    """
    global _manifest
    content = content_of(source, caller)
    manifest()
    origin = owners.origin(GROUP)
    with _lock:
        refusal = owners.objection(origin)
        if refusal:
            raise ManifestError(f"{verb(source)}: {refusal}")
        _manifest = merged(_loaded(), content, verb(source))
        _registered.append((origin, content.names))


def allow(package: str) -> None:
    """Let YAML sources name classes and functions of `package` besides their own.

    Raises:
        ManifestError: `package` is not a dotted name, or a plug-in asks while it is imported.
    """
    global _manifest
    if not all(part.isidentifier() for part in package.split(".")):
        raise ManifestError(f"allow({package!r}): not the name of a package")
    manifest()
    plugin = owners.importing(GROUP) or owners.helping(GROUP, called=True)
    if plugin is not None:
        raise ManifestError(
            f"allow({package!r}): what specs may name is the user's choice; "
            f"{labelled(plugin)} may not widen it while it is imported"
        )
    with _lock:
        _manifest = _loaded().allowing(package)


def content_of(source: SpecSource, caller: str, home: str | None = None) -> Content:
    """A path or a mapping as content, named for messages.

    Raises:
        ManifestError: the source is neither.
    """
    if isinstance(source, Mapping):
        label = f"mapping of {caller}"
        return mapping_content(source, Source(label, package=None, home=home))
    given: object = source
    path = os.fspath(source) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str):
        raise ManifestError(f"{verb(source)}: expected a path or a mapping")
    package = caller.partition(".")[0]
    return file_content(path, Source(printable(path), package=package, home=home))


def verb(source: SpecSource) -> str:
    """How messages name the registration of a source."""
    return f"register({'mapping' if isinstance(source, Mapping) else printable(str(source))})"


def merged(base: Manifest, content: Content, subject: str) -> Manifest:
    """A manifest with one more source.

    Raises:
        ManifestError: the first reason for which the source cannot be used.
    """
    for reason in _objections(base, content):
        raise ManifestError(f"{subject}: {printable(reason)}")
    return base.adding([content])


def _objections(base: Manifest, content: Content) -> Iterator[str]:
    for found, _ in content.problems:
        text = found.message.partition("] ")[2]
        yield f"{found.field}: {text}" if found.field else text
    for name in (*content.specs, *content.adts):
        fault = key_fault(name)
        if fault:
            yield fault
        known = base.source(name)
        if known is not None:
            yield known.clash(name)
    for name, node in content.specs.items():
        if not isinstance(node.value, dict):
            yield f"{name}: the spec is not a mapping"
        elif not isinstance(node.value.get("signature", (None,))[0], dict):
            yield f"{name}: the spec has no 'signature' mapping"


def _settle() -> None:
    """Take back the specs of packs whose import failed after all, to be tried once more."""
    with _lock:
        for point in [each for each in _unsettled if not is_importing(each)]:
            _unsettled.remove(point)
            if not is_imported(point):
                _take_back(point)


def _take_back(point: EntryPoint) -> None:
    """Undo that an entry point was resolved."""
    _pending.append(point)
    owners.withdraw(point)
    _loadings[:] = [each for each in _loadings if not each.is_of(point)]


def _load_entry_point(point: EntryPoint) -> None:
    """Resolve one entry point and merge what it gives; a failure is reported, not raised.

    While a pack is half imported, what fails may do so for that reason, and is tried again later.
    """
    started = time.perf_counter()
    content: Content | None = None
    failure = ""
    half = owners.helping(GROUP, called=True) is not None
    try:
        with owners.under_way(point):
            content = _resolve(point, half)
    except KeyboardInterrupt:
        owners.withdraw(point)
        raise
    except BaseException as error:  # Only an interrupt comes from outside.
        failure = failed_import(point, error)
    if failure and any(map(is_importing, _points)):
        return
    with _lock:
        if failure and point in _unsettled:
            _unsettled.remove(point)
            _take_back(point)
        if point not in _pending:
            return
        failure = _merge_pack(point, content, failure)
        # Only now: a thread that finds nothing pending takes the manifest as it stands.
        _pending.remove(point)
        seconds = time.perf_counter() - started
        _loadings.append(Loading.of(point, seconds, failure or None))
        if failure:
            owners.has_failed(point, failure)
            _unsaid.append(f"{labelled(point)} cannot be loaded: {failure}")
        elif is_importing(point):
            _unsettled.append(point)


def _merge_pack(point: EntryPoint, content: Content | None, failure: str) -> str:
    """Merge what an entry point gave, or note why nothing can be; the failure, empty if none."""
    global _manifest
    if content is not None:
        try:
            _manifest = merged(_loaded(), content, content.source.label)
            _registered.append((owners.of(point), content.names))
        except ManifestError as error:
            failure = str(error)
    if failure:
        found = problem(labelled(point), "", f"cannot be loaded: {failure}")
        _manifest = _loaded().reporting(found)
    return failure


def _withdraw(point: EntryPoint) -> None:
    """Drop the specs that a plug-in brought or registered."""
    global _manifest
    with _lock:
        gone = [names for origin, names in _registered if origin.is_of(point)]
        if gone:
            _manifest = _loaded().without(frozenset().union(*gone))
            _registered[:] = [each for each in _registered if not each[0].is_of(point)]


owners.on_withdrawal(_withdraw)


def _resolve(point: EntryPoint, half: bool) -> Content:
    target = loaded(point, half=half)
    if callable(target) and not isinstance(target, Mapping):
        target = target()
    if isinstance(target, zipfile.Path):  # A resource within an archive; the reader advises.
        target = str(target)
    if not isinstance(target, str | os.PathLike | Mapping):
        kind = type(target).__name__
        raise ManifestError(f"resolves to {kind}, expected a path, a mapping or a function of none")
    home = getattr(sys.modules[point.module], "__package__", None)
    return content_of(target, point.module, home or None)
