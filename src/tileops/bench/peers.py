"""Rows of results beside published times of the same op, size and dtype.

A record of published times is a table with the columns `op`, `case`, `dims` (JSON), `dtype`,
`peer_tileops_ms`, `best_other`, `best_other_ms` and `bytes`. Ops are named and split differently
there; a mapping, a YAML file, says how. Where it is silent an op keeps its name, `NAME_shape` is
the shape of our tensor NAME, and what else a row states is a parameter or an index of that name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from tileops._core.spec.yaml12 import YamlFault, plain, read_yaml
from tileops.bench.measuring import RIGHT
from tileops.errors import TileOpsError

SHAPE = "_shape"
COLUMNS = ("op", "case", "dims", "dtype", "peer_tileops_ms", "best_other", "best_other_ms", "bytes")


class PeerFault(TileOpsError, ValueError):
    """A record of published times, or a mapping, that cannot be used."""


@dataclass(frozen=True)
class Match:
    """A row of ours and the published row that it lines up with; times are seconds.

    Args:
        op: our op.
        case: our case.
        ours: our time.
        published: the op and the case as they are called there.
        peer: the published time of the op there, None where there is none.
        other: the best published time of anything else, None where there is none.
        other_name: what that was.
    """

    op: str
    case: str
    ours: float
    published: tuple[str, str]
    peer: float | None
    other: float | None
    other_name: str


@dataclass(frozen=True)
class Rule:
    """How one published op maps to one of ours.

    Args:
        op: our op.
        shapes: shapes of our tensors: a stated shape, or extents, each a number, a stated number,
            `NAME.PLACE`, an extent of a stated shape, or a product of such, `A*B`.
        sizes: our indices, as an extent of a shape is written.
        bindings: our parameter or index for what is stated under another name.
        given: our parameters that what is stated implies.
        only: values that must be stated for the rule to hold.
        ignored: what is stated and says nothing about the call.
    """

    op: str
    shapes: Mapping[str, str | Sequence[Any]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    bindings: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    ignored: Sequence[str] = ()


def peer_matches(
    rows: Iterable[Mapping[str, Any]], table: Path, mapping: Path | None = None
) -> list[Match]:
    """The rows that line up, in the order of the table.

    Args:
        rows: rows of a results file.
        table: the record of published times, as CSV.
        mapping: how ops there map to ours; that of this package where absent.

    Raises:
        PeerFault: a file cannot be read, or is of another form.
    """
    rules = read_rules(mapping)
    ours: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["state"] == RIGHT and row["timing"]:
            ours.setdefault(row["op"], []).append(row)
    found = (_match(row, rules, ours) for row in _published(table))
    return [match for match in found if match is not None]


def read_rules(path: Path | None = None) -> dict[str, list[Rule]]:
    """The mapping of a file: rules for each published op.

    Raises:
        PeerFault: the file cannot be read, or is of another form.
    """
    source = path or files(__package__) / "peers.yaml"
    try:
        data: dict[str, Any] = plain(read_yaml(source.read_bytes()).root)
        return {
            op: [Rule(**rule) for rule in (rules if isinstance(rules, list) else [rules])]
            for op, rules in data.items()
        }
    except OSError as error:
        raise PeerFault(f"{path}: {error.strerror}") from error
    except (YamlFault, TypeError, ValueError, AttributeError) as error:
        raise PeerFault(f"{path}: not a mapping of published ops: {error}") from error


def _published(table: Path) -> list[dict[str, str]]:
    try:
        with table.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = set(COLUMNS) - set(reader.fieldnames or ())
            if missing:
                raise PeerFault(f"{table}: misses the columns {', '.join(sorted(missing))}")
            return list(reader)
    except (OSError, UnicodeDecodeError) as error:
        raise PeerFault(f"{table}: {error}") from error


def _match(
    published: Mapping[str, str],
    rules: Mapping[str, list[Rule]],
    ours: Mapping[str, list[Mapping[str, Any]]],
) -> Match | None:
    """The row of ours that a published one lines up with; of several the one of its size."""
    stated: dict[str, Any] = json.loads(published["dims"])
    candidates = [
        row
        for rule in rules.get(published["op"], [Rule(published["op"])])
        for row in ours.get(rule.op, [])
        if _alike(row, rule, stated, published["dtype"])
    ]
    if not candidates:
        return None
    moved = int(published["bytes"] or 0)
    row = min(candidates, key=lambda row: abs((row["bytes"] or 0) - moved))
    peer, other = (_seconds(published[key]) for key in ("peer_tileops_ms", "best_other_ms"))
    if peer is None and other is None:
        return None
    names = published["op"], published["case"]
    seconds = row["timing"]["median"]
    return Match(row["op"], row["case"], seconds, names, peer, other, published["best_other"])


def _alike(row: Mapping[str, Any], rule: Rule, stated: Mapping[str, Any], dtype: str) -> bool:
    """Whether a row of ours has the size, the parameters and the dtype of a published one."""
    dtypes = {form.partition("[")[0] for form in row["tensors"].values()}
    if dtype and dtype not in dtypes:
        return False
    if any(stated.get(name) != value for name, value in rule.only.items()):
        return False
    sizes = {name: _number(size, stated) for name, size in rule.sizes.items()}
    wanted: dict[str, Any] = {**rule.given, **sizes}
    shapes = {name: _shape(declared, stated) for name, declared in rule.shapes.items()}
    for name in stated.keys() - _said(rule):
        if name in rule.bindings:
            wanted[rule.bindings[name]] = stated[name]
        elif name.endswith(SHAPE) and name not in row["bindings"]:
            shapes.setdefault(name.removesuffix(SHAPE), stated[name])
        elif name != "dtype":
            wanted[name] = stated[name]
    return all(
        _extents(row["tensors"].get(name)) == shape for name, shape in shapes.items()
    ) and all(
        _written(row["bindings"].get(name)) == _written(value) for name, value in wanted.items()
    )


def _said(rule: Rule) -> set[str]:
    """What is stated and needs no further look: the rule's shapes are made of it."""
    parts = (
        part
        for shape in rule.shapes.values()
        for part in ([shape] if isinstance(shape, str) else shape)
    )
    factors = (factor for part in parts for factor in str(part).split("*"))
    return {*rule.ignored, *rule.only, *(factor.partition(".")[0] for factor in factors)}


def _shape(declared: Any, stated: Mapping[str, Any]) -> list[int | None] | None:
    """The extents that a rule gives a tensor; None where what it names is not stated."""
    if isinstance(declared, str):
        return stated.get(declared)
    return [_number(part, stated) for part in declared]


def _number(part: Any, stated: Mapping[str, Any]) -> int | None:
    """A number, a stated one, a place of a stated shape, or a product of such."""
    if isinstance(part, int):
        return part
    product = 1
    for factor in part.split("*"):
        name, _, place = factor.partition(".")
        found = stated.get(name)
        if found is None:
            return None
        product *= found[int(place)] if place else found
    return product


def _extents(form: str | None) -> list[int] | None:
    """The shape in a tensor's text, None for a tensor that is not passed."""
    if form is None:
        return None
    inner = form.partition("[")[2].removesuffix("]")
    return [int(extent) for extent in inner.split(", ")] if inner else []


def _written(value: Any) -> str:
    """A value as rows write it; equal numbers of a list count as one for all axes."""
    parts = {part for part in str(value).strip("[]()").replace(" ", "").split(",") if part}
    return parts.pop() if len(parts) == 1 else str(value).strip("[]()").rstrip(",")


def _seconds(milliseconds: str) -> float | None:
    return float(milliseconds) / 1e3 if milliseconds else None
