"""Gradients of ops whose spec names a backward op: as the reference's, compiled, by differences.

The reference is differentiated by torch in float64. Differences are taken where the op takes
float64, since those of shorter types say little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tileops._core.boundary.autograd import gradient_dtypes
from tileops._core.signature.discriminants import OUT
from tileops._core.targets.selection import detected
from tileops.backend import registered_targets
from tileops.errors import OpNotAvailableError
from tileops.testing.calling import (
    TOLERANCE,
    construct,
    inputs,
    placed,
    reference,
    results,
    spec_of,
)
from tileops.testing.drawing import DrawnCall
from tileops.testing.refusals import served

Gradients = tuple[Tensor | None, ...]


def differentiable(op: str, device: str = "cpu") -> list[DrawnCall]:
    """The drawn calls that take part in gradients; none of an op without a backward op.

    None either where a target claims the device and has no builder for the backward op.
    """
    if lacking(op, device):
        return []
    return [call for call in drawn_with_leaves(op) if not refused(call)]


def lacking(op: str, device: str) -> str | None:
    """The target that serves an op on a device and has nothing for its backward op."""
    backward = spec_of(op).backward
    if backward is None:
        return None
    serving = registered_targets(backward.op)
    target = detected(torch.device(device))
    return None if target in serving else target


def drawn_with_leaves(op: str) -> list[DrawnCall]:
    """The drawn calls whose gradients are the business of the backward op."""
    if spec_of(op).backward is None:
        return []
    calls = [call for call in served(op) if not call.point.get(OUT)]
    return [call for call in calls if all(t.is_floating_point() for t in leaves(call).values())]


def refused(call: DrawnCall) -> list[str]:
    """The inputs of a call in whose dtype the backward op gives no gradient."""
    backward = spec_of(call.op).backward
    assert backward is not None
    admitted = {name: gradient_dtypes(backward.op, out) for out, name in backward.outputs.items()}
    return [
        name
        for name in leaves(call)
        if admitted[name] and call.tensors[name].dtype not in admitted[name]
    ]


def leaves(call: DrawnCall) -> dict[str, Tensor]:
    """The inputs whose gradients the backward op gives."""
    backward = spec_of(call.op).backward
    assert backward is not None
    return {name: t for name, t in inputs(call).items() if name in backward.outputs.values()}


def arriving(call: DrawnCall, returned: object) -> list[Tensor | None]:
    """The results whose gradients the backward op takes; None where one is absent."""
    declared = spec_of(call.op)
    assert declared.backward is not None
    taken = declared.backward.outputs_by_gradient().values()
    pairs = zip(declared.signature.outputs, results(call.op, returned), strict=True)
    return [result for name, result in pairs if name in taken]


def gradients(
    call: DrawnCall,
    function: Callable[..., Any],
    dtype: torch.dtype | None = None,
    device: str = "cpu",
) -> Gradients:
    """The gradients of a weighted sum of the results that have gradients.

    Args:
        call: the call.
        function: takes the inputs by name.
        dtype: of the leaves, None for the dtype that was drawn.
        device: where it runs; gradients are given on the CPU.
    """
    given = placed(call, device)
    chosen = {name: given[name].to(dtype or leaf.dtype) for name, leaf in leaves(call).items()}
    for tensor in chosen.values():
        tensor.requires_grad_()
    loss = torch.zeros((), dtype=torch.float64, device=device)
    for place, result in enumerate(arriving(call, function(**{**given, **chosen}))):
        if result is not None:
            weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(place))
            loss = loss + (result.double() * weights.to(device)).sum()
    if not loss.requires_grad:  # The loop of a reference may run over nothing.
        return (None,) * len(chosen)
    found: Gradients = torch.autograd.grad(loss, list(chosen.values()), allow_unused=True)
    return tuple(None if gradient is None else gradient.cpu() for gradient in found)


def assert_gradients(call: DrawnCall, found: Gradients, wanted: Gradients) -> None:
    """One is the other up to the rounding of the call's shortest dtype; None stands for zero."""
    dtypes = [tensor.dtype for tensor in (*call.tensors.values(), *call.outputs.values())]
    bound = max(TOLERANCE.get(dtype, 1e-9) for dtype in dtypes)
    for (name, leaf), one, other in zip(leaves(call).items(), found, wanted, strict=True):
        assert one is None or (one.shape, one.dtype) == (leaf.shape, leaf.dtype)
        first, second = (torch.zeros(leaf.shape) if g is None else g for g in (one, other))
        try:
            torch.testing.assert_close(first.double(), second.double(), rtol=bound, atol=4 * bound)
        except AssertionError as error:
            raise AssertionError(f"{call}: gradient of {name}: {error}") from None


def test_gradients_agree_with_those_of_the_reference(bounded: str) -> None:
    for call in differentiable(bounded):
        found = gradients(call, construct(call))
        assert_gradients(call, found, gradients(call, reference(call), torch.float64))


def test_results_whose_gradients_nothing_takes_require_none(bounded: str) -> None:
    for call in differentiable(bounded)[:2]:
        given = inputs(call)
        for name in leaves(call):
            given[name].requires_grad_()
        returned = construct(call)(**given)
        taken = {id(result) for result in arriving(call, returned)}
        for result in results(call.op, returned):
            assert result is None or result.requires_grad == (id(result) in taken)


def test_gradients_that_a_target_lacks_are_refused(bounded: str) -> None:
    target, calls = lacking(bounded, "cpu"), drawn_with_leaves(bounded)
    for call in calls[:1] if target else ():
        with pytest.raises(OpNotAvailableError, match=f"target {target!r} has no builder for"):
            gradients(call, construct(call))


def test_inputs_that_have_no_gradient_are_refused(bounded: str) -> None:
    for call in drawn_with_leaves(bounded):
        for name in refused(call):
            given = inputs(call)
            given[name].requires_grad_()
            with pytest.raises(
                RuntimeError, match=f"{name} requires grad, but .* gives no gradient"
            ):
                construct(call)(**given)


def test_compiled_gradients_are_those_of_eager_calls(bounded: str) -> None:
    for call in differentiable(bounded)[:2]:
        torch._dynamo.reset()
        compiled = torch.compile(construct(call), fullgraph=True, backend="aot_eager")
        assert_gradients(call, gradients(call, compiled), gradients(call, construct(call)))


def test_gradients_agree_with_differences(bounded: str) -> None:
    for call in differentiable(bounded):
        given = leaves(call)
        if any(tensor.dtype is not torch.float64 for tensor in given.values()):
            continue
        check(call, construct(call), given)


def check(call: DrawnCall, op: Callable[..., Any], given: Mapping[str, Tensor]) -> None:
    """Differences of every result that has a gradient in every element of the leaves."""

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        returned = op(**{**inputs(call), **dict(zip(given, tensors, strict=True))})
        return tuple(result for result in arriving(call, returned) if result is not None)

    values = [tensor.requires_grad_() for tensor in given.values()]
    assert torch.autograd.gradcheck(function, values, fast_mode=True)
