"""Calls of a kind seen before: one look-up in place of the check, and no promise given up."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import warnings
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from toys import add_op, body_op, define, pair, spec, tensor, warmed

from tileops import Op, SignatureError, backend
from tileops._core.op import kinds
from tileops._core.op.stack import _stack
from tileops._core.runtime import likeness
from tileops._core.runtime.likeness import never, unmade
from tileops.norm import RMSNormFwdOp


@pytest.fixture
def checks(monkeypatch):
    """Notes each run of a class's generated check."""
    ran = []

    def watch(cls):
        plan = cls._signature
        functions = plan._functions or plan._generated()

        def check(*args, **kwargs):
            ran.append(cls.__name__)
            return functions.check(*args, **kwargs)

        monkeypatch.setattr(plan, "_functions", functions._replace(check=check))
        return cls

    watch.ran = ran
    return watch


def test_second_call_of_a_kind_checks_nothing_anew(checks):
    op = checks(add_op())(2.0)
    for seed in range(3):
        x, y = pair(seed=seed)
        assert torch.equal(op(x, y), 2 * x + y)
    assert len(checks.ran) == 1


def test_records_of_one_kind_are_one_where_nothing_tells_them_apart():
    op = add_op()()
    op(*pair())
    first = op.last_call
    op(*pair())
    assert op.last_call is first
    op(*pair(7))
    assert op.last_call is not first


def test_instances_share_no_kind(checks):
    cls = checks(add_op())
    cls()(*pair())
    cls()(*pair())
    assert len(checks.ran) == 2


@pytest.fixture
def full():
    """An op with every sort of tensor whose form a check looks at."""

    def forward(self, x, acc, w=None, out=None):
        acc.add_(1)
        return x + 1 if out is None else out.copy_(x + 1)

    inputs = {
        "x": tensor(contiguous=True),
        "acc": tensor(mutated=True),
        "w": tensor(optional=True),
    }
    return body_op("Full", inputs, {"y": tensor(buffer="out")}, forward)


def ones(*shape, **kwargs):
    return torch.ones(shape, **kwargs)


def nested(item):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([item, item])


def test_each_kind_is_checked_once(full, checks):
    op = checks(full)()
    kinds = [
        (ones(2, 2), ones(2, 2)),
        (ones(2, 3), ones(2, 3)),
        (ones(2, 2).half(), ones(2, 2).half()),
        (ones(2, 2), ones(2, 2), ones(2, 2)),
        (ones(2, 2), ones(2, 4)[:, ::2]),
        (ones(2, 2), ones(2, 2), None, ones(2, 2)),
        (ones(2, 2), ones(2, 2), None, ones(4, 2)[::2]),
    ]
    for count, arguments in enumerate(kinds, 1):
        for _ in range(2):
            op(*arguments)
            assert len(checks.ran) == count
    assert len(op._known_calls) == len(kinds)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((ones(2, 3), ones(2, 2)), "inputs.acc.shape"),
        ((ones(2, 2), ones(2, 2).half()), "inputs.acc.dtype"),
        ((ones(2, 2), ones(2, 2), ones(3)), "inputs.w.shape"),
        ((ones(2, 2).t().t()[:, [0]].expand(2, 2), ones(2, 2)), "contiguous"),
        ((ones(2, 2), ones(1, 2).expand(2, 2)), "inputs.acc"),
        ((ones(2, 2), ones(2, 2), None, ones(2, 3)), "outputs.y"),
        ((ones(2, 2), ones(2, 2), None, ones(2, 2).half()), "outputs.y"),
        ((ones(2, 2), ones(2, 2), None, ones(1, 2).expand(2, 2)), "overlaps itself"),
        ((ones(2, 2), ones(2, 2, device="meta")), "meta"),
        ((ones(2, 2, dtype=torch.float64), ones(2, 2)), "inputs.x.dtype"),
    ],
)
def test_other_kinds_are_still_rejected(full, arguments, text):
    op = full()
    op(ones(2, 2), ones(2, 2), None, ones(2, 2))
    warmed(op, ones(2, 2), ones(2, 2))
    with pytest.raises(SignatureError, match=text):
        op(*arguments)


