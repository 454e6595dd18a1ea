"""What a bench found, as a JSON file: its form, its versions, and where a stopped run resumes.

The form is `results.schema.json` beside this module. Rows refer to the environment they were
measured in by its place in a list, so that a file that was filled in several runs says for each row
what it depends on. A file is replaced in one step: a reader never finds half of one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tileops.bench.form import Schema, misfit
from tileops.bench.measuring import RIGHT, WRONG, Manner, RowRecord
from tileops.errors import TileOpsError

FORMAT, VERSION = "tileops-bench", 1
FIGURES = 5
"""Significant figures of a number that is kept."""
PAUSE = 2.0
"""Seconds between two writings of an unfinished file."""

_MADE = "`tileops bench --json FILE.json` writes results"


class ResultsFault(TileOpsError, ValueError):
    """A file that holds no results, or results of another kind."""


@dataclass
class Results:
    """Records of rows and the environments they were measured in, as plain data."""

    environments: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, record: RowRecord, environment: Mapping[str, Any], manner: Manner) -> None:
        """Take a record in; an older one of the same case goes.

        Args:
            record: the record.
            environment: what it was measured in.
            manner: how.
        """
        found = dict(environment)
        if found not in self.environments:
            self.environments.append(found)
        place = self.environments.index(found)
        row = {**record.data(), **manner.kept(), "environment": place}
        key = record.op, record.case
        self.rows = [each for each in self.rows if (each["op"], each["case"]) != key] + [row]

    def done(self, manner: Manner) -> set[tuple[str, str]]:
        """Op and case of the rows that ran in this manner, or with more of it."""
        return {(row["op"], row["case"]) for row in self.rows if _is_met(manner, row)}

    def device(self, row: Mapping[str, Any]) -> str:
        """The name of the device that a row was measured on."""
        return str(self.environments[row["environment"]]["device"])

    def count(self, state: str) -> int:
        """How many rows came to a state."""
        return sum(row["state"] == state for row in self.rows)

    def data(self) -> dict[str, Any]:
        """The file's content."""
        return {"format": FORMAT, "version": VERSION, **vars(self)}


def _is_met(manner: Manner, row: Mapping[str, Any]) -> bool:
    """Whether a row was measured by this target, against as much, in graphs too and for as long.

    A row that is wrong was judged, not timed. Rows of files that do not say how long count as timed
    for long enough.
    """
    asked = _rounded(manner.kept())
    if row["target"] != manner.target or not set(asked["against"]) <= set(row["against"]):
        return False
    if row["state"] != RIGHT:
        return bool(row["state"] == WRONG)
    has_graphs = row.get("graphs", row["graph"] is not None)
    is_long = row.get("seconds", asked["seconds"]) >= asked["seconds"]
    return is_long and (has_graphs or not asked["graphs"])


def read_results(path: Path) -> Results:
    """The results that a file holds.

    Raises:
        ResultsFault: it cannot be read, or holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsFault(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsFault(f"{path}: not JSON: {error}; {_MADE}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ResultsFault(f"{path}: no results of tileops bench; {_MADE}")
    if data.get("version") != VERSION:
        reason = f"of version {data.get('version')}, this tileops reads {VERSION}"
        raise ResultsFault(f"{path}: {reason}")
    fault = misfit(data, _schema()) or _astray(data)
    if fault is not None:
        raise ResultsFault(f"{path}: damaged results: {fault}; {_MADE}")
    return Results(data["environments"], data["rows"])


@cache
def _schema() -> Schema:
    """The form of a file."""
    text = (files(__package__) / "results.schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def _astray(data: Mapping[str, Any]) -> str | None:
    """A row whose environment the file does not have; None where there is none."""
    count = len(data["environments"])
    astray = (place for place, row in enumerate(data["rows"]) if row["environment"] >= count)
    place = next(astray, None)
    return None if place is None else f"there is no environment of rows[{place}]"


def merged(several: Sequence[Results]) -> Results:
    """Several results as one; of rows of one case, device and target the last one stays."""
    whole = Results()
    rows: dict[tuple[str, str, str, str | None], dict[str, Any]] = {}
    for results in several:
        for row in results.rows:
            around = results.environments[row["environment"]]
            if around not in whole.environments:
                whole.environments.append(around)
            place = whole.environments.index(around)
            key = row["op"], row["case"], around["device"], row["target"]
            rows[key] = {**row, "environment": place}
    whole.rows = list(rows.values())
    return whole


class Keeper:
    """Writes results to a file while they grow, from time to time and at the end.

    Args:
        path: the file; nothing is written where absent.
        results: what grows.
    """

    def __init__(self, path: Path | None, results: Results) -> None:
        self._path, self._results = path, results
        self._written = 0.0

    def grown(self) -> None:
        """Write if the last write was some time ago."""
        if time.monotonic() - self._written >= PAUSE:
            self.write()

    def write(self) -> None:
        """Write the file.

        Raises:
            ResultsFault: it cannot be written.
        """
        if self._path is None:
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            beside.write_text(_text(self._results.data()), encoding="utf-8")
            beside.replace(self._path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ResultsFault(f"{self._path}: {error.strerror}") from error
        self._written = time.monotonic()


def _text(data: Mapping[str, Any]) -> str:
    """The file's text, one list entry a line, so that a changed row is a changed line."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list):
            entries = ",\n".join(json.dumps(_rounded(entry)) for entry in value)
            parts.append(f'"{key}": [\n{entries}\n]')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(value: Any) -> Any:
    """Plain data, its numbers rounded to the digits that a measurement has."""
    if isinstance(value, float):
        return float(f"{value:.{FIGURES}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
