"""The gradient formula of an op whose spec names a backward op.

The formula saves the tensors that the backward op takes, and calls that op; it computes nothing
itself. Registered for branches that write nothing: an operator that writes has no formula.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from tileops._core.boundary import instances
from tileops._core.boundary.source import returned_outputs
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import Backward, OpSpec

_GRADIENT = re.compile(r"grad\(\s*(\w+)\s*\)")


class Formula(NamedTuple):
    """What `torch.library.register_autograd` takes."""

    backward: Callable[..., Any]
    setup_context: Callable[..., None]


def gradient_formula(spec: OpSpec, branch: EffectBranch) -> Formula | None:
    """The formula of a branch's operator, or None where it has none."""
    if spec.backward is None or branch.writes or branch.has_out:
        return None
    return _formula(spec, spec.backward, returned_outputs(spec, branch))


def _formula(spec: OpSpec, declared: Backward, returned: Sequence[str]) -> Formula:
    names = tuple(spec.signature.inputs)
    arriving = {
        name: match.group(1)
        for name, source in declared.inputs.items()
        if (match := _GRADIENT.fullmatch(source))
    }
    kept = {name: source for name, source in declared.inputs.items() if name not in arriving}

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        tensors = {
            **dict(zip(names, inputs, strict=False)),
            **dict(zip(returned, results, strict=True)),
        }
        ctx.save_for_backward(*(tensors.get(source) for source in kept.values()))
        ctx.key = inputs[-1]
        ctx.count = len(inputs)

    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        op = instances.find(ctx.key)._backward()
        by_output = dict(zip(returned, gradients, strict=True))
        passed = dict(zip(kept, ctx.saved_tensors, strict=True))
        # Autograd expands gradients of sums; the backward op may want them contiguous.
        passed |= {name: by_output[source].contiguous() for name, source in arriving.items()}
        found = _by_input(op, declared, op(**passed))
        rest = ctx.count - len(names)
        return (*(found.get(name) for name in names), *[None] * rest)

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
