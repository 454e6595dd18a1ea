"""The call entry of a class: how arguments bind, and the compile boundary where it has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from tileops._core import instances
from tileops._core.boundary import faults, scalars
from tileops._core.boundary.autograd import gradient_formula
from tileops._core.boundary.naming import NAMESPACE, operator_name
from tileops._core.boundary.operators import (
    OperatorParts,
    is_registered,
    mark_written,
    register_operator,
    short_way,
)
from tileops._core.boundary.parameters import CallParameter, scalar_types
from tileops._core.boundary.results import fresh_output
from tileops._core.boundary.schema import operator_schema
from tileops._core.boundary.source import (
    binding_source,
    entry_source,
    has_formula,
    returned_outputs,
)
from tileops._core.boundary.warm import held_names
from tileops._core.codegen.loading import compile_source
from tileops._core.runtime.likeness import ABSENT, likeness, unmade
from tileops._core.runtime.tensors import is_ordinary, is_writable, shares_storage
from tileops._core.runtime.tracing import is_compiled, is_traced, never_traced
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec

BoundCall = tuple[tuple[Any, ...], "dict[str, Any] | None", "dict[str, Any] | None"]


@dataclass(frozen=True)
class CallEntry:
    """How calls of a class enter; `text` is the source it was compiled from.

    `bind` is a function of the instance and the call's arguments. Where no operator is entered,
    `key` gives the key of a call's kind and `fits` tells whether its result is plainly right.
    `scalars` names the execution arguments that operators take, with their types.
    """

    text: str
    bind: Callable[..., BoundCall]
    key: Callable[..., tuple[Any, ...] | None] | None = None
    fits: Callable[..., bool] | None = None
    scalars: tuple[tuple[str, str], ...] = ()

    def is_current(self) -> bool:
        """Whether calls can enter; always where no operator stands between."""
        return True


@dataclass(frozen=True)
class _CompileBoundary(CallEntry):
    """The operators of a class and the function that calls the right one."""

    operator_names: tuple[str, ...] = field(kw_only=True)
    call: Callable[..., Any] = field(kw_only=True)
    schemas: dict[str, str] = field(kw_only=True)

    def is_current(self) -> bool:
        """Whether no later definition of the class has given its operators other arguments."""
        return all(is_registered(name, schema) for name, schema in self.schemas.items())


def make_entry(
    spec: OpSpec, parameters: Sequence[CallParameter], effects: frozenset[EffectBranch]
) -> CallEntry:
    """The entry of a class without a boundary."""
    text = entry_source(spec, parameters, tuple(effects))
    unit = _compiled(spec, text, parameters)
    return CallEntry(text, unit["_bind_call"], unit["_key_of"], unit.get("_fits_0"))


def make_boundary(
    spec: OpSpec,
    parameters: Sequence[CallParameter],
    effects: frozenset[EffectBranch],
    module: str,
) -> _CompileBoundary:
    """Register the operators of a class and make the entry that calls them.

    Args:
        spec: the spec of the class.
        parameters: what a call takes.
        effects: the branches, each of which gets an operator.
        module: where the class is defined.

    Raises:
        TypeError: another class has an operator of the same name.
    """
    foreign = None if spec.is_for(module) else f"{module}.{spec.name}"
    branches = sorted(effects, key=lambda branch: operator_name(spec, branch))
    text = entry_source(spec, parameters, branches)
    unit = _compiled(spec, text, parameters)
    schemas, scalars = {}, scalar_types(parameters)
    for number, branch in enumerate(branches):
        name = operator_name(spec, branch)
        schema = operator_schema(spec, parameters, branch)
        body, fake = unit[f"_body_{number}"], _fake(spec, branch, unit["_examine"], scalars)
        never_traced(body)
        parts = OperatorParts(name, schema, text, body, fake, gradient_formula(spec, branch))
        operator = register_operator(spec.name, parts, foreign)
        unit[f"_operator_{number}"] = operator
        unit[f"_direct_{number}"] = short_way(operator)
        schemas[name] = schema
    if len(branches) > 1:
        calls = {_key(branch): unit[f"_call_{i}"] for i, branch in enumerate(branches)}
        unit["_find_call"] = _finder(parameters, calls)
    return _CompileBoundary(
        text,
        _binding(spec, parameters, unit["_examine"]),
        scalars=scalars,
        operator_names=tuple(f"{NAMESPACE}::{name}" for name in schemas),
        call=unit["_call_boundary"],
        schemas=schemas,
    )


def _binding(
    spec: OpSpec, parameters: Sequence[CallParameter], examine: Callable[..., None]
) -> Callable[..., BoundCall]:
    """`_bind_call`, printed when it first runs: most classes are never asked."""

    @cache
    def printed() -> Callable[..., BoundCall]:
        unit = _compiled(spec, binding_source(spec, parameters), parameters, "binding")
        unit["_examine"] = examine
        bind: Callable[..., BoundCall] = unit["_bind_call"]
        return bind

    def bind(*args: Any, **kwargs: Any) -> BoundCall:
        return printed()(*args, **kwargs)

    return bind


def _key(branch: EffectBranch) -> tuple[Any, ...]:
    return (branch.writes, branch.has_out, branch.emits)


def _finder(
    parameters: Sequence[CallParameter], calls: dict[tuple[Any, ...], Any]
) -> Callable[[Any, tuple[bool, ...]], Any]:
    """What picks the branch's `_call_N` by the presence of tensors that may be absent.

    An eager call keeps what was found.
    """
    absentable = [p.name for p in parameters if p.role != "execution" and not p.required]

    def resolve(op: Any, presence: tuple[bool, ...]) -> Any:
        named = dict(zip(absentable, presence, strict=True))
        return calls[_key(op._signature.effect_branch(op, named))]

    def find(op: Any, presence: tuple[bool, ...]) -> Any:
        found = resolve(op, presence)
        if not is_traced():
            op._effect_branches[presence] = found
        return found

    return find


def _fake(
    spec: OpSpec,
    branch: EffectBranch,
    examine: Callable[..., None],
    scalars: tuple[tuple[str, str], ...],
) -> Callable[..., Any]:
    """The branch's fake: check, then empty results of the checked shapes."""
    names = (*spec.signature.inputs, *(("out",) if branch.has_out else ()))
    returned, held = returned_outputs(spec, branch), held_names(spec)
    absent = (None,) if spec.signature.has_buffer and not branch.has_out else ()
    differentiable = has_formula(spec, branch)

    def fake(*arguments: Any) -> Any:
        op = instances.find(arguments[-1])
        if op._call_entry.scalars != scalars:
            raise faults.outdated(op)
        if held and torch.is_grad_enabled():
            faults.refuse_held(op, held)
        tensors = dict(zip(names, arguments, strict=False))
        if not differentiable and torch.is_grad_enabled() and any(map(_requires_grad, arguments)):
            faults.refuse_gradient(op, tensors)
        examine(op, *tensors.values(), *absent)
        try:
            record = op._check_in_fake(tensors)
        except RuntimeError as error:
            faults.refuse_unbacked(op, error)
            raise
        made = tuple(fresh_output(record, name) for name in returned)
        if not made:
            return None
        return made[0] if len(made) == 1 else made

    return fake


