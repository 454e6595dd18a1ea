"""Whether data have the form of a schema: as jsonschema judges, of damaged files too."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.samples import H200, row
from tileops.bench.form import misfit

SCHEMA = json.loads((files("tileops.bench") / "results.schema.json").read_text())
WHOLE: dict[str, Any] = {
    "format": "tileops-bench",
    "version": 1,
    "environments": [H200],
    "rows": [row("RMSNormFwdOp", "prefill")],
}
PIECES = st.sampled_from(["text", "right", None, 3, -1, 0.5, True, [], {}, [1], {"median": 1}])


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of the data, with each of its keys or places."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, item in entries:
        yield data, key
        if isinstance(item, dict | list):
            yield from places(item)


def test_whole_results_have_it() -> None:
    assert misfit(WHOLE, SCHEMA) is None
    assert misfit({**WHOLE, "more": True}, SCHEMA) is None, "readers ignore unknown keys"


@given(st.data())
def test_damage_is_found_where_jsonschema_finds_it(data: st.DataObject) -> None:
    damaged = copy.deepcopy(WHOLE)
    holder, key = data.draw(st.sampled_from(list(places(damaged))))
    if data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = data.draw(PIECES)
    right = jsonschema.Draft202012Validator(SCHEMA).is_valid(damaged)
    assert (misfit(damaged, SCHEMA) is None) == right


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rows": None}, "rows does not have the type array"),
        ({"rows": [{}]}, "rows[0] has no op"),
        ({"rows": [row("A", "a", state="good")]},
         "rows[0].state does not have the enum right or wrong or left out"),
        ({"rows": [row("A", "a", environment=-1)]},
         "rows[0].environment does not have the minimum 0"),
        ({"rows": [row("A", "a", timing={"median": 1})]}, "rows[0].timing has no low"),
        ({"version": True}, "version does not have the const 1"),
        ({"environments": [{**H200, "torch": 2}]},
         "environments[0].torch does not have the type string or null"),
    ],
)  # fmt: skip
def test_the_place_is_named(changes: dict[str, Any], fault: str) -> None:
    assert misfit({**WHOLE, **changes}, SCHEMA) == fault


def test_what_is_no_object_is_told() -> None:
    assert misfit([], SCHEMA) == "the file does not have the type object"
