"""Construction-time tensors that calls move and convert, and that are bound while calls run."""

from __future__ import annotations

import copy

import pytest
import torch
from toys import THREADS, at_once, body_op, define, direct, elsewhere, slow, spec, tensor

from tileops import Op, SignatureError, backend


@pytest.fixture(params=["operator", "direct"])
def converting(request):
    """An op that multiplies by a held tensor, which each call converts to its own dtype."""

    def init(self, scale, wide=None, *, target=None):
        self.scale, self.wide = scale, wide
        Op.__init__(self, target=target)

    def forward(self, x):
        self.during(x)
        return x * self.scale

    dtypes = ("float16", "float64")
    declared = spec(
        {"x": tensor(shape="[*S, C]")},
        {"y": tensor(shape="[*S, C]")},
        {
            "scale": {"dtype": "coalesce_dtype(wide, T)", "shape": "[C]"},
            "wide": {"type": "float64 | None", "default": None},
        },
        {"forall": {"S": "Shape", "C": "Dim", "T": "DType[float16 | float64]"}},
        workloads=[
            {"S": [2], "C": 3, "dtype_cases": [{"T": name} for name in dtypes], "label": "row"}
        ],
    )
    cls = define("Converting", declared, __init__=init, forward=forward, during=lambda *_: slow())
    return direct(cls) if request.param == "direct" else cls


@pytest.mark.parametrize("warm", [False, True])
def test_call_has_its_own_held_tensor_whatever_others_convert(converting, warm):
    precise = torch.tensor([1.0 + 2.0**-30, 3.0], dtype=torch.float64)
    op, seen = converting(precise), []
    half, double = torch.ones(1, 2).half(), torch.ones(1, 2).double()
    if warm:
        op(double)
        op(half)
        op(half)

    def during(self, x):
        if x.dtype is torch.float16:
            assert torch.equal(elsewhere(op, double), precise[None])
            seen.append((self.scale.dtype, elsewhere(lambda: op.scale).dtype))

    converting.during = during
    assert op(half).tolist() == [[1, 3]]
    assert seen == [(torch.float16, torch.float64)]
    assert op.scale.dtype is torch.float64


def test_held_tensors_of_calls_within_calls(converting):
    outer, inner = converting(torch.ones(2).double()), converting(torch.ones(2).double())
    seen = []

    def during(self, x):
        if self is outer:
            inner(x.double())
        else:
            seen.append((outer.scale.dtype, inner.scale.dtype))

    converting.during = during
    with pytest.raises(RuntimeError, match="does not hold it"):
        outer(torch.ones(1, 2).half())
    assert seen == [(torch.float16, torch.float64)]


def test_tensor_that_is_bound_before_the_check_counts(converting, monkeypatch):
    op, known = converting(torch.ones(2).double()), converting._checked

    def checked(self, tensors, held):
        elsewhere(lambda: setattr(op, "scale", torch.full((2,), 5.0).double()) is None)
        return known(self, tensors, held)

    monkeypatch.setattr(converting, "_checked", checked)
    assert op(torch.ones(1, 2).half()).tolist() == [[5, 5]]
    assert op.scale.tolist() == [5, 5]


def test_checks_that_convert_a_held_tensor_take_turns(converting, monkeypatch):
    op, plan = converting(torch.ones(2).double()), converting._signature
    known, now, most = plan.check, [], []

    def check(*args):
        now.append(None)
        slow()
        most.append(len(now))
        now.pop()
        return known(*args)

    monkeypatch.setattr(plan, "check", check)
    results = at_once(lambda n: op(torch.ones(n + 1, 2).double()).sum().item())
    assert results == [2 * (n + 1) for n in range(THREADS)]
    assert set(most) == {1}


def test_body_that_binds_a_held_tensor_reads_what_it_bound(converting):
    op = converting(torch.ones(2).double())

    def during(self, x):
        self.scale = torch.full((2,), 5.0).double()

    converting.during = during
    assert op(torch.ones(1, 2).double()).tolist() == [[5, 5]]
    assert op.scale.tolist() == [5, 5]


def test_held_tensor_of_a_class_with_a_slot_or_a_default(converting):
    class Slotted(converting):
        __slots__ = ("scale",)

    class Default(converting):
        scale = 7

    for cls in (Slotted, Default):
        op = cls(torch.full((2,), 3.0).double())
        assert op(torch.ones(1, 2).half()).tolist() == [[3, 3]]
        assert copy.deepcopy(op)(torch.ones(1, 2).half()).tolist() == [[3, 3]]


