from __future__ import annotations

import copy
import gc

import pytest
import torch
from toys import define, spec, tensor, unique

from tileops import Op, OpNotAvailableError, manifest
from tileops.elementwise import SiluFwdOp

FORALL = {"forall": {"S": "Shape", "T": "DType[float32 | float64]"}}
ALPHA = {"alpha": {"type": "float", "default": 1.0}}


def init(self, alpha=1.0, *, target=None):
    self.alpha = alpha
    Op.__init__(self, target=target)


def backward_op(**members):
    """Gradients of `y = alpha * x * w`, `s = x + w`."""

    def forward(self, dy, ds, x, w):
        return self.alpha * dy * w + ds, self.alpha * dy * x + ds

    inputs = {name: tensor(contiguous=name == "dy") for name in ("dy", "ds", "x", "w")}
    declared = spec(inputs, {"dx": tensor(), "dw": tensor()}, ALPHA, FORALL)
    return define("Product", declared, __init__=init, forward=forward, **members)


def forward_op(backward, **outputs):
    def forward(self, x, w, out=None, k: int = 1):
        y = self.alpha * x * w
        return (y if out is None else out.copy_(y)), x + w

    declared = spec(
        {"x": tensor(), "w": tensor()},
        {"y": tensor(buffer="out"), "s": tensor()},
        ALPHA,
        FORALL,
        backward={
            "op": backward,
            "inputs": {"dy": "grad(y)", "ds": "grad( s )", "x": "x", "w": "w"},
            "outputs": {"dx": "x", "dw": "w"},
        },
    )
    return define("Product", declared, __init__=init, forward=forward)


@pytest.fixture
def op():
    backward = backward_op()
    op = forward_op(backward.__name__)(3.0)
    op.keeps_alive = backward
    return op


def leaves(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, generator=generator, dtype=dtype).requires_grad_() for _ in range(2)]


def test_loss_goes_backward_through_the_named_op(op):
    x, w = leaves()
    y, s = op(x, w)
    (y.sum() + 2 * s.sum()).backward()
    torch.testing.assert_close(x.grad, 3 * w.detach() + 2)
    torch.testing.assert_close(w.grad, 3 * x.detach() + 2)
    assert op._backward().last_call.present("dx")
    assert op._backward().alpha == 3.0


def test_unused_output_counts_as_zero(op):
    x, w = leaves()
    op(x, w)[0].sum().backward()
    torch.testing.assert_close(x.grad, 3 * w.detach())


def test_the_op_may_be_gone_when_the_gradient_is_computed():
    backward = backward_op()
    x, w = leaves()
    y, _ = forward_op(backward.__name__)(3.0)(x, w)
    gc.collect()
    y.sum().backward()
    torch.testing.assert_close(x.grad, 3 * w.detach())


def test_a_class_that_inherits_its_spec_passes_the_parameters_on():
    backward = backward_op()
    parent = forward_op(backward.__name__)
    child = type(unique("Child"), (parent,), {})
    x, w = leaves()
    child(3.0)(x, w)[0].sum().backward()
    torch.testing.assert_close(x.grad, 3 * w.detach())


def test_gradients_agree_with_differences(op):
    assert torch.autograd.gradcheck(op, leaves(torch.float64))


def test_compiled_loss_goes_backward(op):
    torch._dynamo.reset()
    function = torch.compile(lambda x, w: op(x, w)[0] * 2, fullgraph=True, backend="aot_eager")
    x, w = leaves()
    function(x, w).sum().backward()
    torch.testing.assert_close(x.grad, 6 * w.detach())
    torch._dynamo.reset()


def test_opcheck_with_gradients(op):
    name = next(name for name in op.compile_op_names if not name.endswith("_out"))
    overload = getattr(torch.ops.tileops, name.split("::")[1]).default
    torch.library.opcheck(overload, (*leaves(), 1, op._instance_key))


def test_calls_without_gradients_are_as_before(op):
    x, w = (leaf.detach() for leaf in leaves())
    assert not op(x, w)[0].requires_grad
    assert op._backward_op is None


def test_out_takes_no_gradient(op):
    x, w = leaves()
    with pytest.raises(RuntimeError, match="x, w requires grad, but the spec names no backward op"):
        op(x, w, torch.empty(4))
    with torch.no_grad():
        op(x, w, torch.empty(4))


