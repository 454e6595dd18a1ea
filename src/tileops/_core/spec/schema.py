"""The JSON Schema of spec files, for editors: the form of a spec, not its meaning."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def json_schema() -> dict[str, Any]:
    """The schema of a file that holds specs, algebraic types or both (draft 2020-12)."""
    text = (files("tileops._core.spec") / "schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
