"""What outlives the call that builds it is as if that call ran in no mode of torch."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from toys import (
    AddCall,
    AddInterface,
    AddKernel,
    add_op,
    body_op,
    compiled,
    composite,
    pair,
    tensor,
)

from tileops import backend
from tileops._core import devices
from tileops._core.devices import building_on, made_to_last
from tileops._core.runtime.tracing import active_fake_mode
from tileops.kernels import CallSpec


class Counting(AddKernel):
    """Counts its launches in a tensor that it made at construction."""

    def __init__(self, call):
        super().__init__(call)
        self.count = torch.zeros(())

    def forward(self, x, y):
        return x * self.call.alpha + y + 0 * self.count.add_(1)


class Programmed(AddKernel):
    """Counts its launches in a tensor that its program made."""

    needs_tilelang = False

    def make_program(self, config):
        return torch.zeros(())

    def forward(self, x, y):
        return x * self.call.alpha + y + 0 * self.program().add_(1)


def served(part, build):
    """A composite that a target takes over whole."""
    cls = composite(part)
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build)
    return cls(target="east")


def scaling(x):
    factor = torch.full(x.shape, 3.0)
    return lambda x: x * factor


@pytest.mark.parametrize("kernel", [Counting, Programmed])
def test_kernel_built_in_inference_mode_runs_outside(kernel):
    op = add_op({"plain": kernel})()
    x, y = pair()
    with torch.inference_mode():
        op(x, y)
    assert torch.equal(op(x, y), x + y)


def test_target_s_kernel_built_in_inference_mode_is_differentiated_outside():
    op = served(add_op(), scaling)
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        op(x)
    op(x).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_sub_op_made_in_inference_mode_holds_ordinary_tensors():
    made = []

    class Holding:
        def forward(self, x):
            return x + made[0]

    part = body_op("Part", {"x": tensor()}, {"z": tensor()}, Holding.forward)
    own = part.__init__

    def init(self, *args, **kwargs):
        made.append(torch.zeros(()))
        own(self, *args, **kwargs)

    part.__init__ = init
    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()},
        lambda self, x: self.delegate_for("part", None)(x), composition=stages,
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    with torch.inference_mode():
        cls()(torch.ones(2))
    assert not made[0].is_inference()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, nullcontext])
def test_nothing_else_about_gradients_changes(mode):
    with mode():
        expected = torch.is_grad_enabled()
        with building_on(None):
            assert torch.is_grad_enabled() is expected
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled() is (mode is torch.inference_mode)
    with torch.inference_mode():
        (kept,) = made_to_last(torch.device("cpu"), lambda: [torch.ones(2)])
    assert not kept.is_inference()


def test_what_lasts_is_fake_under_a_fake_mode_on_a_machine_with_the_device(monkeypatch):
    """As without the device: no thread and no stream is asked."""
    monkeypatch.setattr(devices, "has_cuda", lambda device: True)
    with FakeTensorMode():
        (kept,) = made_to_last(torch.device("cuda", 0), lambda: [torch.ones(2, device="cuda:0")])
    assert isinstance(kept, FakeTensor)
    assert kept.device == torch.device("cuda", 0)


def test_modes_stay_as_they_were_where_entering_is_interrupted(monkeypatch):
    def interrupted(mode):
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "set_grad_enabled", interrupted)
    with torch.inference_mode(), FakeTensorMode() as mode:
        with pytest.raises(KeyboardInterrupt), building_on(None):
            pass
        assert torch.is_inference_mode_enabled()
        assert active_fake_mode() is mode


def mixed():
    """A composite with a kernel of its own, and so without a boundary."""
    part = add_op()

    def forward(self, x):
        call = AddCall(x.numel(), 1.0, x.dtype, device=x.device)
        z = self.kernel_for("add", call)(x, x)
        return self.delegate_for("part", None)(z, x)

    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    cls = body_op("Mixed", {"x": tensor()}, {"z": tensor()}, forward, composition=stages)
    cls.delegate_types = {"part": part}
    cls.kernel_types, cls.interfaces = {"counting": Counting}, {"add": AddInterface}
    return cls()


def test_kernel_built_under_a_fake_mode_holds_real_tensors():
    op = mixed()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        op(mode.from_tensor(torch.ones(3)))
    assert op(torch.ones(3)).tolist() == [3, 3, 3]


def test_compiler_that_meets_a_kernel_that_is_not_built_says_so():
    op = mixed()
    AddCall(1, 1.0, torch.float32)
    text = (
        f"{op._name}: interface 'add' has no kernel for this call yet, and a compiler cannot build "
        "one: call the op once before it is compiled"
    )
    with pytest.raises(Exception, match="call the op once before it is compiled") as caught:
        compiled(op)(torch.ones(3))
    assert text in str(caught.value)
    op(torch.ones(3))
    torch._dynamo.reset()
    assert compiled(op)(torch.ones(3)).tolist() == [3, 3, 3]


def test_compiler_that_meets_the_first_call_spec_of_a_class_says_so():
    @dataclass(frozen=True)
    class Unseen(CallSpec):
        n: int

    text = "a compiler meets the first Unseen: call the op once before it is compiled"
    with pytest.raises(Exception, match=text):
        compiled(lambda x: x + Unseen(2).n)(torch.ones(2))
    assert Unseen(2).n == 2


def under_fake_mode(op, x):
    with FakeTensorMode() as mode:
        return op(mode.from_tensor(x))


def symbolically(op, x):
    return make_fx(op, tracing_mode="symbolic")(x)


def exported(op, x):
    class Whole(torch.nn.Module):
        def forward(self, x):
            return op(x)

    return torch.export.export(Whole(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))


@pytest.mark.parametrize("trace", [under_fake_mode, symbolically, exported])
def test_trace_builds_no_kernel_of_a_target(trace):
    op = served(add_op(), scaling)
    op(torch.ones(3))
    with pytest.raises(RuntimeError) as caught:
        trace(op, torch.ones(4))
    assert str(caught.value) == (
        f"{op._name}: target 'east' has built no kernel for these shapes and dtypes, and a trace "
        "cannot: call the op once with such inputs before it is traced, and trace it without "
        "dynamic sizes"
    )
    assert op(torch.ones(4)).tolist() == [3] * 4


def test_mixed_precision_leaves_a_builder_of_a_composite_alone():
    found = []

    def build(x):
        found.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        return lambda x: x

    op = served(add_op(), build)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ValueError, match="shares"):
        op(torch.ones(3))
    assert found == [torch.float32]
