"""What proves an op under a compiler notices where the proof is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tileops.testing import compiling
from tileops.testing.generated import test_compiled

OP = "SiluFwdOp"
"""Has two operators."""


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_an_operator_without_a_proof_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = compiling.proof_calls(OP)
    test_compiled.test_every_operator_has_its_proof(OP)
    assert compiling.prove(OP, "eager") == set(test_compiled.class_of(OP).compile_op_names)
    for module in (compiling, test_compiled):
        monkeypatch.setattr(module, "proof_calls", lambda _: calls[:1])
    with pytest.raises(AssertionError):
        test_compiled.test_every_operator_has_its_proof(OP)
    assert len(compiling.prove(OP, "eager")) == 1


def test_a_graph_that_holds_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = test_compiled.class_of("AbsFwdOp")
    enter = cls.__call__
    monkeypatch.setattr(cls, "__call__", lambda op, **given: enter(op, **given) * 1)
    with pytest.raises(AssertionError, match="the graphs call"):
        compiling.prove("AbsFwdOp", "eager")
