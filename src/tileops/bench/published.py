"""A record of published times, and the mapping that says what its rows ask of our ops.

A record is a table with the columns `op`, `case`, `dims` (JSON), `dtype`, `peer_tileops_ms`,
`best_other`, `best_other_ms` and `bytes`. Ops are named and split differently there; a mapping, a
YAML file, says how. Where it is silent an op keeps its name, `NAME_shape` is the shape of our
tensor NAME, and what else a row states is a parameter or an index of that name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any

from tileops._core.spec.yaml12 import YamlFault, plain, read_yaml
from tileops.errors import TileOpsError

SHAPE = "_shape"
COLUMNS = ("op", "case", "dims", "dtype", "peer_tileops_ms", "best_other", "best_other_ms", "bytes")

Extents = Sequence[int]


class PeerFault(TileOpsError, ValueError):
    """A record of published times, or a mapping, that cannot be used."""


@dataclass(frozen=True)
class Published:
    """A published row; times are seconds.

    Args:
        op: the op as it is called there.
        case: the case as it is called there.
        stated: shapes and parameters as they are called there.
        dtype: our name of the dtype, empty where none is stated.
        peer: the time of the op there, None where there is none.
        other: the best time of anything else, None where there is none.
        other_name: what that was.
        bytes: the bytes that were counted there.
    """

    op: str
    case: str
    stated: Mapping[str, Any]
    dtype: str
    peer: float | None
    other: float | None
    other_name: str
    bytes: int

    @property
    def id(self) -> str:
        """What a case of ours is called that was made from the row."""
        return f"{self.op}/{self.case}"


@dataclass(frozen=True)
class Demand:
    """What a published row asks of a call of an op of ours.

    Args:
        op: the op.
        shapes: shapes of tensors; None for one that is not passed.
        values: parameters and indices.
        passed: tensors without a stated shape that are passed.
        lengths: lists of lengths, which records of calls do not hold.
    """

    op: str
    shapes: Mapping[str, Extents | None]
    values: Mapping[str, Any]
    passed: Sequence[str]
    lengths: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Rule:
    """How one published op maps to one of ours.

    Args:
        op: our op.
        shapes: shapes of our tensors: a stated shape, or extents, each a number, a stated number,
            `NAME.PLACE`, an extent of a stated shape, or a product of such, `A*B`, which `/N`
            divides and rounds up.
        sizes: our indices, as an extent of a shape is written.
        lengths: our lists of lengths: a stated list, or a length and how often it stands, each as
            an extent is written.
        bindings: our parameter or index for what is stated under another name.
        given: our parameters and indices that what is stated implies.
        passed: our tensors that are passed though no shape of them is stated.
        only: values that must be stated for the rule to hold.
        ignored: what is stated and says nothing about the call.
    """

    op: str
    shapes: Mapping[str, str | Sequence[Any]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, str | Sequence[Any]] = field(default_factory=dict)
    bindings: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    passed: Sequence[str] = ()
    only: Mapping[str, Any] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    def demand(self, stated: Mapping[str, Any], names: Container[str]) -> Demand | None:
        """What is asked of a call of ours, None where the rule does not hold.

        Args:
            stated: what the published row states.
            names: our parameters and indices.

        Raises:
            PeerFault: what is stated is not of the form that the rule presumes.
        """
        if any(stated.get(name) != value for name, value in self.only.items()):
            return None
        try:
            return self._demand(stated, names)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            shown = json.dumps(stated)
            raise PeerFault(f"a rule for {self.op} does not suit {shown}: {error}") from error

    def _demand(self, stated: Mapping[str, Any], names: Container[str]) -> Demand:
        sizes = {name: _number(size, stated) for name, size in self.sizes.items()}
        values: dict[str, Any] = {**self.given, **sizes}
        shapes = {name: _shape(declared, stated) for name, declared in self.shapes.items()}
        lengths = {name: _lengths(declared, stated) for name, declared in self.lengths.items()}
        for name in stated.keys() - self._said():
            if name in self.bindings:
                values[self.bindings[name]] = stated[name]
            elif name.endswith(SHAPE) and name not in names:
                shapes.setdefault(name.removesuffix(SHAPE), stated[name])
            elif name != "dtype":
                values[name] = stated[name]
        return Demand(self.op, shapes, values, self.passed, lengths)

    def _said(self) -> set[str]:
        """What is stated and needs no further look: the rule's shapes are made of it."""
        declared = (*self.shapes.values(), *self.lengths.values(), *self.sizes.values())
        parts = (part for each in declared for part in ([each] if isinstance(each, str) else each))
        products = (str(part).partition("/")[0] for part in parts)
        factors = (factor for product in products for factor in product.split("*"))
        return {*self.ignored, *self.only, *(factor.partition(".")[0] for factor in factors)}


