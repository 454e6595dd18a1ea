"""Drawn calls on a CUDA device: values, and no wait of the host for the device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tileops import Op
from tileops.testing.calling import assert_close, class_of, expected, inputs, parameters, results
from tileops.testing.drawing import DrawnCall, drawn

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
    return class_of(call.op)(**params), {n: t.cuda() for n, t in inputs(call).items()}


def test_values_on_the_gpu_equal_the_reference(op: str) -> None:
    for call in drawn(op):
        instance, given = on_gpu(call)
        wanted = expected(call, inputs(call))
        returned = tuple(None if r is None else r.cpu() for r in results(instance(**given)))
        assert_close(call, returned, wanted)


def test_a_warm_call_does_not_wait_for_the_gpu(op: str) -> None:
    for call in drawn(op):
        if call.params.get("validate_inputs"):
            continue  # the one parameter that asks for a wait
        instance, given = on_gpu(call)
        instance(**given)
        torch.cuda.set_sync_debug_mode("error")
        instance(**given)
        torch.cuda.set_sync_debug_mode("default")