@pytest.mark.parametrize("step", ["_recall", "_join"])
def test_kernel_that_was_built_for_an_older_tensor_is_not_kept(converting, step, monkeypatch):
    """A target bakes the tensor in; another is bound after the step that finds out about it."""
    built = []

    def build_kernel(x, scale, wide):
        built.append(scale)
        return lambda x: x * scale

    backend.register_kernel_builder(
        op=converting.__name__, target="east", build_kernel=build_kernel
    )
    op, known = converting(torch.ones(2).double(), target="east"), getattr(converting, step)
    x, five = torch.ones(1, 2).double(), torch.full((2,), 5.0).double()
    if step == "_recall":
        op(x)
    built.clear()

    def late(self, *args):
        monkeypatch.setattr(converting, step, known)
        found = known(self, *args) if step == "_recall" else args
        elsewhere(lambda: setattr(op, "scale", five) is None)
        return found if step == "_recall" else known(self, *args)

    monkeypatch.setattr(converting, step, late)
    ends = [op(x).tolist() for _ in range(3)]
    assert ends[0] in ([[1, 1]], [[5, 5]])
    assert ends[1:] == [[[5, 5]]] * 2
    assert len(built) == (1 if ends[0] == ends[1] else 2)


def test_call_that_comes_while_a_tensor_is_bound_leaves_no_kernel_of_the_old_one(monkeypatch):
    held = {"scale": {"dtype": "T", "shape": "[*S]", "device": "cpu"}}
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x * self.scale, held)
    build = {"build_kernel": lambda x, scale: lambda x: x * scale}
    backend.register_kernel_builder(op=cls.__name__, target="east", **build)
    op, x, known = cls(torch.ones(2), target="east"), torch.ones(2), cls._forget
    op(x)

    def forget(self):
        known(self)
        assert elsewhere(op, x).shape == x.shape

    monkeypatch.setattr(cls, "_forget", forget)
    op.scale = torch.full((2,), 5.0)
    assert op(x).tolist() == [5, 5]


def test_calls_that_convert_a_held_tensor_never_meet(converting):
    precise = torch.tensor([1.0 + 2.0**-30, 3.0], dtype=torch.float64)
    op = converting(precise)
    kinds = ((torch.float16, "cpu"), (torch.float64, "cpu"), (torch.float64, "meta"))

    def task(n):
        for turn in range(3):
            dtype, device = kinds[(n + turn) % 3]
            y = op(torch.ones(2, 2, dtype=dtype, device=device))
            assert (y.dtype, y.device.type) == (dtype, device)
            assert device == "meta" or torch.equal(y, precise.to(dtype).expand(2, 2))
        return True

    assert at_once(task) == [True] * THREADS
    for dtype, device in kinds:
        y = op(torch.ones(1, 2, dtype=dtype, device=device))
        assert device == "meta" or torch.equal(y, precise.to(dtype).expand(1, 2))
        assert (op.scale.dtype, op.scale.device.type) == (dtype, device)


def test_failing_call_that_converts_a_held_tensor_lets_the_others_go_on(converting):
    op = converting(torch.ones(2, dtype=torch.float64))

    def task(n):
        dtype = (torch.float16, torch.float64)[n // 2 % 2]
        return op(torch.ones(1, 2 + n % 2, dtype=dtype))

    results = at_once(task)
    assert all(torch.is_tensor(result) for result in results[::2])
    assert all(isinstance(result, SignatureError) for result in results[1::2])


def test_held_tensor_is_converted_whenever_it_is_bound():
    def init(self, scale, wide=None, *, target=None):
        self.scale, self.wide = scale, wide
        Op.__init__(self, target=target)

    declared = spec(
        {"x": tensor(shape="[*S, C]")},
        {"y": tensor(shape="[*S, C]")},
        {
            "scale": {"dtype": "coalesce_dtype(wide, T)", "shape": "[C]"},
            "wide": {"type": "float64 | None", "default": None},
        },
        {"forall": {"S": "Shape", "C": "Dim", "T": "DType[float16 | float64]"}},
        workloads=[{"S": [2], "C": 3, "dtype_cases": [{"T": "float64"}], "label": "row"}],
    )
    cls = define("Scaled", declared, __init__=init, forward=lambda self, x: x * self.scale)
    wide = torch.tensor([1.0, 3.0], dtype=torch.float64)
    op, x = cls(wide), torch.ones(2, 2).half()
    for _ in range(3):
        assert op(x).tolist() == [[1, 3], [1, 3]]
        assert op.scale.dtype is torch.float16
        op.scale = wide
    op.scale = wide + 1
    assert op(x).tolist() == [[2, 4], [2, 4]]
