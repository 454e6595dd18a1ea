"""Rows of results beside published times of the same op, size and dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileops.bench.measuring import RIGHT
from tileops.bench.published import Published, Rule, Rules, read_published, read_rules, rules_for

Row = Mapping[str, Any]


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


def peer_matches(rows: Iterable[Row], table: Path, mapping: Path | None = None) -> list[Match]:
    """The rows that line up, in the order of the table.

    Args:
        rows: rows of a results file.
        table: the record of published times, as CSV.
        mapping: how ops there map to ours; that of this package where absent.

    Raises:
        PeerFault: a file cannot be read, or is of another form.
    """
    rules = read_rules(mapping)
    ours: dict[str, list[Row]] = {}
    for row in rows:
        if row["state"] == RIGHT and row["timing"]:
            ours.setdefault(row["op"], []).append(row)
    found = (_match(row, rules, ours) for row in read_published(table))
    return [match for match in found if match is not None]


def _match(row: Published, rules: Rules, ours: Mapping[str, list[Row]]) -> Match | None:
    """The row of ours that a published one lines up with.

    Of several, the row that was made from the published one; else the one nearest to its size.
    """
    candidates = [
        each
        for rule in rules_for(rules, row.op)
        for each in ours.get(rule.op, [])
        if _alike(each, rule, row)
    ]
    if not candidates or (row.peer is None and row.other is None):
        return None
    best = min(
        candidates,
        key=lambda each: (each["case"] != row.id, abs((each["bytes"] or 0) - row.bytes)),
    )
    names, seconds = (row.op, row.case), best["timing"]["median"]
    return Match(best["op"], best["case"], seconds, names, row.peer, row.other, row.other_name)


def _alike(row: Row, rule: Rule, published: Published) -> bool:
    """Whether a row of ours has the size, the parameters and the dtype of a published one."""
    tensors, bindings = row["tensors"] or {}, row["bindings"] or {}
    dtypes = {form.partition("[")[0] for form in tensors.values()}
    if published.dtype and published.dtype not in dtypes:
        return False
    demand = rule.demand(published.stated, bindings)
    if demand is None:
        return False
    return (
        all(_is_of_shape(tensors.get(name), shape) for name, shape in demand.shapes.items())
        and all(name in tensors for name in demand.passed)
        and all(
            _written(bindings.get(name)) == _written(value)
            for name, value in demand.values.items()
            if not isinstance(value, Mapping)  # the fields of an algebraic value
        )
    )


def _is_of_shape(form: str | None, shape: Sequence[int] | None) -> bool:
    """Whether a tensor's text states a shape; both are None for a tensor that is not passed."""
    if form is None or shape is None:
        return form is None and shape is None
    return form.endswith(str(list(shape)))


def _written(value: Any) -> str:
    """A value as rows write it; equal numbers of a list count as one for all axes."""
    parts = {part for part in str(value).strip("[]()").replace(" ", "").split(",") if part}
    return parts.pop() if len(parts) == 1 else str(value).strip("[]()").rstrip(",")