def test_buffer_that_shares_storage_is_rejected_on_a_known_kind(full):
    op = full()
    x, acc, out = ones(2, 2), ones(2, 2), ones(2, 2)
    op(x, acc, None, out)
    for other, name in ((x, "x"), (acc, "acc")):
        with pytest.raises(SignatureError, match=f"shares storage with {name}"):
            op(x, acc, None, other)
    op(x, acc, None, out)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x,
        lambda x: x[:],
        lambda x: x.half(),
        lambda x: (x + 1)[1:],
        lambda x: (x + 1,),
        lambda x: None,
        lambda x: torch.ones(x.numel() * 2)[::2],
        lambda x: torch.empty(x.shape, device="meta"),
    ],
)
def test_results_are_judged_on_every_call(wrong):
    wrongs = []
    op = body_op(
        "Judged", {"x": tensor()}, {"y": tensor()},
        lambda self, x: wrongs[0](x) if wrongs else x + 1,
    )()  # fmt: skip
    x = ones(4)
    warmed(op, x)
    record = op.last_call
    wrongs.append(wrong)
    with pytest.raises(SignatureError, match="outputs"):
        op(x)
    assert op.last_call is record


def test_subclasses_of_tensor_are_results_where_one_was_passed():
    class Marked(torch.Tensor):
        pass

    op = body_op("Same", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1)()
    for _ in range(2):
        assert op(ones(2).as_subclass(Marked)).tolist() == [2, 2]
        assert op(ones(2)).tolist() == [2, 2]


def test_results_may_be_empty_while_something_is_written():
    op = body_op(
        "Tail", {"x": tensor(mutated=True)}, {"y": {"dtype": "T", "shape": "[0]"}},
        lambda self, x: x.add_(1)[:0].clone(),
    )()  # fmt: skip
    for _ in range(2):
        assert op(ones(3)).numel() == 0


def test_metadata_is_that_of_the_call():
    op = body_op(
        "Meta",
        {"x": tensor(shape="[N]"),
         "ids": {"dtype": "int32", "shape": "[N]", "values": "full((N,), 0)"}},
        {"y": tensor(shape="[N]")},
        lambda self, x, ids: x + 1,
        None,
        {"forall": {"N": "Dim", "T": "DType[float32]"}},
        workloads=[{"N": 3, "dtype_cases": [{"T": "float32"}], "label": "row"}],
    )()  # fmt: skip
    for n in range(3):
        ids = torch.full((2,), n, dtype=torch.int32)
        op(ones(2), ids)
        assert op.last_call.metadata["ids"] is ids


def test_op_whose_device_may_come_from_the_process_is_checked_each_time(checks):
    op = checks(
        body_op(
            "Maybe", {"x": tensor(optional=True)}, {"y": {"dtype": "float32", "shape": "[2]"}},
            lambda self, x=None: ones(2), None,
            {"forall": {"S": "Shape", "T": "DType[float32]"}},
            workloads=[{"some": ["x"], "S": [2], "dtype_cases": [{"T": "float32"}],
                        "label": "row"}],
        )
    )()  # fmt: skip
    op(ones(3))
    op(ones(3))
    assert len(checks.ran) == 2
    assert op._known_calls == {}


def test_kinds_are_bounded(monkeypatch):
    monkeypatch.setattr(kinds, "MOST_KINDS", 8)
    op = add_op()()
    for n in range(1, 30):
        op(*pair(n))
    assert len(op._known_calls) == 8
    op(*pair(1))


