"""Plans of specs written in a test."""

from __future__ import annotations

import pytest
import yaml

from tileops._core.signature.build import build_plan
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.source import Source

FRAME = {
    "family": "elementwise",
    "status": "spec-only",
    "workloads": [{"label": "unused"}],
    "roofline": {"flops": 0},
}


def plan(text):
    """The plan of the first spec of a YAML text; fields beside `signature` may be left out."""
    data = text if isinstance(text, dict) else yaml.safe_load(text)
    specs = {name: {**FRAME, **spec} for name, spec in data.items() if name != "adts"}
    content = mapping_content({**data, **specs}, Source("elementwise/spec.yaml", package=None))
    return build_plan(Manifest().adding([content]).lookup(next(iter(specs))))


@pytest.fixture
def plan_for():
    """Makes the plan of a spec given as YAML text or as a mapping."""
    return plan