def partial_op(dtypes="float32 | float64"):
    """An op with a gradient of `x` only, which its backward op takes in some dtypes."""

    def forward_of(self, x, w=None):
        return 2 * x if w is None else x + w

    given = {"forall": {"S": "Shape", "T": f"DType[{dtypes}]"}}
    declared = spec({"dy": tensor()}, {"dx": tensor()}, {}, given)
    backward = define("Partial", declared, forward=lambda self, dy: 2 * dy)
    declared = spec(
        {"x": tensor(), "w": tensor(optional=True)}, {"y": tensor()}, {}, FORALL,
        backward={
            "op": backward.__name__, "inputs": {"dy": "grad(y)"}, "outputs": {"dx": "x"}
        },
    )  # fmt: skip
    op = define("Partial", declared, forward=forward_of)()
    op.keeps_alive = backward
    return op


def test_outputs_whose_gradients_nothing_takes_require_none():
    backward = define(
        "Kept", spec({"dy": tensor(), "s": tensor()}, {"dx": tensor()}, {}, FORALL),
        forward=lambda self, dy, s: dy * s,
    )  # fmt: skip
    declared = spec(
        {"x": tensor()}, {"y": tensor(), "s": tensor()}, {}, FORALL,
        backward={
            "op": backward.__name__, "inputs": {"dy": "grad(y)", "s": "s"}, "outputs": {"dx": "x"}
        },
    )  # fmt: skip
    op = define("Kept", declared, forward=lambda self, x: (x.sin(), x.cos()))()
    (x, _) = leaves(torch.float64)
    y, s = op(x)
    assert y.requires_grad
    assert not s.requires_grad
    (y.sum() + s.sum()).backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert torch.autograd.gradcheck(lambda x: op(x)[0], [x])
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager")
    assert [part.requires_grad for part in compiled(x)] == [True, False]
    torch._dynamo.reset()


def test_inputs_without_a_gradient_are_refused():
    op, (x, w) = partial_op(), leaves()
    with pytest.raises(RuntimeError) as caught:
        op(x, w)
    assert str(caught.value) == (
        f"{type(op).__name__}: w requires grad, but {op.keeps_alive.__name__} gives no gradient of "
        "it; call it under torch.no_grad() for detached results"
    )
    op(x, w.detach()).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 2.0))


def test_the_function_of_torch_that_an_op_mirrors_is_named():
    with pytest.raises(RuntimeError) as caught:
        SiluFwdOp()(torch.ones(2, requires_grad=True))
    assert str(caught.value) == (
        "SiluFwdOp: input requires grad, but the spec names no backward op; call it under "
        "torch.no_grad() for detached results, or torch.nn.functional.silu, which it mirrors"
    )


def test_dtypes_without_a_gradient_are_refused():
    op, (x, _) = partial_op("float64"), leaves()
    with pytest.raises(RuntimeError) as caught:
        op(x)
    assert str(caught.value) == (
        f"{type(op).__name__}: x requires grad, but {op.keeps_alive.__name__} gives no gradient in "
        "float32; call it under torch.no_grad() for detached results"
    )
    op(x.detach().double().requires_grad_()).sum().backward()


def test_gradients_of_absent_inputs_are_left_out():
    backward = define(
        "Absent", spec({"dy": tensor()}, {"dx": tensor(), "dw": tensor()}, {}, FORALL),
        forward=lambda self, dy: (dy.clone(), dy.clone()),
    )  # fmt: skip
    declared = spec(
        {"x": tensor(), "w": tensor(optional=True)}, {"y": tensor()}, {}, FORALL,
        backward={
            "op": backward.__name__, "inputs": {"dy": "grad(y)"}, "outputs": {"dx": "x", "dw": "w"}
        },
    )  # fmt: skip
    op = define("Absent", declared, forward=lambda self, x, w=None: x * 1 if w is None else x + w)()
    (x, _) = leaves()
    op(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(4))


def test_second_derivatives_are_refused(op):
    x, w = leaves()
    with pytest.raises(RuntimeError) as caught:
        torch.autograd.grad(op(x, w)[0].sum(), x, create_graph=True)
    name = op._spec.backward.op
    assert str(caught.value) == (
        f"{type(op).__name__}: a second derivative goes through {name}, whose spec names no "
        "backward op; compute the gradient without create_graph=True"
    )


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_transforms_that_take_no_formula_are_refused(op, transform):
    x, w = (leaf.detach() for leaf in leaves())
    with pytest.raises(RuntimeError) as caught:
        transform(lambda x: op(x, w)[0].sum())(x)
    assert str(caught.value) == (
        f"{type(op).__name__}: torch.func cannot differentiate an op by x; call "
        "torch.autograd.grad or backward()"
    )
    kept = torch.func.grad(lambda x: (x * op(w, w)[0]).sum())(x)
    torch.testing.assert_close(kept, 3 * w * w)