def test_traced_calls_leave_no_kind_behind(full):
    op = add_op()()
    with FakeTensorMode() as mode:
        x = mode.from_tensor(ones(3))
        op(x, x)
    torch.compile(op, fullgraph=True, backend="eager", dynamic=True)
    assert op._known_calls == {}
    branching = full()
    with FakeTensorMode() as mode:
        x, acc = mode.from_tensor(ones(2, 2)), mode.from_tensor(ones(2, 2))
        branching(x, acc)
        branching(x, acc, None, mode.from_tensor(ones(2, 2)))
    assert branching._effect_branches == {}


def test_kinds_from_many_threads(monkeypatch):
    monkeypatch.setattr(kinds, "MOST_KINDS", 4)
    op = add_op()(3.0)
    faults = []

    def task(n):
        for turn in range(60):
            x, y = pair(1 + (n + turn) % 9, seed=turn)
            if not torch.equal(op(x, y), 3 * x + y):
                faults.append((n, turn))

    threads = [threading.Thread(target=task, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not faults
    assert len(op._known_calls) <= 4


def test_warm_calls_take_no_lock():
    op, results = add_op()(2.0), []
    x, y = pair()
    op(x, y)
    with op._bind_lock, op._build_lock:
        thread = threading.Thread(target=lambda: results.append(op(x, y)), daemon=True)
        thread.start()
        thread.join(5)
    assert torch.equal(results[0], 2 * x + y)


def test_results_of_targets_are_judged_on_every_call():
    cls, wrongs = add_op(), []
    backend.register_kernel_builder(
        op=cls.__name__,
        target="careless",
        build_kernel=lambda *specs, **params: lambda x, y: wrongs[0](x) if wrongs else x + y,
    )
    op = cls(target="careless")
    op(*pair())
    op(*pair())
    wrongs.append(lambda x: x[:])
    with pytest.raises(SignatureError, match=r"shares it with x; the kernel of target 'careless'"):
        op(*pair())


@pytest.fixture
def many():
    """An op with a new output, one in a buffer, one in a written input and one that is absent."""
    answers = []

    def forward(self, x, acc, out=None):
        acc.add_(1)
        new, buffered = x + 1, x + 2 if out is None else out.copy_(x + 2)
        right = {"a": new, "b": buffered, "c": acc, "d": None}
        right |= answers[0](x, acc, out) if answers else {}
        return tuple(right.values())

    outputs = {
        "a": tensor(),
        "b": tensor(buffer="out"),
        "c": tensor(alias="acc"),
        "d": tensor(nullable="wanted"),
    }
    params = {"wanted": {"type": "bool", "default": False}}
    op = body_op("Many", {"x": tensor(), "acc": tensor(mutated=True)}, outputs, forward, params)()
    return op, answers


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda x, acc, out: {"a": x}, "shares it with x"),
        (lambda x, acc, out: {"a": acc[:]}, "shares it with acc"),
        (lambda x, acc, out: {"a": (x + 1).to_sparse()}, "layout sparse_coo"),
        (lambda x, acc, out: {"a": nested(x)}, "nested"),
        (lambda x, acc, out: {"a": (x + 1).half()}, "float16"),
        (lambda x, acc, out: {"b": x + 1} if out is not None else {"b": None}, "outputs.b"),
        (lambda x, acc, out: {"c": acc.clone()}, "outputs.c.alias"),
        (lambda x, acc, out: {"d": x + 1}, "outputs.d"),
        (lambda x, acc, out: {"e": x + 1}, "expected 4 results, got 5"),
    ],
)
def test_every_output_is_judged_on_a_known_kind(many, buffered, wrong, text):
    op, answers = many
    arguments = [ones(4), ones(4), *([ones(4)] if buffered else [])]
    for _ in range(4):
        assert [r is None for r in op(*arguments)] == [False, False, False, True]
    answers.append(wrong)
    with pytest.raises(SignatureError, match=text):
        op(*arguments)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ones(2, 2).to_sparse(), "layout sparse_coo"),
        (nested(ones(2)), "nested"),
        (None, "required"),
        (3.0, "expected a tensor"),
    ],
)
def test_arguments_that_no_kernel_takes_are_refused_on_a_known_kind(value, text):
    op = body_op("Plain", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1)()
    warmed(op, ones(2, 2))
    with pytest.raises(SignatureError, match=text):
        op(value)


