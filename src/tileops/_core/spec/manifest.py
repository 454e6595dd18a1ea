"""An immutable set of specs: contents merged, each spec read when it is first asked for.

Merging is lenient: of two specs with one name the first stays. What was dropped is in `problems`.
The files of a tree come before all other sources, and are parsed only as far as a question needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tileops._core.lang.declared import dataclass
from tileops._core.locks import make_lock
from tileops._core.spec.adts import read_adts
from tileops._core.spec.content import Content, Problem, problem
from tileops._core.spec.entries import show
from tileops._core.spec.model import AdtTable, Finding, Location, OpSpec
from tileops._core.spec.reader import read_spec
from tileops._core.spec.source import Source
from tileops._core.spec.tree import Tree
from tileops._core.spec.yaml12 import Node, bare

_merging = make_lock()


@dataclass(frozen=True)
class _Record:
    """One spec as written; `repeated` are the problems inside it."""

    node: Node
    source: Source
    repeated: tuple[Finding, ...] = ()


class Manifest:
    """Specs by name.

    Args:
        records: each spec as written.
        adts: each ADT as written, with its source.
        problems: what is wrong with files.
        allowed: packages that YAML sources may name besides their own.
        tree: files whose specs and types come before these.
    """

    def __init__(
        self,
        records: Mapping[str, _Record] | None = None,
        adts: Mapping[str, tuple[Node, Source]] | None = None,
        problems: tuple[Problem, ...] = (),
        allowed: frozenset[str] = frozenset(),
        tree: Tree | None = None,
    ) -> None:
        self._records = dict(records or {})
        self._adts = dict(adts or {})
        self._problems = problems
        self._tree = tree
        self.allowed = allowed
        self._table: AdtTable | None = None
        self._data: Mapping[str, Any] | None = None
        self._read: dict[str, OpSpec] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the specs, in-tree first, then in the order in which sources were added."""
        return tuple(self._whole()._records)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with files."""
        return self._whole()._problems

    def origin(self, name: str) -> str | None:
        """Label of the source that holds a spec or an ADT of this name."""
        source = self.source(name)
        return None if source is None else source.label

    def source(self, name: str) -> Source | None:
        """The source that holds a spec or an ADT of this name."""
        record, adts = self._record(name), self._all_adts()
        if record is not None:
            return record.source
        return adts[name][1] if name in adts else None

    def lookup(self, name: str) -> OpSpec | None:
        """The spec of this name, or None."""
        spec = self._read.get(name)
        if spec is None:
            record = self._record(name)
            if record is not None:
                spec = self._read.setdefault(name, self._read_spec(name, record))
        return spec

    def _record(self, name: str) -> _Record | None:
        """The spec of this name as written."""
        tree, found = self._tree, self._records.get(name)
        if found is None and tree is not None:
            found = Manifest().adding(tree.defining(name))._records.get(name)
        return found

    def _all_adts(self) -> dict[str, tuple[Node, Source]]:
        """Each ADT as written, those of the tree first."""
        tree, adts = self._tree, self._adts
        return adts if tree is None else {**Manifest().adding(tree.types())._adts, **adts}

    def _whole(self) -> Manifest:
        """This manifest when all files of the tree are merged."""
        with _merging:
            if self._tree is not None:
                base = Manifest().adding(self._tree.contents())
                self._records = {**base._records, **self._records}
                self._adts = {**base._adts, **self._adts}
                self._problems = (*base._problems, *self._problems)
                self._tree = None
        return self

    def data(self) -> Mapping[str, Any]:
        """Every spec as data, deeply read-only."""
        if self._data is None:
            frozen = {name: _frozen(self._records[name].node) for name in self.names}
            self._data = MappingProxyType(frozen)
        return self._data

    @property
    def adt_table(self) -> AdtTable:
        """The ADTs that specs may name."""
        if self._table is None:
            table = AdtTable()
            for name, (node, source) in self._all_adts().items():
                table = table.joined(read_adts({name: node}, self._admitting(source)))
            self._table = table
        return self._table

    def adding(self, contents: Iterable[Content]) -> Manifest:
        """This manifest with more sources merged in, leniently."""
        records, adts, problems = dict(self._records), dict(self._adts), [*self._problems]
        before = self._all_adts()
        for content in contents:
            problems += content.problems
            label = content.source.label
            for name, node in content.adts.items():
                earlier = adts.get(name) or before.get(name)
                if earlier is not None:
                    message = earlier[1].clash(name)
                    problems.append(problem(label, f"adts.{name}", message, node.line))
                else:
                    adts[name] = node, content.source
            for name, node in content.specs.items():
                known = records.get(name) or self._record(name)
                if known is not None:
                    message = known.source.clash(name)
                    problems.append(problem(label, name, message, node.line))
                elif not isinstance(node.value, dict):
                    fault = Finding.of(name, "", 3, f"expected a mapping, got {show(node.value)}")
                    place = Location(label, node.line, node.column)
                    problems.append(Problem(fault, place))
                else:
                    records[name] = _Record(node, content.source, content.repeated.get(name, ()))
        return self._successor(records, adts, tuple(problems), self.allowed)

    def reporting(self, found: Problem) -> Manifest:
        """This manifest with one more problem."""
        return self._successor(self._records, self._adts, (*self._problems, found), self.allowed)

    def without(self, names: Collection[str]) -> Manifest:
        """This manifest without the specs and ADTs of these names."""
        records = {name: record for name, record in self._records.items() if name not in names}
        adts = {name: entry for name, entry in self._adts.items() if name not in names}
        manifest = self._successor(records, adts, self._problems, self.allowed)
        for name in names:
            manifest._read.pop(name, None)
        return manifest

    def allowing(self, package: str) -> Manifest:
        """This manifest, where YAML sources may also name what lies in `package`."""
        return self._successor(self._records, self._adts, self._problems, self.allowed | {package})

    def _successor(
        self,
        records: Mapping[str, _Record],
        adts: Mapping[str, tuple[Node, Source]],
        problems: tuple[Problem, ...],
        allowed: frozenset[str],
    ) -> Manifest:
        """A manifest that keeps what was read, unless the change may mend or break it."""
        manifest = Manifest(records, adts, problems, allowed, self._tree)
        if len(adts) == len(self._adts) and allowed == self.allowed:
            manifest._table = self._table
            manifest._read = dict(self._read)
        return manifest

    def _read_spec(self, name: str, record: _Record) -> OpSpec:
        spec = read_spec(name, record.node, self._admitting(record.source), self.adt_table)
        return replace(spec, faults=(*record.repeated, *spec.faults)) if record.repeated else spec

    def _admitting(self, source: Source) -> Source:
        return replace(source, allowed=self.allowed) if self.allowed else source


def _frozen(node: Node) -> Any:
    """The bare data below a node, read-only."""
    value = node.value
    if isinstance(value, dict):
        return MappingProxyType({bare(key): _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return bare(value)
