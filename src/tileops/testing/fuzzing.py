"""Calls without end: valid ones judged by the reference, invalid ones by how they are refused.

What is drawn comes from the op's spec alone; Hypothesis decides every choice, and shrinks a call
that fails to the least one that fails too. A valid call has to give what the reference gives. One
that was spoilt has to end in an error of ours that names the op; a spoilt extent may also fit, and
then any result will do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, Verbosity, assume, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor

from tileops._core.spec.model import OpSpec, Param
from tileops.errors import SignatureError
from tileops.testing.calling import (
    assert_close,
    class_of,
    expected,
    inputs,
    parameters,
    spec_of,
)
from tileops.testing.drawing import Drawing, DrawnCall

FEWEST, MOST = 10, 200
"""Calls between two looks at the clock: a draw that depends on the time could not be shrunk."""
REPAIRS = 60
"""Repairs of a drawn call; each is a choice that shrinking has to look at."""
VALID = "valid"

Tell = Callable[[float, float], object]
"""Told how much is done, and of how much."""


@dataclass(frozen=True)
class Trial:
    """A call that is made.

    Args:
        call: the accepted call that it is, or was made of.
        spoilt: what was spoilt, in words; None where nothing was.
        params: the constructor's arguments.
        given: the inputs.
    """

    call: DrawnCall
    spoilt: str | None
    params: Mapping[str, Any]
    given: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Args:
        counts: how many calls were made, valid and spoilt ones by what was spoilt.
        trial: the least call that fails, None where none did.
        error: how it fails.
        is_interrupted: whether the user ended it; a call that fails may then have smaller ones.
    """

    counts: Counter[str]
    trial: Trial | None = None
    error: BaseException | None = None
    is_interrupted: bool = False


def fuzz(
    op: str, seconds: float, number: int = 0, tell: Tell = lambda _done, _total: None
) -> Outcome:
    """Make calls of an op until one fails, the time is over, or the user interrupts.

    Shrinking is not cut off by the time.

    Args:
        op: the name of an implemented op that has a reference.
        seconds: how long to go on.
        number: the seed.
        tell: told at each call how many seconds have passed, and of how many.
    """
    begun, size = time.monotonic(), FEWEST
    run = _Run(spec_of(op), lambda: tell(min(time.monotonic() - begun, seconds), seconds))
    while (left := begun + seconds - time.monotonic()) > 0:
        start = time.monotonic()
        try:
            run.batch(number, size)
        except KeyboardInterrupt:
            return Outcome(run.counts, run.failing, run.error, is_interrupted=True)
        except Exception as error:
            return Outcome(run.counts, run.failing, error)
        each = (time.monotonic() - start) / size
        number, size = number + 1, max(FEWEST, min(MOST, int(left / each) - size))
    return Outcome(run.counts)


class _Run:
    """The calls of one op.

    Args:
        spec: its spec.
        tell: told at each call.
    """

    def __init__(self, spec: OpSpec, tell: Callable[[], object]) -> None:
        self._tell = tell
        self.counts: Counter[str] = Counter()
        self.failing: Trial | None = None
        self.error: Exception | None = None
        self._drawing = Drawing(spec)

    def batch(self, number: int, size: int) -> None:
        """Make so many calls; raises what the least that fails raises."""
        randoms = st.randoms(use_true_random=False)
        points = st.sampled_from(self._drawing.points)

        @seed(number)
        @settings(
            max_examples=size,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(points, randoms)
        def attempt(point: Any, rng: Random) -> None:
            call = self._drawing.draw(point, rng, tries=REPAIRS)
            assume(call is not None)
            assert call is not None
            self._make(trial_of(call, rng))

        attempt()

    def _make(self, trial: Trial) -> None:
        self._tell()
        self.counts[trial.spoilt or VALID] += 1
        try:
            judge(trial)
        except Exception as error:
            self.failing, self.error = trial, error
            raise


def trial_of(call: DrawnCall, rng: Random) -> Trial:
    """A drawn call as it is, or spoilt in one way of several."""
    whole = Trial(call, None, parameters(call), inputs(call))
    ways = [whole, *(spoil(whole, rng) for spoil in SPOILERS)]
    return rng.choice([way for way in ways if way is not None])


def judge(trial: Trial) -> None:
    """Make a call, and raise where it does not do what it has to.

    Raises:
        AssertionError: a result is wrong, or a refusal is missing or of another op.
        Exception: whatever else the call raises.
    """
    call = trial.call
    given = _copies(trial.given)
    try:
        instance = class_of(call.op)(**trial.params)
        before = _copies(given)
        returned = instance(**given)
    except SignatureError as error:
        assert trial.spoilt, f"{call}: a call of the signature is refused: {error}"
        assert error.op == call.op, f"{call}: the error names {error.op}"
        return
    if trial.spoilt is None:
        assert_close(call, given, returned, expected(call, before))
    assert trial.spoilt in {None, EXTENT}, f"{call}: accepted with {trial.spoilt}"


def _copies(given: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.clone() if isinstance(v, Tensor) else v for n, v in given.items()}


EXTENT = "another extent"
Spoiler = Callable[[Trial, Random], "Trial | None"]


class _Stranger:
    """A value of a type that no parameter takes."""

    def __repr__(self) -> str:
        return "object()"


def _named(trial: Trial, rng: Random) -> str | None:
    names = sorted(trial.given)
    return rng.choice(names) if names else None


def _with(trial: Trial, what: str, **changed: Any) -> Trial:
    return Trial(trial.call, what, trial.params, {**trial.given, **changed})


def _foreign_dtype(trial: Trial, rng: Random) -> Trial | None:
    name = _named(trial, rng)
    if name is None:
        return None
    other = torch.zeros(trial.given[name].shape, dtype=torch.uint32)
    return _with(trial, "a foreign dtype", **{name: other})


def _missing(trial: Trial, rng: Random) -> Trial | None:
    declared = spec_of(trial.call.op).signature.inputs
    names = [name for name in sorted(trial.given) if declared[name].optional is not True]
    if not names:
        return None
    gone = rng.choice(names)
    others = {name: tensor for name, tensor in trial.given.items() if name != gone}
    return Trial(trial.call, "a missing tensor", trial.params, others)


def _no_tensor(trial: Trial, rng: Random) -> Trial | None:
    name = _named(trial, rng)
    return None if name is None else _with(trial, "a list for a tensor", **{name: [1.0]})


def _other_extent(trial: Trial, rng: Random) -> Trial | None:
    """Extents that contents must agree with are the caller's promise, and stay."""
    name = _named(trial, rng)
    if name is None or any(t.contents is not None for t in trial.call.tensors.values()):
        return None
    tensor = trial.given[name]
    shape = list(tensor.shape)
    place = rng.randint(0, len(shape))
    if place == len(shape):
        shape.insert(0, 1)
    else:
        shape[place] += rng.choice((1, -1) if shape[place] > 1 else (1,))
    return _with(trial, EXTENT, **{name: torch.zeros(shape, dtype=tensor.dtype)})


def _foreign_parameter(trial: Trial, rng: Random) -> Trial | None:
    declared = spec_of(trial.call.op).signature.params
    names = [name for name, param in declared.items() if isinstance(param, Param)]
    if not names:
        return None
    changed = {**trial.params, rng.choice(names): _Stranger()}
    return Trial(trial.call, "a parameter of a foreign type", changed, trial.given)


SPOILERS: tuple[Spoiler, ...] = (
    _foreign_dtype,
    _missing,
    _no_tensor,
    _other_extent,
    _foreign_parameter,
)
