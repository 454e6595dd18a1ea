"""Every test here runs once for each op that was asked for, by default for each op of the tree."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch

from tileops.testing.calling import AT
from tileops.testing.choice import chosen_ops, runnable_ops
from tileops.testing.compiling import bounded_ops
from tileops.testing.drawing import drawn
from tileops.testing.lowering import ops_to_lower
from tileops.testing.memory import poisoned
from tileops.testing.refusals import served

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_gpu*.py"]


@pytest.fixture(autouse=True)
def poisoned_memory() -> Iterator[None]:
    """What a kernel does not write shows."""
    with poisoned():
        yield


@pytest.fixture(autouse=True)
def some_call(request: pytest.FixtureRequest) -> None:
    """Leaves out the tests of an op whose every call a target refuses, but the one that tells."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    op = given.get("op") or given.get("bounded")
    device = "cuda" if request.node.get_closest_marker("gpu") else "cpu"
    tells = request.node.originalname == "test_some_call_is_drawn"
    if op is not None and not tells and drawn(op) and not served(op, device):
        pytest.skip(f"each of {len(drawn(op))} generated calls of {op} is refused by its target")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Name the call that a failed test was about, which few of its assertions do."""
    AT.clear()
    try:
        return (yield)
    finally:
        for call in AT:
            item.add_report_section("call", "tileops", f"the call that was made last: {call}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Programs are lowered where there are any."""
    is_idle = collection_path.name == "test_lowered.py" and not ops_to_lower(_names(config))
    return True if is_idle else None


def _names(config: pytest.Config) -> list[str] | None:
    names: list[str] | None = config.getoption("tileops_ops", None)
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`op` runs over the chosen ops, `bounded` over those of them that have operators.

    `lowerable` runs over those with TileLang kernels from outside. All leave out ops without a
    class, which `named` has, too.
    """
    names = _names(metafunc.config)
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", runnable_ops(names))
    if "named" in metafunc.fixturenames:
        metafunc.parametrize("named", chosen_ops(names))
    if "bounded" in metafunc.fixturenames:
        metafunc.parametrize("bounded", bounded_ops(names))
    if "lowerable" in metafunc.fixturenames:
        metafunc.parametrize("lowerable", ops_to_lower(names))
