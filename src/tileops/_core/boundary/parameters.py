"""The parameters of `forward`, and whether they follow the spec.

Inputs in the spec's order, then `out` exactly where the spec has a buffer, then execution
arguments, which operators pass as scalars. Read once per class; a call never inspects anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, Literal

from torch import Tensor

from tileops._core.lang.values import shown
from tileops._core.spec.model import OpSpec

Role = Literal["input", "out", "execution"]

SCALARS: dict[object, type] = {
    spelling: kind for kind in (int, float, bool, str) for spelling in (kind, kind.__name__)
}
"""Annotations that an execution argument may have, as written or as a string."""

MISSING = inspect.Parameter.empty


@dataclass(frozen=True)
class CallParameter:
    """One parameter of `forward`: what it stands for and how it is given.

    `required` inputs may not be None either. `kind` is the type of an execution argument, None
    where a class without a boundary does not state one.
    """

    name: str
    role: Role
    required: bool
    default: Any = None
    keyword_only: bool = False
    kind: type | None = None


def call_parameters(cls: type, spec: OpSpec, *, bounded: bool) -> tuple[CallParameter, ...]:
    """The parameters of `cls.forward` without `self`.

    Args:
        cls: the op class.
        spec: its spec.
        bounded: whether the class gets a compile boundary, whose operators take only scalars
            beside tensors.

    Raises:
        TypeError: they do not follow the spec, or an execution argument has no admitted type or
            an inadmissible name.
    """
    declared = list(inspect.signature(cls.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    _check_order(cls, declared, spec)
    found = tuple(_parameter(parameter, spec) for parameter in declared)
    for parameter in found:
        if parameter.role == "execution":
            _check_execution(cls, parameter, bounded)
    return found


def scalars_of(parameters: Sequence[CallParameter]) -> list[CallParameter]:
    """The execution arguments in the order of an operator: that of their names.

    Graphs and instances of a class pass them by place, also once the class is defined again with
    the same ones in another order.
    """
    return sorted((p for p in parameters if p.role == "execution"), key=lambda p: p.name)


def scalar_types(parameters: Sequence[CallParameter]) -> tuple[tuple[str, str], ...]:
    """Name and type of each execution argument of an operator, in its order."""
    return tuple((p.name, p.kind.__name__) for p in scalars_of(parameters) if p.kind is not None)


def call_signature(spec: OpSpec, parameters: Sequence[CallParameter]) -> inspect.Signature:
    """What a call takes and returns, `self` first.

    Args:
        spec: the spec of the class.
        parameters: those of its `forward`.
    """
    shown_parameters = [_shown_parameter(parameter) for parameter in parameters]
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    results = [
        Tensor if output.nullable is None else Tensor | None
        for output in spec.signature.outputs.values()
    ]
    several = GenericAlias(tuple, tuple(results)) if results else None
    returned = results[0] if len(results) == 1 else several
    return inspect.Signature([itself, *shown_parameters], return_annotation=returned)


def _shown_parameter(parameter: CallParameter) -> inspect.Parameter:
    given = parameter.kind or Any if parameter.role == "execution" else Tensor
    is_optional = parameter.role != "execution" and not parameter.required
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY
        if parameter.keyword_only
        else inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=MISSING if parameter.required else parameter.default,
        annotation=Tensor | None if is_optional else given,
    )


def _check_execution(cls: type, parameter: CallParameter, bounded: bool) -> None:
    """An execution argument has a name of its own, and a type that an operator can take."""
    place = f"{cls.__name__}.forward: execution argument {parameter.name!r}"
    if parameter.name.startswith("_") or parameter.name == "instance_key":
        raise TypeError(f"{place} must not be called instance_key or begin with an underscore")
    if not parameter.name.isascii():
        raise TypeError(f"{place} must have an ASCII name")
    if bounded and parameter.kind is None:
        raise TypeError(f"{place} must be annotated int, float, bool or str")


def _parameter(declared: inspect.Parameter, spec: OpSpec) -> CallParameter:
    name, keyword_only = declared.name, declared.kind is declared.KEYWORD_ONLY
    tensor = spec.signature.inputs.get(name)
    if tensor is not None:
        return CallParameter(name, "input", tensor.optional is False, None, keyword_only)
    if name == "out":
        return CallParameter(name, "out", False, None, keyword_only)
    kind = SCALARS.get(declared.annotation)
    required = declared.default is MISSING
    return CallParameter(name, "execution", required, declared.default, keyword_only, kind)


def _check_order(cls: type, declared: list[inspect.Parameter], spec: OpSpec) -> None:
    inputs = spec.signature.inputs
    wanted = [
        name if tensor.optional is False else f"{name}=None" for name, tensor in inputs.items()
    ]
    if spec.signature.has_buffer:
        wanted.append("out=None")
    leading = declared[: len(wanted)]
    extra = declared[len(wanted) :]
    unnamed = any(p.kind in {p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD} for p in declared)
    if (
        [_spelled(p) for p in leading] != wanted
        or any(p.kind is p.KEYWORD_ONLY for p in leading)
        or any(p.name == "out" for p in extra)
        or unnamed
    ):
        raise TypeError(
            f"{cls.__name__}.forward takes ({', '.join(map(_written, declared))}), "
            f"its spec asks for ({', '.join(wanted)}) and then execution arguments"
        )


def _spelled(parameter: inspect.Parameter) -> str:
    """The parameter as name, or `name=default`."""
    if parameter.default is MISSING:
        return parameter.name
    return f"{parameter.name}={shown(parameter.default)}"


def _written(parameter: inspect.Parameter) -> str:
    """The parameter as it stands in the class."""
    if parameter.default is MISSING:
        return str(parameter)
    equals = "=" if parameter.annotation is parameter.empty else " = "
    return f"{parameter.replace(default=MISSING)}{equals}{shown(parameter.default)}"
