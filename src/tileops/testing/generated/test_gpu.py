"""Drawn calls on a CUDA device: values, gradients, and no wait of the host for the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tileops import Op
from tileops.testing.calling import (
    assert_close,
    class_of,
    expected,
    inputs,
    parameters,
    placed,
    reference,
)
from tileops.testing.drawing import DrawnCall
from tileops.testing.generated.test_gradients import assert_gradients, differentiable, gradients
from tileops.testing.refusals import served
from tileops.testing.serving import note

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _warns_of_waiting() -> Iterator[None]:
    """Sync warnings of an earlier test do not leak into the next."""
    yield
    torch.cuda.set_sync_debug_mode("default")


def on_gpu(call: DrawnCall) -> tuple[Op, dict[str, Tensor]]:
    """An instance, and the inputs of a call on the device."""
    params = parameters(call)
    if "device" in params:
        params["device"] = "cuda"
    op = class_of(call.op)(**params)
    note(op)
    return op, placed(call, "cuda")


def on_cpu(returned: Any) -> Any:
    """What a call returned, copied to the CPU."""
    if isinstance(returned, tuple):
        return tuple(map(on_cpu, returned))
    return None if returned is None else returned.cpu()


def test_values_on_the_gpu_equal_the_reference(op: str) -> None:
    for call in served(op, "cuda"):
        instance, given = on_gpu(call)
        wanted = expected(call, inputs(call))
        returned = on_cpu(instance(**given))
        assert_close(call, {name: t.cpu() for name, t in given.items()}, returned, wanted)


def test_gradients_on_the_gpu_agree_with_those_of_the_reference(op: str) -> None:
    for call in differentiable(op, "cuda"):
        instance, _ = on_gpu(call)
        wanted = gradients(call, reference(call), torch.float64)
        assert_gradients(call, gradients(call, instance, device="cuda"), wanted)


def test_a_warm_call_does_not_wait_for_the_gpu(op: str) -> None:
    for call in served(op, "cuda"):
        if call.params.get("validate_inputs"):
            continue  # the one parameter that asks for a wait
        instance, given = on_gpu(call)
        instance(**given)
        torch.cuda.set_sync_debug_mode("error")
        instance(**given)
        torch.cuda.set_sync_debug_mode("default")
