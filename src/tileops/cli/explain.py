"""Explain a call: which kernel would serve it, and why each other candidate would not.

The call is described, not made: a shape per tensor, and where it matters a dtype and constructor
arguments; or a workload row, the smallest where nothing is said. A dtype that is not given beside
shapes is float32 on a CPU where that is admitted, else that of the smallest row. Nothing is
computed and no memory is taken.

Kernels look at what a device is, so --device names one of this machine. --arch asks about a CUDA
device that need not be here, by the facts of a large board of that architecture.

  tileops explain RMSNormFwdOp --dtype bfloat16
  tileops explain RMSNormFwdOp --dtype bfloat16 --arch sm_90
  tileops explain RMSNormFwdOp --row llama-3.1-8b-prefill
  tileops explain RMSNormFwdOp --param 'normalized_shape=[4096]' --shape x=8x4096 --dtype T=bfloat16
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tileops._core.spec.model import OpSpec
from tileops.cli.described import Described, Wishes, described
from tileops.cli.options import add_call, add_device, add_json, add_op, add_rows, add_target
from tileops.cli.output import UsageFault, print_json
from tileops.cli.progress import waiting
from tileops.cli.specs import class_of, device_named, spec_named, table_of, usable_target

if TYPE_CHECKING:
    import torch

    from tileops import Op
    from tileops._core.dispatch.facts import DeviceFacts
    from tileops._core.op.explain import Explanation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_op(parser)
    add_rows(parser)
    add_call(parser)
    add_device(parser, "where the tensors lie")
    parser.set_defaults(device=None)
    parser.add_argument(
        "--arch",
        metavar="SM",
        help="as on a CUDA device of this architecture, such as sm_90, which need not be here",
    )
    add_target(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 1 when the call would be refused."""
    spec = spec_named(args.op)
    with waiting("loading torch and following the call", silent=args.json):
        from torch._subclasses.fake_tensor import FakeTensorMode

        cls = class_of(spec)
        table_of(cls)
        target = usable_target(args.target)
        device, facts = _place(args.device, args.arch)
        with FakeTensorMode() if facts else nullcontext():
            call = described(spec, Wishes(args.shape, args.dtype, args.param, args.rows), device)
            op = cls(**call.params, target=target)
        report = _explain(op, spec, call, device, facts)
    if args.json:
        print_json({"row": call.row, **_data(report)})
    else:
        print(f"row {call.row}\n{report}" if call.row else report)
    return 0 if report.error is None else 1


def _place(device: str | None, arch: str | None) -> tuple[torch.device, DeviceFacts | None]:
    """The device of the call, and its facts where it need not be here.

    Raises:
        UsageFault: it is not here and no architecture is given, or nothing is known of that one.
    """
    import torch

    from tileops._core.dispatch.facts import BOARDS, USUAL

    if arch is None:
        return device_named(device or "cpu", ", --arch sm_90 asks about one that is not here"), None
    if device not in {None, "cuda"}:
        raise UsageFault(f"--arch {arch} is that of a CUDA device: leave out --device {device}")
    if arch not in USUAL:
        known = ", ".join(f"{name} ({boards})" for name, boards in BOARDS.items())
        raise UsageFault(f"no architecture is called {arch or repr(arch)}: known are {known}")
    return torch.device("cuda", 0), USUAL[arch]


def _explain(
    op: Op, spec: OpSpec, call: Described, device: torch.device, facts: DeviceFacts | None
) -> Explanation:
    """The op's own report on tensors that hold no data."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from tileops._core.op.explain import explain_elsewhere

    tensors = {}
    with FakeTensorMode():
        for name, (shape, dtype_name) in call.forms.items():
            dtype = getattr(torch, dtype_name)
            place = "cpu" if spec.signature.inputs[name].on_cpu else device
            tensors[name] = torch.empty(shape, dtype=dtype, device=place)
        return explain_elsewhere(op, facts, tensors) if facts else op.explain(**tensors)


def _data(report: Explanation) -> dict[str, Any]:
    """The report as plain data; identities, devices and errors as text."""
    from tileops._core.op.explain import StageReport

    steps: list[dict[str, Any]] = []
    for step in report.steps:
        if isinstance(step, StageReport):
            steps.append({"stage": step.stage, "report": _data(step.report)})
            continue
        columns = ("key", "class", "verdict")
        steps.append(
            {
                "interface": step.interface,
                "candidates": [dict(zip(columns, row, strict=True)) for row in step.candidates],
                "chosen": step.key,
                "identity": None if step.key is None else repr(step.identity),
            }
        )
    return {
        "op": report.op,
        "device": None if report.device is None else str(report.device),
        "target": report.target,
        "rule": report.rule,
        "steps": steps,
        "end": report.end,
        "error": None if report.error is None else str(report.error),
    }
