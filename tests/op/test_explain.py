from __future__ import annotations

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from toys import AddCall, AddInterface, add_kernel, add_op, body_op, define, pair, spec, tensor

from tileops import backend
from tileops._core.dispatch.facts import USUAL
from tileops._core.op.explain import explain_elsewhere
from tileops._core.op.fakes import indexed
from tileops.errors import (
    DispatchError,
    OpNotAvailableError,
    SignatureError,
    UnknownTargetError,
    candidate_lines,
)


def state(op):
    return {name: (value, repr(value)) for name, value in vars(op).items()}


def kernels():
    refuse = classmethod(lambda cls, call: None if call.n < 4 else "n must be below 4")
    return {
        "plain": add_kernel(general=True),
        "small": add_kernel(refusal=refuse),
        "tile": add_kernel(devices={"cuda"}),
    }


def test_served_call():
    op = add_op(kernels())(2.0)
    before = state(op)
    report = op.explain(*pair(6))
    assert (report.op, report.device) == (type(op).__name__, torch.device("cpu"))
    assert (report.target, report.rule) == ("builtin", "detection")
    assert (report.end, report.error) == (None, None)
    (asked,) = report.interfaces
    assert asked.interface == "add"
    assert asked.candidates == (
        ("plain", "AddKernel", "accepted"),
        ("small", "AddKernel", "n must be below 4"),
        ("tile", "AddKernel", "runs on cuda, not on cpu"),
    )
    assert asked.key == "plain"
    assert asked.identity == AddCall(6, 2.0, torch.float32, device="cpu")
    assert asked.config is None
    assert state(op) == before
    assert all(kernel.built == 0 for kernel in type(op).kernel_types.values())


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_gradients_and_tangents_that_a_call_would_refuse():
    op, (x, y) = add_op(kernels())(2.0), pair(2)
    report = op.explain(x, y.requires_grad_())
    assert str(report.error).startswith(f"{op._name}: y requires grad, but the spec names no back")
    with torch.no_grad():
        assert op.explain(x, y).error is None
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        report = op.explain(torch.autograd.forward_ad.make_dual(x, x), y)
    assert str(report.error).startswith(f"{op._name}: x carries a tangent")


def test_text_of_a_report():
    op = add_op(kernels())(2.0)
    name = type(op).__name__
    assert str(op.explain(*pair(2))).splitlines() == [
        f"{name} on cpu: served by builtin (no target claims the device)",
        "  add: device=device(type='cpu'), n=2, alpha=2.0, dtype=torch.float32",
        "    plain (AddKernel): accepted",
        "    small (AddKernel): accepted",
        "    tile (AddKernel): runs on cuda, not on cpu",
        "    chosen: small; identity AddCall(device=device(type='cpu'), n=2, alpha=2.0, "
        "dtype=torch.float32); config not built yet",
    ]


def test_configuration_is_told_once_the_entry_is_built():
    op = add_op({"plain": add_kernel(default_config={"tile": 3})})()
    op(*pair())
    report = op.explain(*pair())
    assert report.rule == "an earlier call"
    assert report.interfaces[0].config == {"tile": 3}


def test_ambiguous_and_unserved_calls_end_with_their_error():
    op = add_op({"a": add_kernel(), "b": add_kernel()})()
    report = op.explain(*pair())
    assert isinstance(report.error, DispatchError)
    assert report.interfaces[0].key is None
    assert "refused: " in str(report)
    op = add_op({"tile": add_kernel(devices={"cuda"})})()
    assert isinstance(op.explain(*pair()).error, OpNotAvailableError)


def test_candidates_read_alike_in_errors_and_reports():
    kernels = {
        "far": add_kernel(devices={"cuda"}),
        "picky": add_kernel(refusal=classmethod(lambda cls, call: f"wants more than {call.n}")),
    }
    op = add_op(kernels)()
    with pytest.raises(DispatchError) as caught:
        op(*pair())
    report = op.explain(*pair())
    lines = [
        "far (AddKernel): runs on cuda, not on cpu",
        f"picky (AddKernel): wants more than {pair()[0].numel()}",
    ]
    assert candidate_lines(caught.value.candidates) == lines
    assert candidate_lines(report.interfaces[0].candidates) == lines
    for line in lines:
        assert f"\n  {line}\n" in str(caught.value)
        assert str(report).count(line) == 1


