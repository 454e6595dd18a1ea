"""Explain a call: which kernel would serve it, and why each other candidate would not.

The call is described, not made: a shape per tensor, and where it matters a dtype and constructor
arguments. Nothing is computed and no memory is taken.

  tileops explain RMSNormFwdOp --param normalized_shape=[4096] --shape x=8x4096 --dtype T=bfloat16
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tileops._core.lang.dtypes import is_registered
from tileops._core.lang.members import Accepted, DTypeMember
from tileops._core.spec.model import OpSpec, Param, TensorInput
from tileops._core.spec.yaml12 import YamlFault, plain, read_yaml
from tileops.cli.output import UsageFault, add_json_flag, print_json
from tileops.cli.specs import class_of, spec_named, table_of

if TYPE_CHECKING:
    from tileops import Op
    from tileops._core.op.explain import Explanation

NAME = "explain"
SUMMARY = "say which kernel would serve a call, and why no other"

Value = TypeVar("Value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("op", metavar="OP", help="the name of an op")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=AxB",
        help="shape of an input, as 8x4096; nothing after = for no axes; one option per tensor",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        default=[],
        metavar="NAME=DTYPE",
        help="dtype of an index such as T, or of an input; the first admitted when absent",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a constructor argument, its value written as in a spec file",
    )
    parser.add_argument("--device", default="cpu", help="where the tensors lie (default cpu)")
    parser.add_argument("--target", help="the target that the op is asked to use")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 2 when the call would be refused."""
    spec = spec_named(args.op)
    shapes = _pairs("--shape", args.shape, _extents, spec.signature.inputs)
    params = _pairs("--param", args.param, _yaml_value, spec.signature.params)
    dtypes = _pairs(
        "--dtype", args.dtype, _dtype_name, [*spec.signature.forall, *spec.signature.inputs]
    )
    op = _construct(spec, params, args.target)
    report = _explain(op, spec, shapes, dtypes, args.device)
    if args.json:
        print_json(_data(report))
    else:
        print(report)
    return 0 if report.error is None else 2


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


def _pairs(
    option: str, texts: Iterable[str], convert: Callable[[str], Value], known: Iterable[str]
) -> dict[str, Value]:
    """`NAME=VALUE` texts as a mapping; each name must be known and given once."""
    names = list(known)
    found: dict[str, Value] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageFault(f"{option} {text}: expected NAME=VALUE")
        if name not in names:
            raise UsageFault(
                f"{option} {text}: no {name} here; known: {', '.join(names) or 'none'}"
            )
        if name in found:
            raise UsageFault(f"{option} {text}: {name} is given twice")
        try:
            found[name] = convert(value)
        except ValueError as error:
            raise UsageFault(f"{option} {text}: {error}") from error
    return found


def _extents(text: str) -> tuple[int, ...]:
    parts = text.replace(",", "x").split("x") if text.strip() else []
    if not all(part.strip().isdecimal() for part in parts):
        raise ValueError("expected extents such as 8x4096")
    return tuple(map(int, parts))


def _dtype_name(text: str) -> str:
    if not is_registered(text):
        raise ValueError("not a registered dtype")
    return text


def _yaml_value(text: str) -> Any:
    try:
        return plain(read_yaml(text.encode()).root)
    except YamlFault as fault:
        raise ValueError(str(fault)) from fault


def _construct(spec: OpSpec, params: Mapping[str, Any], target: str | None) -> Op:
    """The op with these arguments; a dtype's name becomes the dtype."""
    import torch

    arguments = {}
    for name, value in params.items():
        declared = spec.signature.params[name]
        if not isinstance(declared, Param) or declared.type.node is None:
            raise UsageFault(f"--param {name}: a tensor, which cannot be written here")
        arguments[name] = getattr(torch, value) if _is_dtype(declared, value) else value
    op = class_of(spec)
    table_of(op)
    return op(**arguments, target=target)


def _is_dtype(declared: Param, value: object) -> bool:
    """Whether the first alternative of the type that takes the value is a dtype."""
    members = declared.type.node.members if declared.type.node else ()
    takers = (m for m in members if isinstance(m.from_yaml(value, {}), Accepted))
    return isinstance(next(takers, None), DTypeMember)


def _explain(
    op: Op,
    spec: OpSpec,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
    device_name: str,
) -> Explanation:
    """The op's own report on tensors that hold no data."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from tileops._core.devices import usable_device

    device = usable_device(device_name)
    tensors = {}
    with FakeTensorMode():
        for name, tensor in spec.signature.inputs.items():
            if name not in shapes:
                continue
            dtype = getattr(torch, _dtype_of(spec, tensor, dtypes))
            _require_addressable(name, shapes[name], dtype.itemsize)
            place = "cpu" if tensor.on_cpu else device
            tensors[name] = torch.empty(shapes[name], dtype=dtype, device=place)
        return op.explain(**tensors)


def _require_addressable(name: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a shape whose strides, which take an empty axis for one element, leave 64 bits."""
    if math.prod(max(extent, 1) for extent in shape) * itemsize >= 2**63:
        extents = "x".join(map(str, shape))
        raise UsageFault(f"--shape {name}={extents}: more bytes than a tensor can hold")


def _dtype_of(spec: OpSpec, tensor: TensorInput, dtypes: Mapping[str, str]) -> str:
    """The dtype asked for, else the declared one, else the first that its index admits."""
    declared = tensor.dtype.text
    for asked in (tensor.name, declared):
        if asked in dtypes:
            return dtypes[asked]
    if is_registered(declared):
        return declared
    index = spec.signature.forall.get(declared)
    if index is None:
        raise UsageFault(f"--dtype {tensor.name}=DTYPE is needed: it is declared as {declared}")
    members = index.declaration.text.removeprefix("DType[").removesuffix("]")
    return members.split("|")[0].strip()
