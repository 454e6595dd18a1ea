"""What `inspect` shows of an op: the parameters that its spec declares, and not `*args`."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor
from toys import add_op, body_op, tensor

from tileops import ops


def shown(function: object) -> str:
    return str(inspect.signature(function)).replace("torch.Tensor", "Tensor")


def test_class_shows_its_constructor():
    parameters = inspect.signature(ops.RMSNormFwdOp).parameters
    assert list(parameters) == ["normalized_shape", "eps", "target"]
    assert parameters["eps"].default is None
    assert parameters["target"].kind is inspect.Parameter.KEYWORD_ONLY


def test_instance_and_its_call_show_the_tensors():
    expected = "(x: Tensor, weight: Tensor | None = None) -> Tensor"
    op = ops.RMSNormFwdOp([4])
    assert shown(op) == shown(op.__call__) == expected
    assert shown(ops.RMSNormFwdOp.__call__) == expected.replace("(", "(self, ", 1)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (ops.LayerNormBwdOp, tuple[Tensor, Tensor | None, Tensor]),
        (ops.FusedMoEExpertsFwdOp, None),
        (ops.MeanPoolingFwdOp, Tensor),
    ],
)
def test_result_is_a_tensor_a_tuple_or_none(cls, expected):
    assert inspect.signature(cls.__call__).return_annotation == expected


def test_buffer_and_execution_arguments_are_shown():
    def forward(self, x, out=None, k: int = 1, *, m: str = ""):
        return x.clone()

    outputs = {"y": {**tensor(), "buffer": "out"}}
    cls = body_op("Shown", {"x": tensor()}, outputs, forward)
    expected = "(self, x: Tensor, out: Tensor | None = None, k: int = 1, *, m: str = '') -> Tensor"
    assert shown(cls.__call__) == expected


def test_call_written_by_hand_stays():
    class Own(ops.RMSNormFwdOp):
        def __call__(self, x: Tensor) -> Tensor:
            return super().__call__(x) * 2

    assert shown(Own.__call__) == "(self, x: 'Tensor') -> 'Tensor'"
    assert torch.equal(Own([2])(torch.ones(1, 2)), ops.RMSNormFwdOp([2])(torch.ones(1, 2)) * 2)


def test_every_class_shows_its_own():
    first, second = add_op(), ops.RMSNormFwdOp
    assert first.__call__ is not second.__call__
    assert first.__call__.__code__ is second.__call__.__code__
    assert first.__call__.__doc__ == second.__call__.__doc__ != None  # noqa: E711
