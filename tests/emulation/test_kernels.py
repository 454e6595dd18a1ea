"""Every kernel that TileLang makes gives its reference's result under every schedule."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any

import pytest
import torch

import tileops
from emulation.cases import CASES, Case
from emulation.emulator import SCHEDULES
from tileops.kernels import Kernel

# Each result is rounded once, from a float32 accumulation of a few thousand terms of order one.
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2.0**-10, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 1e-4},
}


@pytest.fixture(scope="module")
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_gives_the_references_result(
    case: Case, generator: torch.Generator, hopper: Any
) -> None:
    kernel = case.build()
    inputs = case.inputs(generator)
    kept = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
    exact = (each.double() if isinstance(each, torch.Tensor) else each for each in inputs)
    wide = case.expected(*exact)
    for schedule in SCHEDULES:
        hopper.schedule = schedule
        results = kernel(*((kept[0].clone(), *inputs[1:]) if case.writes else inputs))
        absolute = _several(case.absolute)
        for n, (result, exact) in enumerate(zip(_several(results), _several(wide), strict=True)):
            tolerance = dict(TOLERANCE.get(result.dtype, {"rtol": 0, "atol": 0}))
            if case.absolute is not None:
                tolerance["atol"] = absolute[n if len(absolute) > 1 else 0]
            torch.testing.assert_close(
                result.double(),
                exact.double(),
                **tolerance,
                equal_nan=True,
                msg=partial("{}: {}".format, schedule),
            )
    for before, after in zip(kept, inputs, strict=True):
        if isinstance(before, torch.Tensor):
            torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=True)
    source = "".join(lowered.source for lowered in hopper.lowered)
    for needed in case.contains:
        assert needed in source


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_every_kernel_that_tilelang_makes_is_run() -> None:
    made = set()
    for family in tileops.FAMILIES:
        module = importlib.import_module(f"tileops.{family}.kernels")
        for found in vars(module).values():
            if inspect.isclass(found) and issubclass(found, Kernel) and found.needs_tilelang:
                made.add(found)
    lacking = {kernel.__name__ for kernel in made - {case.kernel for case in CASES}}
    assert not lacking, "each needs a Case in tests/emulation/cases/<family>.py"
    assert made == {case.kernel for case in CASES}, "cases are of kernels that a family exports"
