"""TileLang kernels of packs and backends: every program becomes CUDA source, without a device."""

from __future__ import annotations

import pytest

from tileops.testing.lowering import lower_all
from tileops.testing.plugin import LOWERED


def test_programs_lower(lowerable: str, request: pytest.FixtureRequest) -> None:
    found = list(lower_all(lowerable))
    assert all("__global__" in program.source for program in found)
    kernels = [(lowerable, program.kernel) for program in found]
    request.node.user_properties.append((LOWERED, kernels))