def test_traced_transforms_that_take_no_formula_are_refused(op):
    torch._dynamo.reset()
    x, w = (leaf.detach() for leaf in leaves())
    traced = torch.compile(torch.func.grad(lambda x: op(x, w)[0].sum()), backend="eager")
    with pytest.raises(Exception, match="torch.func cannot differentiate an op by x; call"):
        traced(x)
    torch._dynamo.reset()


def test_exported_programs_have_gradients():
    """Of what the backward op gives; what it does not give is refused there, too."""

    class Whole(torch.nn.Module):
        def __init__(self, op):
            super().__init__()
            self.op = op

        def forward(self, x, w):
            return self.op(x, w)

    op, (x, w) = partial_op(), leaves()
    module = torch.export.export(Whole(op), (x.detach(), w.detach())).module()
    module(x, w.detach()).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="w requires grad, but .* gives no gradient of it"):
        module(x, w)
    with pytest.raises(RuntimeError, match="w requires grad, but .* gives no gradient of it"):
        module(x.detach(), w)


def test_compiled_autograd_traces_the_formula_of_an_eager_call(op):
    """Whole once the backward op is there; the first time the graph breaks where it is made."""
    x, w = leaves()
    for full in (False, True):
        x.grad = w.grad = None
        torch._dynamo.reset()
        compiler = torch.compile(backend="aot_eager", fullgraph=full)
        with torch._dynamo.compiled_autograd._enable(compiler):
            op(x, w)[0].sum().backward()
        torch.testing.assert_close(x.grad, 3 * w.detach())
    torch._dynamo.reset()


def test_backward_op_without_a_class():
    name = unique("Absent")
    manifest.register({name: spec({"dy": tensor()}, {"dx": tensor()})})
    declared = spec(
        {"x": tensor()}, {"y": tensor()},
        backward={"op": name, "inputs": {"dy": "grad(y)"}, "outputs": {"dx": "x"}},
    )  # fmt: skip
    op = define("Lonely", declared, forward=lambda self, x: x * 2)()
    y = op(torch.ones(2, requires_grad=True))
    with pytest.raises(OpNotAvailableError) as caught:
        y.sum().backward()
    assert str(caught.value) == (
        f"{type(op).__name__}: its gradients are computed by {name}, of which there is no class: "
        "import the package that defines it"
    )


def test_backward_op_shares_target_and_tuned_mode_and_is_not_copied(op):
    later = copy.copy(op)
    assert not later._backward()._tune_requested
    later.request_tune()
    assert later._backward()._tune_requested
    op.request_tune()
    assert op._backward()._tune_requested
    assert op._backward() is op._backward()
    assert copy.copy(op)._backward_op is None


def test_backward_op_gets_the_tensor_that_was_bound_not_a_call_s_copy():
    held = {
        "w": {"dtype": "coalesce_dtype(wide, T)", "shape": "[*S]"},
        "wide": {"type": "float64 | None", "default": None},
    }
    forall = {"forall": {"S": "Shape", "T": "DType[float16 | float64]"}}

    def init(self, w, wide=None, *, target=None):
        self.w, self.wide = w, wide
        Op.__init__(self, target=target)

    declared = spec({"dy": tensor()}, {"dx": tensor()}, held, forall)
    backward = define("Scaled", declared, __init__=init, forward=lambda self, dy: dy * self.w)
    fields = {"op": backward.__name__, "inputs": {"dy": "grad(y)"}, "outputs": {"dx": "x"}}
    declared = spec({"x": tensor()}, {"y": tensor()}, held, forall, backward=fields)
    cls = define("Scaled", declared, __init__=init, forward=lambda self, x: x * self.w)
    precise = torch.tensor([1.0 + 2.0**-30, 3.0], dtype=torch.float64)
    op = cls(precise)
    for dtype in (torch.float16, torch.float64):
        x = torch.ones(2, dtype=dtype, requires_grad=True)
        op(x).sum().backward()
        assert torch.equal(x.grad, precise.to(dtype))
