"""The record of one workload row: judged first, timed only where the numbers are right.

What the op is compared with is judged by the same reference within the same tolerance, and timed
in turns with it: a faster function that computes something else is no better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from tileops import Op
from tileops._core.plugins import FAILURES
from tileops._core.spec.model import OpSpec
from tileops._core.validate.objects import missing_reference
from tileops._core.workload.cases import Case
from tileops.bench.baselines import Rival
from tileops.bench.calls import (
    Function,
    Outcome,
    RowCall,
    bytes_of,
    fits,
    row_call,
)
from tileops.bench.clock import Launch, Timing, captured, host_timing, race
from tileops.bench.patience import OutOfPatience, patience
from tileops.bench.profiles import Profile, Reading, profile_for
from tileops.errors import OpNotAvailableError
from tileops.testing.blame import ReferenceFault, kernel_fault

RIGHT, WRONG, LEFT_OUT = "right", "wrong", "left out"
ABSENT = "absent"
"""The state of a call that a library has the op for, and does not serve."""
ROW_SECONDS = 1.0
"""About how long each contestant of a row is timed."""
SETS, SETS_BYTES = 3, 1 << 30
"""Sets of inputs used in rotation while all fit these bytes; above, no cache holds one set."""
SMALL = 1 << 28
"""Bytes of a row up to which the CPU is asked, too, before a result counts as wrong."""
OURS = ""
"""The name of our own op among the contestants; no library has it."""


@dataclass(frozen=True)
class Manner:
    """How rows are timed.

    Args:
        against: what is compared with.
        graphs: whether CUDA graphs of the calls are timed too.
        seconds: about how long each contestant is timed.
        patience: seconds that a row may take in all; no limit where absent.
        target: what serves the op; the device decides where absent.
    """

    against: Sequence[Rival] = ()
    graphs: bool = False
    seconds: float = ROW_SECONDS
    patience: float | None = None
    target: str | None = None

    def kept(self) -> dict[str, Any]:
        """What a file keeps of it beside a row."""
        names = [rival.name for rival in self.against]
        return {"against": names, "graphs": self.graphs, "seconds": self.seconds}


PLAINLY = Manner()
"""The op alone."""


@dataclass(frozen=True)
class OtherRecord:
    """The outcome of one comparison.

    Args:
        name: the library.
        version: its version.
        state: `right`, `wrong` or `absent`.
        reason: why it is not right.
        timing: what a call takes.
        graph: what a replayed call takes.
        host: how long the host is busy with a call; None where the call ends on the host.
    """

    name: str
    version: str
    state: str
    reason: str | None = None
    timing: Timing | None = None
    graph: Timing | None = None
    host: Timing | None = None


@dataclass(frozen=True)
class RowRecord:
    """What became of one case of a row.

    Args:
        op: the op.
        family: its family.
        case: the id of the case.
        device: where it ran.
        state: `right`, `wrong` or `left out`.
        reason: why it is wrong or left out.
        bindings: parameters and indices of the call.
        tensors: dtype and shape of every tensor of the call, as text.
        flops: operations by the roofline; None where the spec has none.
        bytes: bytes moved by the roofline.
        unit: the compute unit that prices the operations.
        target: the target that served the call; where none ran, the one that was to.
        kernels: the classes of the kernels that ran.
        timing: what a call takes; on CUDA by the device's clock.
        host: how long the host is busy with a call; None where the call ends on the host.
        graph: what a call takes when a CUDA graph replays it; None where that was not asked for.
        reading: the time beside the device's limits; None where they are not known.
        others: the libraries that have the op, of those that were asked for.
    """

    op: str
    family: str
    case: str
    device: str
    state: str
    reason: str | None = None
    bindings: Mapping[str, str] | None = None
    tensors: Mapping[str, str] | None = None
    flops: int | None = None
    bytes: int | None = None
    unit: str | None = None
    target: str | None = None
    kernels: tuple[str, ...] = ()
    timing: Timing | None = None
    host: Timing | None = None
    graph: Timing | None = None
    reading: Reading | None = None
    others: tuple[OtherRecord, ...] = ()

    @property
    def is_unsteady(self) -> bool:
        """Whether its time, or one that it is compared with, says little."""
        timings = (self.timing, *(other.timing for other in self.others))
        return any(each is not None and each.is_unsteady for each in timings)

    def data(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)


def measure(spec: OpSpec, case: Case, device: torch.device, manner: Manner) -> RowRecord:
    """Run a case, judge it and time it; an error makes it wrong, unless nothing serves the op.

    A row whose reference is at fault is left out, too.

    Args:
        spec: the spec of an implemented op.
        case: one of its cases.
        device: where to run.
        manner: how to time it.

    Raises:
        ProfileFault: what was measured of the device is damaged, which is no fault of the op.
    """
    profile = profile_for(device)
    unmeasured = partial(
        RowRecord, spec.name, str(spec.family), case.id, str(device), target=manner.target
    )
    try:
        missing = missing_reference(spec)
        if missing is not None:
            return unmeasured(LEFT_OUT, f"nothing to judge the op by: {missing}")
        if not fits(case, device):
            reason = "the row and its reference need more memory than is free"
            return unmeasured(LEFT_OUT, reason)
        with patience(manner.patience):
            call = row_call(spec, case, device, manner.target)
            made = call.made(call.ours)  # A faulty spec is told by the op, not by the reference.
            wanted = call.wanted()
            fault = call.judged(made, wanted)
            if fault is not None and device.type != "cpu" and bytes_of(case) <= SMALL:
                wanted = call.wanted_of_cpu()
                fault = call.judged(made, wanted)
            del made
            if fault is not None:
                return unmeasured(WRONG, fault, **_served(call.op))
            return _Measurement(spec, case, call, manner, profile).record(wanted)
    except OutOfPatience:
        reason = f"judging and timing it takes more than {manner.patience:g} s"
        return unmeasured(LEFT_OUT, reason)
    except torch.OutOfMemoryError as error:
        return unmeasured(LEFT_OUT, str(error).partition(". ")[0])
    except OpNotAvailableError as error:  # a target need not serve every op
        return unmeasured(LEFT_OUT, str(error))
    except ReferenceFault as error:  # of which the op is innocent
        return unmeasured(LEFT_OUT, str(error))
    except FAILURES as error:
        told = kernel_fault(error) or f"{type(error).__name__}: {error}"
        fault = "\n".join([told, *getattr(error, "__notes__", ())])
    return unmeasured(WRONG, fault)


class _Measurement:
    """The timing of a call that is right.

    Args:
        spec: the spec of the op.
        case: the case.
        call: its call.
        manner: how to time it.
        profile: what the device can do; None where that is not known.
    """

    def __init__(
        self, spec: OpSpec, case: Case, call: RowCall, manner: Manner, profile: Profile | None
    ) -> None:
        self._spec, self._case, self._call, self._manner = spec, case, call, manner
        self._profile = profile
        self._sets = SETS if SETS * bytes_of(case) <= SETS_BYTES else 1

    def record(self, wanted: Outcome) -> RowRecord:
        """Judge the comparisons, then time the op and those that are right."""
        call, op = self._call, self._call.op
        facts = self._facts(op)
        others, functions = self._judged(wanted)
        launches = {name: call.launch(each, self._sets) for name, each in functions.items()}
        timings = race(launches, call.device, self._manner.seconds)
        graphs = self._graphs(launches)
        hosts = {name: host_timing(launch, call.device) for name, launch in launches.items()}
        return RowRecord(
            op=self._spec.name,
            family=str(self._spec.family),
            case=self._case.id,
            device=str(call.device),
            state=RIGHT,
            timing=timings[OURS],
            host=hosts[OURS],
            graph=graphs.get(OURS),
            reading=_reading(op, facts, self._profile, timings[OURS]),
            others=tuple(
                OtherRecord(*other, *(found.get(other[0]) for found in (timings, graphs, hosts)))
                for other in others
            ),
            **facts,
        )

    def _facts(self, op: Op) -> dict[str, Any]:
        """What the judged call was and did: its record, its roofline, what served it."""
        flops, moved = op.eval_roofline() if self._spec.roofline is not None else (None, None)
        unit = None if flops is None else op.roof_key()
        return {**_served(op), "flops": flops, "bytes": moved, "unit": unit}

    def _judged(
        self, wanted: Outcome
    ) -> tuple[list[tuple[str, str, str, str | None]], dict[str, Function]]:
        """Name, version, state and reason of each comparison, and the functions that are right."""
        functions: dict[str, Function] = {OURS: self._call.ours}
        others = []
        for rival in self._manner.against:
            function = rival.function(self._call.op)
            if function is None:
                continue
            state, reason = self._verdict(function, wanted)
            if state == RIGHT:
                functions[rival.name] = function
            others.append((rival.name, rival.version, state, reason))
        return others, functions

    def _verdict(self, function: Function, wanted: Outcome) -> tuple[str, str | None]:
        try:
            fault = self._call.fault(function, wanted)
        except NotImplementedError as error:
            return ABSENT, str(error)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        return (RIGHT if fault is None else WRONG), fault

    def _graphs(self, launches: Mapping[str, Launch]) -> dict[str, Timing]:
        """The times of replayed calls, if asked for; a call that cannot be captured has none."""
        device = self._call.device
        if not self._manner.graphs or device.type != "cuda":
            return {}
        graphs = dict(self._captured(launches))
        return race(graphs, device, self._manner.seconds)

    def _captured(self, launches: Mapping[str, Launch]) -> Iterator[tuple[str, Launch]]:
        for name, launch in launches.items():
            try:
                yield name, captured(launch, self._sets)
            except RuntimeError:  # a call that waits for the device, say
                torch.cuda.synchronize()


def _served(op: Op) -> dict[str, Any]:
    """What the last call was, and what served it."""
    record = op.last_call
    return {
        "bindings": {name: str(value) for name, value in record.indices.items()},
        "tensors": {n: f"{dtype}{list(shape)}" for n, (shape, dtype) in record.tensors.items()},
        "target": str(op.serving_target),
        "kernels": tuple(dict.fromkeys(type(kernel).__name__ for kernel in op.iter_kernels())),
    }


def _reading(
    op: Op, facts: Mapping[str, Any], profile: Profile | None, timing: Timing
) -> Reading | None:
    flops, moved = facts["flops"], facts["bytes"]
    if profile is None or flops is None or moved is None:
        return None
    return profile.reading(flops, moved, op.roof_key(), timing.median)
