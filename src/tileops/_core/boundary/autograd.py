"""The gradient formula of an op whose spec names a backward op.

The formula saves the tensors that the backward op takes, and calls that op; it computes nothing
itself. Outputs whose gradients that op does not take require no grad. Registered for branches that
write nothing: an operator that writes has no formula. The dtypes in which the backward op gives
gradients are looked up when a gradient is in sight, since its spec may be registered after that of
the forward op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from tileops._core import instances
from tileops._core.boundary.faults import (
    refuse_gradient,
    refuse_gradient_dtype,
    refuse_second_derivative,
)
from tileops._core.boundary.source import has_formula, returned_outputs
from tileops._core.lang.kinds import DTypeKind
from tileops._core.lang.nodes import Name
from tileops._core.runtime.tensors import name_of_dtype
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import Backward, OpSpec
from tileops._core.spec.registry import lookup


class Formula(NamedTuple):
    """What `torch.library.register_autograd` takes."""

    backward: Callable[..., Any]
    setup_context: Callable[..., None]


def gradient_formula(spec: OpSpec, branch: EffectBranch) -> Formula | None:
    """The formula of a branch's operator, or None where it has none."""
    if spec.backward is None or not has_formula(spec, branch):
        return None
    return _formula(spec, spec.backward, returned_outputs(spec, branch))


def _formula(spec: OpSpec, declared: Backward, returned: Sequence[str]) -> Formula:
    names = tuple(spec.signature.inputs)
    constants = set(names) - set(declared.outputs.values())
    arriving = declared.outputs_by_gradient()
    kept = {name: source for name, source in declared.inputs.items() if name not in arriving}
    untaken = [name for name in returned if name not in arriving.values()]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        tensors = {
            **dict(zip(names, inputs, strict=False)),
            **dict(zip(returned, results, strict=True)),
        }
        # The op itself, not its key: a caller may let go of it before the gradient is computed.
        ctx.op = instances.find(inputs[-1])
        # A call did so before; an exported graph has no other place for it.
        if any(tensors[name] is not None and tensors[name].requires_grad for name in constants):
            refuse_gradient(ctx.op, tensors)
        _check_dtypes(ctx.op, declared, tensors)
        ctx.save_for_backward(*(tensors.get(source) for source in kept.values()))
        ctx.mark_non_differentiable(*(tensors[name] for name in untaken))
        ctx.count = len(inputs)

    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        op = ctx.op._backward()
        by_output = dict(zip(returned, gradients, strict=True))
        passed = dict(zip(kept, ctx.saved_tensors, strict=True))
        # Autograd expands gradients of sums; the backward op may want them contiguous.
        passed |= {name: by_output[source].contiguous() for name, source in arriving.items()}
        if torch.is_grad_enabled():
            refuse_second_derivative(ctx.op, op, passed)
        found = _by_input(op, declared, op(**passed))
        rest = ctx.count - len(names)
        # A backward op may give the gradient of a tensor that was left out.
        wanted = zip(names, ctx.needs_input_grad, strict=False)
        return (*(found.get(name) if needed else None for name, needed in wanted), *[None] * rest)

    return Formula(backward, setup_context)


def _by_input(op: Any, declared: Backward, results: Any) -> dict[str, torch.Tensor | None]:
    """The backward op's results under the inputs whose gradients they are."""
    outputs = op._signature.output_names
    values = results if len(outputs) > 1 else (results,)
    return {
        declared.outputs[name]: value
        for name, value in zip(outputs, values, strict=True)
        if name in declared.outputs
    }


def _check_dtypes(op: Any, declared: Backward, tensors: Mapping[str, Any]) -> None:
    """Refuse an input that requires grad in a dtype in which the backward op gives none."""
    for result, name in declared.outputs.items():
        tensor = tensors[name]
        if tensor is not None and tensor.requires_grad:
            admitted = gradient_dtypes(declared.op, result)
            if admitted and name_of_dtype(tensor.dtype) not in admitted:
                refuse_gradient_dtype(op, name, tensor)


def gradient_dtypes(op: str, output: str) -> frozenset[str]:
    """The dtypes that an index gives an output of an op; none where something else decides."""
    spec = lookup(op)
    declared = None if spec is None else spec.signature.outputs.get(output)
    if spec is None or declared is None or not isinstance(declared.dtype.node, Name):
        return frozenset()
    index = spec.signature.forall.get(declared.dtype.node.id)
    return index.kind.members if index and isinstance(index.kind, DTypeKind) else frozenset()
