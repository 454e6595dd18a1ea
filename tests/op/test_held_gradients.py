"""Construction-time tensors that require grad: no gradient reaches them, which is said."""

from __future__ import annotations

import pytest
import torch
from toys import body_op, tensor

from tileops.rope import LongRoPEFwdOp

TEXT = (
    "{}: {} requires grad, but no gradient reaches a tensor that was passed at construction; "
    "detach it, or call the op under torch.no_grad() for detached results"
)
HELD = {name: {"dtype": "T", "shape": "[*S]", "optional": True} for name in ("w", "b")}


def refuses(call, op, names="w"):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == TEXT.format(type(op).__name__, names)


def forward(self, x):
    return x + self.w


def ones(**kwargs):
    return torch.ones(2, **kwargs)


def in_many_ways(op, x):
    """The call is refused while gradients are recorded, whatever was called before."""
    for mode in (torch.no_grad, torch.inference_mode, torch.no_grad):
        refuses(lambda: op(x), op)
        with mode():
            assert not op(x).requires_grad
    refuses(lambda: op(x.to("meta")), op)
    refuses(lambda: op(x), op)


def test_op_with_a_boundary():
    op = body_op("Hold", {"x": tensor()}, {"y": tensor()}, forward, HELD)(ones(), None)
    assert op(ones()).tolist() == [2, 2]
    op.w = ones(requires_grad=True)
    in_many_ways(op, ones())
    report = op.explain(ones())
    assert str(report.error) == TEXT.format(op._name, "w")
    op.w = op.w.detach()
    assert op(ones()).tolist() == [2, 2]


def test_both_tensors_are_named():
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, forward, HELD)
    op = cls(ones(requires_grad=True), ones(requires_grad=True))
    refuses(lambda: op(ones()), op, "w, b")


def test_copy_in_the_dtype_of_the_call_does_not_hide_the_source():
    dtypes = {"forall": {"S": "Shape", "T": "DType[float16 | float32]"}}
    held = {"w": {"dtype": "coalesce_dtype(wide, T)", "shape": "[*S]"},
            "wide": {"type": "float32 | None", "default": None}}  # fmt: skip
    op = body_op("Hold", {"x": tensor()}, {"y": tensor()}, forward, held, dtypes)(
        ones(requires_grad=True)
    )
    in_many_ways(op, ones().half())
    assert op.w.dtype is torch.float16
    assert not op.w.is_inference()


def test_composite():
    inner = body_op("Inner", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1)
    stages = {"kind": "composite", "stages": [{"name": "part", "op": inner.__name__}]}
    cls = body_op(
        "Whole", {"x": tensor()}, {"y": tensor()},
        lambda self, x: self.delegate_for("part", None)(x + self.w), HELD, composition=stages,
    )  # fmt: skip
    cls.delegate_types = {"part": inner}
    in_many_ways(cls(ones(requires_grad=True), None), ones())


def test_compiled_call():
    op = body_op("Hold", {"x": tensor()}, {"y": tensor()}, forward, HELD)(
        ones(requires_grad=True), None
    )
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="w requires grad, but no gradient reaches a tensor"):
        compiled(ones())
    torch._dynamo.reset()
    with torch.no_grad():
        assert compiled(ones()).tolist() == [2, 2]
    torch._dynamo.reset()


def test_long_rope():
    op = LongRoPEFwdOp(rescale_factors=torch.ones(4, requires_grad=True))
    x = torch.randn(3, 8)
    refuses(lambda: op(x), op, "rescale_factors")
    with torch.no_grad():
        plain = op(x)
    detached = LongRoPEFwdOp(rescale_factors=torch.ones(4))
    assert torch.equal(detached(x), plain)


def test_copy_made_in_inference_mode_is_an_ordinary_tensor():
    """Else a later backward could not save it."""
    dtypes = {"forall": {"S": "Shape", "T": "DType[float16 | float32]"}}
    held = {"w": {"dtype": "coalesce_dtype(wide, T)", "shape": "[*S]"},
            "wide": {"type": "float32 | None", "default": None}}  # fmt: skip
    op = body_op("Hold", {"x": tensor()}, {"y": tensor()}, forward, held, dtypes)(ones())
    with torch.inference_mode():
        op(ones().half())
    assert op.w.dtype is torch.float16
    assert not op.w.is_inference()