Rules = Mapping[str, Sequence[Rule]]
RULE_KINDS: Mapping[str, type] = {
    "op": str,
    **dict.fromkeys(("shapes", "sizes", "lengths", "bindings", "given", "only"), Mapping),
    **dict.fromkeys(("passed", "ignored"), Sequence),
}
"""What the fields of a rule are."""


def rules_for(rules: Rules, op: str) -> Sequence[Rule]:
    """The rules of a published op; where the mapping is silent, that it keeps its name."""
    return rules.get(op, [Rule(op)])


def read_rules(path: Path | None = None) -> Rules:
    """The mapping of a file: rules for each published op; that of this package where absent.

    Raises:
        PeerFault: the file cannot be read, or is of another form.
    """
    source = path or files(__package__) / "peers.yaml"
    try:
        data: dict[str, Any] = plain(read_yaml(source.read_bytes()).root)
        return {
            op: [_rule(rule) for rule in (rules if isinstance(rules, list) else [rules])]
            for op, rules in data.items()
        }
    except OSError as error:
        raise PeerFault(f"{path}: {error.strerror}") from error
    except (YamlFault, TypeError, ValueError, AttributeError) as error:
        raise PeerFault(f"{path}: not a mapping of published ops: {error}") from error


def _rule(written: Mapping[str, Any]) -> Rule:
    """A rule as it is written, each of its fields of its kind."""
    rule = Rule(**written)
    for name, kind in RULE_KINDS.items():
        value = getattr(rule, name)
        if isinstance(value, str) != (kind is str) or not isinstance(value, kind):
            raise TypeError(f"{name} of {rule.op} is {value!r}")
    return rule


def read_published(table: Path) -> list[Published]:
    """The rows of a record, in its order.

    Raises:
        PeerFault: the file cannot be read, or is of another form.
    """
    try:
        with table.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = set(COLUMNS) - set(reader.fieldnames or ())
            if missing:
                raise PeerFault(f"{table}: misses the columns {', '.join(sorted(missing))}")
            return list(_rows(reader))
    except OSError as error:
        raise PeerFault(f"{table}: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, PeerFault):
            raise
        raise PeerFault(f"{table}: {error}") from error


def _rows(reader: csv.DictReader[str]) -> Iterator[Published]:
    for row in reader:
        if None in row.values():
            raise ValueError(f"line {reader.line_num} ends too early")
        stated = json.loads(row["dims"])
        if not isinstance(stated, dict):
            raise ValueError(f"line {reader.line_num} has the dims {row['dims']}, no object")
        yield Published(
            row["op"],
            row["case"],
            stated,
            row["dtype"],
            _seconds(row["peer_tileops_ms"]),
            _seconds(row["best_other_ms"]),
            row["best_other"],
            int(row["bytes"] or 0),
        )


def _shape(declared: Any, stated: Mapping[str, Any]) -> Extents | None:
    """The extents that a rule gives a tensor; None where what it names is not stated."""
    if isinstance(declared, str):
        return stated.get(declared)
    extents = [_number(part, stated) for part in declared]
    return None if None in extents else [extent for extent in extents if extent is not None]


def _lengths(declared: Any, stated: Mapping[str, Any]) -> Sequence[int]:
    """The lengths that a rule gives, none where what it names is not stated."""
    if isinstance(declared, str):
        return stated.get(declared) or []
    length, count = (_number(part, stated) for part in declared)
    return [] if length is None or count is None else [length] * count


def _number(part: Any, stated: Mapping[str, Any]) -> int | None:
    """A number, a stated one, a place of a stated shape, or a product of such, divided or not."""
    if isinstance(part, int):
        return part
    product, (factors, _, divisor) = 1, part.partition("/")
    for factor in factors.split("*"):
        name, _, place = factor.partition(".")
        found = stated.get(name)
        if found is None:
            return None
        product *= found[int(place)] if place else found
    return -(-product // int(divisor or 1))


def _seconds(milliseconds: str) -> float | None:
    if not milliseconds:
        return None
    found = float(milliseconds)
    if not 0 < found < inf:
        raise ValueError(f"{milliseconds} ms is no time")
    return found / 1e3