def _requires_grad(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.requires_grad


def _compiled(
    spec: OpSpec, text: str, parameters: Sequence[CallParameter], part: str = "entry"
) -> dict[str, Any]:
    """The namespace of a unit's functions."""
    defaults = {f"_default_{p.name}": p.default for p in parameters if p.role == "execution"}
    return compile_source(f"{spec.name} {part}", text, _HELPERS | defaults)


_HELPERS: dict[str, Any] = {
    "_PLAIN": (torch.Tensor, torch.nn.Parameter),
    "_Tensor": torch.Tensor,
    "_absent": ABSENT,
    "_likeness": likeness,
    "_unmade": unmade,
    "_strided": torch.strided,
    "_shares_storage": shares_storage,
    # Leaves out the kernel of a gradient formula, which is written in Python.
    "_below_autograd": torch._C._AutoDispatchBelowAutograd,
    "_is_dynamo_compiling": torch.compiler.is_dynamo_compiling,
    "_instances": instances.table,
    "_gone": instances.gone,
    "_nothing": {},
    "_RuntimeError": RuntimeError,
    "_tuple": tuple,
    "_len": len,
    "_id": id,
    "_is_ordinary": is_ordinary,
    "_is_writable": is_writable,
    "_is_int": scalars.is_int,
    "_is_float": scalars.is_float,
    "_is_bool": scalars.is_bool,
    "_is_str": scalars.is_str,
    "_bool": bool,
    "_int": int,
    "_float": float,
    "_str": str,
    "_is_grad_enabled": torch.is_grad_enabled,
    "_is_compiled": is_compiled,
    "_find_instance": instances.find,
    "_mark_written": mark_written,
    "_outdated": faults.outdated,
    "_refuse_input": faults.refuse_input,
    "_refuse_out": faults.refuse_out,
    "_refuse_execution": faults.refuse_execution,
    "_is_transformed": faults.is_transformed,
    "_refuse_gradient": faults.refuse_gradient,
    "_refuse_transform": faults.refuse_transform,
    "_refuse_differentiated": faults.refuse_differentiated,
    "_refuse_held": faults.refuse_held,
    "_refuse_tangents": faults.refuse_tangents,
    "_refuse_mixture": faults.refuse_mixture,
    "_type": type,
    "_FakeTensor": torch._subclasses.FakeTensor,
    "_forward_mode": torch.autograd.forward_ad,
}
"""What the unit may use beside the arguments of its functions."""
