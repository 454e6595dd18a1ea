"""Operator schemas: what a branch writes and returns, in the notation of the dispatcher."""

from __future__ import annotations

from collections.abc import Sequence

from tileops._core.boundary.parameters import CallParameter, scalars_of
from tileops._core.boundary.source import returned_outputs
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec

_SCALARS = {int: "SymInt", float: "float", bool: "bool", str: "str"}


def operator_schema(spec: OpSpec, parameters: Sequence[CallParameter], branch: EffectBranch) -> str:
    """The arguments and returns of the branch's operator, without its name."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    arguments = []
    for name, tensor in spec.signature.inputs.items():
        alias = f"({next(letters)}!)" if name in branch.writes else ""
        maybe = "" if tensor.optional is False else "?"
        arguments.append(f"Tensor{alias}{maybe} {name}")
    if branch.has_out:
        arguments.append(f"Tensor({next(letters)}!) out")
    for parameter in scalars_of(parameters):
        assert parameter.kind is not None
        arguments.append(f"{_SCALARS[parameter.kind]} {parameter.name}")
    arguments.append("str instance_key")
    returns = ["Tensor"] * len(returned_outputs(spec, branch))
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"({', '.join(arguments)}) -> {result}"
