"""`tileops fuzz`: calls without end, and the least one that fails."""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tileops._core.op.base import Op
from tileops.elementwise import NegFwdOp
from tileops.elementwise import reference as elementwise
from tileops.linear_attention import reference as linear_attention
from tileops.testing import fuzzing
from tileops.testing.calling import inputs, parameters
from tileops.testing.drawing import drawn
from tileops.testing.fuzzing import SPOILERS, Trial, fuzz, judge
from tileops.testing.reproducing import program

Run = Callable[..., Any]


def printed(source: str) -> str:
    """What a program prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, "<reproducer>", "exec"), {})
    return out.getvalue()


def test_calls_of_an_op_that_is_right_do_not_fail(tileops: Run) -> None:
    outcome = tileops("fuzz", "LerpFwdOp", "--seconds", "0.5")
    assert outcome.code == 0, outcome.out
    assert " valid" in outcome.out
    assert " a foreign dtype" in outcome.out


def test_a_call_that_fails_is_shrunk_to_a_program(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = elementwise.lerp

    def wrong(a: torch.Tensor, b: torch.Tensor, *, weight: float = 0.5) -> torch.Tensor:
        return right(a, b, weight=weight) + (a.dim() > 1)

    monkeypatch.setattr(elementwise, "lerp", wrong)
    outcome = tileops("fuzz", "LerpFwdOp", "--seconds", "60")
    assert outcome.code == 1
    assert "AssertionError: LerpFwdOp(" in outcome.out
    source = outcome.out.partition("# The least call that fails so:\n\n")[2]
    assert "(1, 1)" in source, "two axes are needed, and no extent"
    assert printed(source).startswith("tensor([[")


def test_a_refusal_of_another_kind_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(self: Op, *args: object, **kwargs: object) -> None:
        raise KeyError("of the inside")

    monkeypatch.setattr(NegFwdOp, "__call__", called)
    outcome = fuzz("NegFwdOp", 30)
    assert isinstance(outcome.error, KeyError)
    assert outcome.trial is not None


def trial(op: str, spoilt: str | None, **given: Any) -> Trial:
    call = drawn(op)[0]
    return Trial(call, spoilt, parameters(call), {**inputs(call), **given})


def test_what_is_spoilt_and_accepted_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="accepted with a missing tensor"):
        judge(trial("NegFwdOp", "a missing tensor"))
    with pytest.raises(AssertionError, match="a call of the signature is refused: "):
        judge(trial("NegFwdOp", None, input=[1.0]))
    other = Trial(drawn("AbsFwdOp")[0], "x", {}, trial("NegFwdOp", None, input=None).given)
    judge(other)


def test_every_way_to_spoil_a_call_is_refused() -> None:
    for op in ("AddFwdOp", "SumFwdOp", "MoEPrePermuteFwdOp", "AlibiFwdOp"):
        for spoiler in SPOILERS:
            spoilt = spoiler(trial(op, None), fuzzing.Random(0))
            if spoilt is not None:
                judge(spoilt)


@pytest.mark.parametrize("op", ["EqFwdOp", "MoEPrePermuteFwdOp", "LongRoPEFwdOp", "GemmFp8FwdOp"])
def test_a_program_makes_the_call_that_was_made(op: str) -> None:
    assert printed(program(trial(op, None)))


def test_a_program_shows_what_was_put_in_the_place_of_an_input() -> None:
    assert "'input': [1.0]," in program(trial("NegFwdOp", "x", input=[1.0]))
    wrong = torch.zeros(2, dtype=torch.uint32)
    assert "torch.zeros((2,), dtype=torch.uint32)" in program(trial("NegFwdOp", "x", input=wrong))


def test_tamed_data_are_tamed_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    source = program(trial("GatedDeltaNetFwdOp", None))
    assert hasattr(linear_attention, "gated_delta_net_tamed")
    assert "given = reference.gated_delta_net_tamed(given, " in source
    assert printed(source)


def test_without_hypothesis_the_command_says_so(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "tileops.testing.fuzzing":
            raise ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    outcome = tileops("fuzz", "NegFwdOp")
    assert outcome.code == 2
    told = "fuzz needs hypothesis; `pip install 'tileops[fuzz]'`, in a clone `pip install -e"
    assert told in outcome.err


def test_an_interrupt_ends_it_with_what_was_found(
    tileops: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Trial] = []

    def interrupted(trial: Trial) -> None:
        made.append(trial)
        if len(made) == 10:
            raise ArithmeticError("no luck")
        if len(made) == 11:
            raise KeyboardInterrupt

    monkeypatch.setattr(fuzzing, "judge", interrupted)
    outcome = tileops("fuzz", "LerpFwdOp", "--seconds", "60")
    assert outcome.code == 130
    assert outcome.err == "tileops fuzz: error: interrupted\n"
    assert outcome.out.startswith("11 calls: ")
    assert "\nArithmeticError: no luck\n\n# A call that fails so:\n" in outcome.out
    made.clear()
    data = tileops("fuzz", "LerpFwdOp", "--seconds", "60", "--json").data
    assert (data["interrupted"], sum(data["calls"].values())) == (True, 11)
