"""The record of one workload row: judged first, timed only where the numbers are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tileops import Op
from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops.bench.calls import RowCall, fits, has_reference, row_call
from tileops.bench.clock import Timing, timed
from tileops.bench.profiles import Profile, Reading, profile_for

RIGHT, WRONG, LEFT_OUT = "right", "wrong", "left out"


@dataclass(frozen=True)
class RowRecord:
    """What became of one case of a row.

    Args:
        op: the op.
        case: the id of the case.
        device: where it ran.
        state: `right`, `wrong` or `left out`.
        reason: why it is wrong or left out.
        bindings: parameters and indices of the call.
        tensors: dtype and shape of every tensor of the call, as text.
        flops: operations by the roofline; None where the spec has none.
        bytes: bytes moved by the roofline.
        target: the target that served the call.
        kernels: the classes of the kernels that ran.
        timing: what a call takes.
        reading: the time beside the device's limits; None where they are not known.
    """

    op: str
    case: str
    device: str
    state: str
    reason: str | None = None
    bindings: Mapping[str, str] | None = None
    tensors: Mapping[str, str] | None = None
    flops: int | None = None
    bytes: int | None = None
    target: str | None = None
    kernels: tuple[str, ...] = ()
    timing: Timing | None = None
    reading: Reading | None = None

    def data(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)


def measure(spec: OpSpec, case: Case, device: torch.device, seconds: float) -> RowRecord:
    """Run a case, judge it and time it; what it raises makes it wrong.

    Args:
        spec: the spec of an implemented op.
        case: one of its cases.
        device: where to run.
        seconds: about how long to time it.
    """
    if not has_reference(spec):
        return left_out(spec, case, device, "the op has no reference to judge it by")
    if not fits(case, device):
        reason = "the row and its reference need more memory than is free"
        return left_out(spec, case, device, reason)
    try:
        call = row_call(spec, case, device)
        fault = call.fault()
        if fault is None:
            return _right(spec, case, call, timed(call.launch, device, seconds))
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    return RowRecord(spec.name, case.id, str(device), WRONG, fault)


def left_out(spec: OpSpec, case: Case, device: torch.device, reason: str) -> RowRecord:
    """The record of a case that did not run."""
    return RowRecord(spec.name, case.id, str(device), LEFT_OUT, reason)


def _right(spec: OpSpec, case: Case, call: RowCall, timing: Timing) -> RowRecord:
    op, record = call.op, call.op.last_call
    flops, moved = op.eval_roofline() if spec.roofline is not None else (None, None)
    return RowRecord(
        op=spec.name,
        case=case.id,
        device=str(call.device),
        state=RIGHT,
        bindings={name: str(value) for name, value in record.indices.items()},
        tensors={name: f"{dtype}{list(shape)}" for name, (shape, dtype) in record.tensors.items()},
        flops=flops,
        bytes=moved,
        target=str(op.serving_target),
        kernels=tuple(sorted({type(kernel).__name__ for kernel in op.iter_kernels()})),
        timing=timing,
        reading=_reading(op, flops, moved, profile_for(call.device), timing),
    )


def _reading(
    op: Op, flops: int | None, moved: int | None, profile: Profile | None, timing: Timing
) -> Reading | None:
    if profile is None or flops is None or moved is None:
        return None
    return profile.reading(flops, moved, op.roof_key(), timing.median)