def seen(op):
    """Whether the latest call's kind and results are told by a look."""
    return [
        test not in (never, unmade) for test in (op._latest_kind.admits, op._latest_kind.fulfils)
    ]


def test_calls_in_a_row_are_told_by_a_look_and_others_by_their_key():
    op = add_op()(2.0)
    for n, expected in ((3, [True, True]), (5, [True, True])):
        x, y = pair(n)
        assert torch.equal(warmed(op, x, y)(x, y), 2 * x + y)
        assert seen(op) == expected
    kind = op._latest_kind
    for turn in range(6):
        x, y = pair(3 + turn % 2, seed=turn)
        assert torch.equal(op(x, y), 2 * x + y)
    assert seen(op) == [False, False]
    assert (kind.admits, kind.fulfils) == (never, never)


def test_a_look_does_not_outlive_the_form_of_the_tensors():
    op = body_op("Form", {"x": tensor()}, {"y": tensor()}, lambda self, x: x.contiguous() + 1)()
    x = ones(2, 2)
    warmed(op, x)
    for other in (ones(2, 4)[:, ::2], torch.nn.Parameter(x, requires_grad=False), ones(2, 2).t()):
        for _ in range(4):
            assert torch.equal(op(other), other + 1)
    x.resize_(3)
    assert op(x.fill_(1)).tolist() == [2, 2, 2]
    with torch.inference_mode():
        assert op(ones(2, 2)).tolist() == [[2, 2], [2, 2]]


def test_result_that_requires_grad_is_refused_where_no_gradient_is_recorded():
    given = []
    op = body_op(
        "Leaf", {"x": tensor()}, {"y": tensor()}, lambda self, x: given[0] if given else x + 1
    )()
    with torch.no_grad():
        warmed(op, ones(2))
        given.append(ones(2, requires_grad=True))
        with pytest.raises(SignatureError, match="outputs.y"):
            op(ones(2))


def test_tensor_that_appears_or_vanishes_is_another_kind(full):
    op = full()
    warmed(op, ones(2, 2), ones(2, 2))
    warmed(op, ones(2, 2), ones(2, 2), ones(2, 2))
    warmed(op, ones(2, 2), ones(2, 2))
    assert [op.last_call.present(name) for name in ("x", "acc", "w")] == [True, True, False]
    assert len(op._known_calls) == 2


def test_calls_are_told_by_their_keys_where_torch_has_no_such_test(monkeypatch):
    monkeypatch.setattr(likeness, "TensorGuards", None)
    op = add_op()(2.0)
    x, y = pair()
    assert torch.equal(warmed(op, x, y)(x, y), 2 * x + y)
    assert op._latest_kind.admits is never


def test_tensors_of_other_types_are_told_by_their_keys():
    class Marked(torch.Tensor):
        pass

    op = add_op()(2.0)
    x, y = (item.as_subclass(Marked) for item in pair())
    assert torch.equal(warmed(op, x, y)(x, y), 2 * x + y)
    assert op._latest_kind.admits is never


def test_calls_of_a_kind_leave_the_stack():
    op = add_op()()
    warmed(op, *pair())
    assert _stack.frames == []
    op(*pair(7))
    first = op.last_call
    op(*pair())
    assert op.last_call is not first


def test_every_call_of_a_kind_is_reported_to_the_op_around_it():
    part = add_op()

    def init(self, *, target=None):
        Op.__init__(self, target=target)
        self.delegate_for("add", None)

    def forward(self, x):
        return self.delegate_for("add", None)(x, x)

    stages = [{"name": "add", "op": part.__name__}]
    declared = spec({"x": tensor()}, {"y": tensor()}, composition={
        "kind": "composite", "stages": stages,
    })  # fmt: skip
    op = define("Around", declared, delegate_types={"add": part}, __init__=init, forward=forward)()
    for _ in range(4):
        op(ones(2))
        assert len(op.last_call.stages["add"]) == 1


