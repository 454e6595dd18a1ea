"""Specs for these tests, built from the mapping form of a spec without the YAML reader."""

from __future__ import annotations

from typing import Any

from tileops._core.lang.kind_text import parse_kind
from tileops._core.lang.parser import parse_expression, parse_shape