def test_call_that_the_signature_or_the_selection_refuses():
    op = add_op()()
    assert isinstance(op.explain(torch.ones(2), torch.ones(3)).error, SignatureError)
    assert isinstance(op.explain(torch.ones(2)).error, SignatureError)
    assert op.explain(torch.ones(2)).target is None
    assert isinstance(add_op()(target="nowhere").explain(*pair()).error, UnknownTargetError)


def test_fault_of_an_implementation_is_the_refusal():
    op = add_op({"plain": add_kernel(entry_for=classmethod(lambda cls, call: None))})()
    report = op.explain(*pair())
    assert isinstance(report.error, TypeError)
    assert report.end is None


def test_target_served_call():
    cls, built = add_op(), []
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=built.append)
    report = cls(target="east").explain(*pair())
    assert (report.target, report.rule) == ("east", "constructor")
    assert report.end == (
        "the target has a builder for the whole op, which may refuse the call: it is not asked"
    )
    assert (report.steps, built) == ((), [])
    backend.set_default_target("east")
    assert cls().explain(*pair()).rule == "process default"


def test_empty_write():
    report = add_op()().explain(torch.empty(0), torch.empty(0))
    assert report.end == "no implementation runs: every tensor that the call writes is empty"


def two_kernels(middle):
    def forward(self, x, y):
        call = AddCall(x.numel(), 1.0, x.dtype, device=x.device)
        first = self.kernel_for("add", call)(x, y)
        return middle(self, first, x, y)

    return add_op(forward=forward)()


def test_body_is_followed_past_results_that_decide_nothing():
    def middle(self, first, x, y):
        half = (first.view(2, -1) * 2 + x.view(2, -1)).contiguous()
        torch.add(half, 1)
        call = AddCall(x.shape[0] + 1, 1.0, x.dtype, device=x.device)
        return self.kernel_for("add", call)(half[0], y)

    report = two_kernels(middle).explain(*pair())
    assert [asked.call.n for asked in report.interfaces] == [6, 7]
    assert report.end is None


@pytest.mark.parametrize(
    "middle",
    [
        lambda self, first, x, y: x if first.sum() > 0 else y,
        lambda self, first, x, y: self.kernel_for(
            "add", AddCall(first.numel(), 1.0, x.dtype, device=x.device)
        )(x, y),
        lambda self, first, x, y: [*first],
        lambda self, first, x, y: range(first),
    ],
)
def test_body_that_needs_a_result_ends_the_report(middle):
    report = two_kernels(middle).explain(*pair())
    assert len(report.interfaces) == 1
    assert report.error is None
    assert report.end == "the body cannot be followed further without the result of a kernel"


def test_body_that_needs_contents_ends_the_report():
    op = body_op("Item", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + x[0].item())()
    assert op.explain(torch.ones(2)).end.startswith("the body cannot be followed further: ")


def test_entry_answers_what_its_interface_answers_by_itself():
    class Sized(AddInterface):
        @classmethod
        def parts(cls, call):
            return 2

    kernel = type("K", (add_kernel(), Sized), {})

    def forward(self, x, y):
        call = AddCall(x.numel(), 1.0, x.dtype, device=x.device)
        entry = self.kernel_for("add", call)
        parts = entry.parts(call)
        self.kernel_for("add", AddCall(parts, 1.0, x.dtype, device=x.device))
        return entry.buffers(x)

    op = add_op({"plain": kernel}, interfaces={"add": Sized}, forward=forward)()
    report = op.explain(*pair())
    assert [asked.call.n for asked in report.interfaces] == [6, 2]
    assert "without the result of a kernel" in report.end


def composite(part):
    return define(
        "Outer",
        spec(
            {"x": tensor()},
            {"z": tensor()},
            composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
        ),
        delegate_types={"part": part},
        forward=lambda self, x: self.delegate_for("part", x.shape[0])(x, x) * 2,
    )


