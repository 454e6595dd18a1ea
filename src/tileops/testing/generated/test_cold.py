"""Ops compiled in a process in which nothing was called before, by the default compiler.

Starting a process costs more than compiling an op, so a process serves many, each with a fresh
instance and nothing left of the compilations before. What Inductor adds to a graph that holds one
operator is its wrapper, which is checked here for every op, since it costs little.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch.utils.cpp_extension

from tileops.testing.calling import class_of, construct, outcome, same
from tileops.testing.cold import prove_in_a_process
from tileops.testing.compiling import Holder, arguments, bounded_ops, proof_calls, uses_float8
from tileops.testing.refusals import served

BATCH = 40
"""Ops per process."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`batch` runs over lists of ops."""
    ops = bounded_ops(metafunc.config.getoption("tileops_ops", None))
    batches = [ops[start : start + BATCH] for start in range(0, len(ops), BATCH)]
    metafunc.parametrize("batch", batches, ids=[f"{b[0]}-to-{b[-1]}" for b in batches])


def with_calls(batch: list[str]) -> list[str]:
    """The ops of which a target serves some call; the test is left out where there are none."""
    ops = [op for op in batch if served(op)]
    if not ops:
        pytest.skip("every generated call of these ops is refused by their targets")
    return ops


def test_a_cold_compilation_proves_every_operator(batch: list[str]) -> None:
    batch = with_calls(batch)
    reports = {report["op"]: report for report in prove_in_a_process(batch)}
    errors = [f"{op}: {report['error']}" for op, report in reports.items() if "error" in report]
    assert not errors, "\n".join(errors)
    proven = {op: tuple(report["operators"]) for op, report in reports.items()}
    assert proven == {op: class_of(op).compile_op_names for op in batch}


@pytest.fixture
def linkable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's libraries under a path without blanks, which torch passes to the linker unquoted."""
    libraries = tmp_path / "lib"
    libraries.symlink_to(torch.utils.cpp_extension.TORCH_LIB_PATH)
    monkeypatch.setattr(torch.utils.cpp_extension, "TORCH_LIB_PATH", str(libraries))


@pytest.mark.usefixtures("linkable")
def test_modules_that_hold_ops_are_packaged(batch: list[str], tmp_path: Path) -> None:
    """All ops in one module: a package takes a C++ compiler several seconds."""
    calls = [proof_calls(op)[0] for op in with_calls(batch)]
    calls = [call for call in calls if not uses_float8(call)]
    instances = [construct(call) for call in calls]
    given = tuple(arguments(call) for call in calls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of what it will change
        program = torch.export.export(Holder(*instances), given, strict=False)
        package = torch._inductor.aoti_compile_and_package(
            program,
            package_path=str(tmp_path / "ops.pt2"),
            inductor_configs={"aot_inductor.compile_wrapper_opt_level": "O0"},
        )
        packaged = torch._inductor.aoti_load_package(package)
    fresh = tuple(arguments(call) for call in calls)
    for call, arrived, found in zip(calls, fresh, packaged(*fresh), strict=True):
        eager = arguments(call)
        wanted = outcome(call, eager, construct(call)(**eager))
        for one, other in zip(outcome(call, arrived, found), wanted, strict=True):
            assert same(one, other), str(call)
