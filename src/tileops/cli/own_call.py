"""A call of sizes of one's own as a case, so that it is judged and timed as workload rows are.

The shapes are what the user gave, and the indices that a row would give follow from them by the
check of the call itself. Contents of metadata, such as lengths of requests, follow from no shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tileops._core.signature.analysis import Analysis
from tileops._core.spec.model import OpSpec, Row
from tileops._core.workload.branch import is_dtype_index
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops._core.workload.rows import RowReader
from tileops.cli.described import Described, Wishes, described
from tileops.cli.output import UsageFault
from tileops.cli.specs import class_of

if TYPE_CHECKING:
    import torch


def own_case(spec: OpSpec, wishes: Wishes, device: torch.device) -> Case:
    """The call that was described by shapes and parameters, for a device.

    Raises:
        UsageFault: the description contradicts itself or the spec, or leaves something open.
        SignatureError: the op refuses the call.
    """
    call = described(spec, wishes, device)
    reader = RowReader(Analysis(spec))
    try:
        branch = reader.setting(_row(spec, call, {}, {})).branch
        known = _indices(spec, call)
        dtypes = {n: known[n] for n in known if n in branch.used and is_dtype_index(spec, n)}
        indices = {n: known[n] for n in known if n in branch.given and n not in dtypes}
        setting = reader.setting(_row(spec, call, indices, dtypes))
        for fault in reader.key_faults(setting):
            raise fault
        return reader.instantiate(setting, dtypes)
    except RowFault as fault:
        hint = "what no shape tells only rows give: leave out --shape and --param"
        raise UsageFault(f"{spec.name}: this {fault}; {hint}") from fault


def _row(
    spec: OpSpec, call: Described, indices: Mapping[str, Any], dtypes: Mapping[str, str]
) -> Row:
    """The call as a workload row would have it."""
    inputs = spec.signature.inputs
    some = tuple(name for name in call.forms if inputs[name].optional is True)
    written = {n: list(v) if isinstance(v, tuple) else v for n, v in indices.items()}
    cases = (dtypes,) if dtypes else ()
    return Row({**call.written, **written}, some, cases, None, "call", spec.location)


def _indices(spec: OpSpec, call: Described) -> Mapping[str, Any]:
    """What a call of these shapes fixes: indices, and dtypes by name."""
    import torch

    op, inputs = class_of(spec)(**call.params), spec.signature.inputs
    if not inputs:
        return {}
    tensors = {
        name: torch.zeros(
            shape, dtype=getattr(torch, dtype), device="cpu" if inputs[name].on_cpu else "meta"
        )
        for name, (shape, dtype) in call.forms.items()
    }
    op(**tensors)
    assert op.last_call is not None
    return {n: v for n, v in op.last_call.indices.items() if n in spec.signature.forall}