def test_composite_is_followed_into_its_sub_ops():
    op = composite(add_op(kernels()))()
    before = state(op)
    report = op.explain(torch.ones(6))
    (stage,) = report.steps
    assert stage.stage == "part"
    assert stage.report.interfaces[0].key == "plain"
    assert report.end is None
    assert state(op) == before
    assert op.held_delegates() == ()
    assert "  stage part:" in str(report).splitlines()


def test_refusal_of_a_sub_op_is_the_composite_s():
    op = composite(add_op({"a": add_kernel(), "b": add_kernel()}))()
    report = op.explain(torch.ones(2))
    assert isinstance(report.error, DispatchError)
    assert report.steps[0].report.error is report.error


def test_fake_tensors_of_another_device():
    with FakeTensorMode():
        x = torch.empty(4, 4, device="cuda:0")
        report = add_op({"plain": add_kernel()})().explain(x, x)
    assert report.device == torch.device("cuda:0")
    assert isinstance(report.error, OpNotAvailableError)


def test_meta_tensors_end_with_the_check():
    inner = add_op(kernels())
    x = torch.empty(4, device="meta")
    report = inner().explain(x, x)
    assert (report.device, report.steps, report.error) == (torch.device("meta"), (), None)
    assert report.end == "no implementation runs: a call on meta tensors ends with its check"
    (stage,) = composite(inner)().explain(x).steps
    assert stage.report.end == report.end


def test_execution_arguments_reach_the_body():
    seen = []

    def forward(self, x, out=None, k: int = 1):
        seen.append((x, out, k))
        return x

    op = body_op("Args", {"x": tensor()}, {"y": tensor(buffer="out")}, forward)()
    out = torch.zeros(2)
    assert op.explain(torch.ones(2), out, k=5).error is None
    assert seen[0][2] == 5
    assert type(seen[0][1]).__name__ == "FakeTensor"
    assert out.tolist() == [0, 0]


def test_what_a_body_keeps_in_a_container_stays_in_the_report():
    def body(self, x, y):
        for kept in (self.table, self.nested["line"][0]):
            kept.setdefault("twice", 2 * x)
        return self.table["twice"] + y

    inputs = {"x": tensor(), "y": tensor()}
    op = body_op("Keeping", inputs, {"z": tensor()}, body)()
    op.table, op.nested = {}, {"line": [{}]}
    op.nested["self"] = op.nested
    x, y = pair(3)
    report = op.explain(x, y)
    assert (report.end, report.error) == (None, None)
    assert (op.table, op.nested["line"]) == ({}, [{}])
    assert torch.equal(op(x, y), 2 * x + y)


def test_a_call_on_a_device_that_is_not_here():
    op = add_op({"plain": add_kernel(general=True), "tile": add_kernel(devices={"cuda"})})(2.0)
    before = state(op)
    with FakeTensorMode():
        x, y = (torch.empty(6, device="cuda:0") for _ in range(2))
    report = explain_elsewhere(op, USUAL["sm_80"], {"x": x, "y": y})
    assert (report.device, report.error) == (torch.device("cuda:0"), None)
    (asked,) = report.interfaces
    assert asked.key == "tile"
    assert (asked.call.arch, asked.call.sm_count, asked.call.smem_budget) == (80, 108, 163 << 10)
    assert state(op) == before


def test_indexing_by_functions_gives_the_same_views():
    tensor = torch.arange(120).view(4, 5, 3, 2)
    parts = (None, ..., 1, -1, slice(None), slice(1, 3), slice(0, None, 2))
    for count in (1, 2, 3):
        for items in itertools.product(parts, repeat=count):
            if items.count(...) < 2:
                found, wanted = indexed(tensor, items), tensor[items]
                assert torch.equal(found, wanted)
                assert found.stride() == wanted.stride()


@pytest.mark.parametrize("first", [None, 0, ..., torch.tensor([0])], ids=str)
def test_a_body_indexes_and_asks_for_addresses(first):
    def forward(self, x):
        assert x[first].device == x.device
        assert x.data_ptr() % 256 == 0
        return x + 1

    op = body_op("Fakes", {"x": tensor()}, {"y": tensor()}, forward)()
    report = op.explain(torch.ones(4))
    assert (report.end, report.error) == (None, None)