def test_call_of_a_known_kind_in_which_an_op_calls_fails():
    stray, calls_now = add_op()(), []
    op = body_op(
        "Sudden", {"x": tensor()}, {"y": tensor()},
        lambda self, x: stray(x, x) if calls_now else x + 1,
    )()  # fmt: skip
    warmed(op, ones(2))
    calls_now.append(True)
    with pytest.raises(RuntimeError, match="does not hold it"):
        op(ones(2))
    assert _stack.frames == []


def test_what_tells_a_kind_keeps_no_tensor():
    op = add_op()(2.0)
    x, y = pair()
    result = warmed(op, x, y)(x, y)
    kept = [weakref.ref(tensor) for tensor in (x, y, result)]
    del x, y, result
    assert [reference() for reference in kept] == [None, None, None]


def test_gradients_are_left_out_where_none_is_wanted():
    op = RMSNormFwdOp((4,))
    x, weight = ones(2, 4), ones(4, requires_grad=True)
    with torch.no_grad():
        assert not op(x, weight).requires_grad
        assert not op(x, weight).requires_grad
    assert op(x, weight).requires_grad
    assert not op(x, weight.detach()).requires_grad


STRANGE = {
    "None": (lambda: None, "expected a tensor, got None"),
    "number": (lambda: 3, "expected a tensor, got 3 (int)"),
    "sparse": (lambda: torch.ones(2).to_sparse(), "expected a strided tensor"),
    "lazy": (torch.nn.UninitializedBuffer, "expected a tensor with a shape"),
}


@pytest.mark.parametrize("which", STRANGE)
@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_held_and_no_ordinary_tensor_is_refused_by_the_check(which, earlier, out, whole):
    make, fault = STRANGE[which]
    held = {"w": tensor(contiguous=True)}

    def forward(self, x, out=None):
        return x + self.w if out is None else torch.add(x, self.w, out=out)

    outputs = {"y": tensor(buffer="out")}
    stages = [{"name": "add", "op": add_op().__name__}]
    composition = {"composition": {"kind": "composite", "stages": stages}} if whole else {}
    op = body_op("Hold", {"x": tensor()}, outputs, forward, held, **composition)(torch.ones(2))
    arguments = {"out": torch.empty(2)} if out else {}
    if earlier:
        op(torch.ones(2), **arguments)
    op.w = make()
    with pytest.raises(SignatureError, match=re.escape(f"params.w: bound anew, {fault}")):
        op(torch.ones(2), **arguments)
    op.w = torch.full((2,), 5.0)
    assert op(torch.ones(2), **arguments).tolist() == [6, 6]


def test_importing_ops_loads_no_compiler():
    program = "import sys, tileops.norm; print({'sympy', 'torch._dynamo'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_calls_of_many_threads_leave_autograd_as_it_was():
    op, found = RMSNormFwdOp((4,)), []

    def task():
        # Threads that share a leaf can lock torch up, by any autograd function in Python.
        weight = torch.nn.Parameter(ones(4))
        for _ in range(50):
            with torch.no_grad():
                op(ones(2, 4), weight)
            found.append(op(ones(2, 4), weight).requires_grad and (weight * 2).requires_grad)

    threads = [threading.Thread(target=task) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [True] * 200


def test_failing_call_leaves_autograd_as_it_was():
    op, weight = RMSNormFwdOp((4,)), torch.nn.Parameter(ones(4))
    with pytest.raises(SignatureError), torch.no_grad():
        op(ones(2, 5), weight)
    assert (weight * 2).requires_grad
    assert op(ones(2, 4), weight).requires_grad
