from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from toys import (
    AddCall,
    AddKernel,
    add_kernel,
    add_op,
    body_op,
    define,
    elsewhere,
    pair,
    spec,
    tensor,
)  # fmt: skip

from tileops import Op, SignatureError, backend
from tileops._core.dispatch import tuning

THREADS = 16
LIMIT = 20


def at_once(task, count=THREADS):
    """Run `task(n)` in `count` threads that start together; what each returned or raised."""
    start = threading.Barrier(count)

    def run(n):
        start.wait(LIMIT)
        try:
            return task(n)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return [future.result(LIMIT) for future in [pool.submit(run, n) for n in range(count)]]


def slow():
    threading.Event().wait(0.02)


def slow_kernel(**declared):
    class Slow(AddKernel):
        built = launched = 0

        def __init__(self, call):
            slow()
            super().__init__(call)

    return type("Slow", (Slow,), declared)


def test_first_calls_select_once_and_build_once():
    asked = []

    def detect(device):
        asked.append(device)
        slow()
        return False

    backend.register_detector(target="east", detect=detect)
    kernel = slow_kernel()
    op = add_op({"plain": kernel})(2.0)
    x, y = pair()
    results = at_once(lambda n: op(x, y))
    assert all(torch.equal(result, 2 * x + y) for result in results)
    assert len(asked) == 1
    assert kernel.built == 1


def test_first_calls_call_a_builder_once():
    cls, built = add_op(), []

    def build_kernel(*specs, **parameters):
        slow()
        built.append(specs)
        return lambda x, y: x - y

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east")
    x, y = pair()
    results = at_once(lambda n: op(x, y))
    assert all(torch.equal(result, x - y) for result in results)
    assert len(built) == 1


def test_one_new_shape_on_many_threads_is_built_once_by_a_target():
    cls, built = add_op(), []

    def build_kernel(*specs, **parameters):
        slow()
        built.append(specs)
        return lambda x, y: x - y

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east")
    op(*pair(3))
    results = at_once(lambda n: len(op(*pair(5))))
    assert results == [5] * THREADS
    assert len(built) == 2


class Meeting:
    """A kernel's body in which calls wait for each other; one fails where its `x` starts with 1."""

    def __init__(self, count):
        self.there, self.go = threading.Barrier(count + 1), threading.Event()

    def join(self, x, y):
        if not self.go.is_set():
            self.there.wait(LIMIT)
            assert self.go.wait(LIMIT)
        if x[0] == 1:
            raise OSError
        return x + y

    def run(self, op, firsts):
        """Call with each of `firsts` at once; what the calls gave, None where they failed."""
        ends = []

        def task(first):
            try:
                ends.append(op(torch.tensor([first]), torch.ones(1)).item())
            except OSError:
                ends.append(None)

        threads = [threading.Thread(target=task, args=(first,)) for first in firsts]
        for thread in threads:
            thread.start()
        self.there.wait(LIMIT)
        self.go.set()
        for thread in threads:
            thread.join(LIMIT)
        return ends


def counted_detection():
    """The devices that a detector, which claims none of them, is asked for."""
    asked = []

    def detect(device):
        asked.append(device)
        return False

    backend.register_detector(target="east", detect=detect)
    return asked


def meeting_op(count):
    meeting = Meeting(count)

    def forward(self, x, y):
        return meeting.join(x, y)

    kernel = add_kernel(forward=forward)
    return add_op({"plain": kernel})(), kernel, meeting


@pytest.mark.parametrize("firsts", [(1.0, 2.0, 3.0), (2.0, 3.0, 1.0), (2.0, 1.0, 1.0)])
def test_selection_stays_where_one_of_the_first_calls_completes(firsts):
    asked = counted_detection()
    op, kernel, meeting = meeting_op(3)
    ends = meeting.run(op, firsts)
    assert sorted(end for end in ends if end) == sorted(n + 1 for n in firsts if n != 1)
    assert op.serving_target == "builtin"
    assert op._settled == (None, op._target_kernels)
    assert op._unsettled_calls == {}
    assert (len(asked), kernel.built) == (1, 1)
    assert len(op.built_entries("add")) == 1


def test_selection_is_taken_back_where_all_first_calls_fail():
    asked = counted_detection()
    op, kernel, meeting = meeting_op(3)
    assert meeting.run(op, (1.0, 1.0, 1.0)) == [None] * 3
    assert op.serving_target is None
    assert not op.built_entries("add")
    assert op._unsettled_calls == {}
    assert op(torch.zeros(1), torch.ones(1)).item() == 1
    assert (len(asked), kernel.built) == (2, 2)


def test_selection_stays_while_another_of_the_first_calls_runs():
    entered, go, ends = threading.Event(), threading.Event(), []

    def forward(self, x, y):
        if x[0] == 1:
            late.start()
            assert entered.wait(LIMIT)
            raise OSError
        entered.set()
        assert go.wait(LIMIT)
        return x + y

    asked = counted_detection()
    op = add_op({"plain": add_kernel(forward=forward)})()
    late = threading.Thread(target=lambda: ends.append(op(torch.zeros(1), torch.ones(1)).item()))
    with pytest.raises(OSError):
        op(torch.ones(1), torch.ones(1))
    assert op.serving_target == "builtin"
    assert op._settled is None
    go.set()
    late.join(LIMIT)
    assert ends == [1]
    assert op._settled is not None
    assert len(asked) == 1


def test_call_that_starts_after_all_failed_selects():
    fail = [True]

    def forward(self, x, y):
        if fail and fail.pop():
            raise OSError
        return x + y

    asked = counted_detection()
    op = add_op({"plain": add_kernel(forward=forward)})()
    results = at_once(lambda n: op(*pair()))
    assert sum(isinstance(result, OSError) for result in results) == 1
    assert len(asked) in (1, 2)
    assert op.serving_target == "builtin"
    assert op._settled is not None


@pytest.mark.parametrize("served", [False, True])
def test_building_may_wait_for_another_thread_s_call_of_the_op(served):
    def calibrate(length):
        if length == 3:
            assert elsewhere(op, torch.ones(2), torch.ones(2)).tolist() == [2, 2]

    class Calibrated(AddKernel):
        def __init__(self, call):
            calibrate(call.n)
            super().__init__(call)

    def build_kernel(x, y, **parameters):
        calibrate(*x.shape)
        return lambda x, y: x + y

    cls = add_op({"plain": Calibrated})
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east" if served else "builtin")
    assert op(torch.ones(3), torch.ones(3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("served", [False, True])
def test_first_call_may_wait_for_another_thread_s_call_of_the_op(served):
    def compute(x, y):
        return x + y if len(x) == 2 else x + elsewhere(op, x[1:], y[1:])[0]

    cls = add_op({"plain": add_kernel(forward=lambda self, x, y: compute(x, y))})
    if served:
        build = {"build_kernel": lambda *specs, **parameters: compute}
        backend.register_kernel_builder(op=cls.__name__, target="east", **build)
    op = cls(target="east" if served else None)
    assert op(torch.ones(3), torch.ones(3)).tolist() == [3, 3, 3]
    assert op.serving_target == ("east" if served else "builtin")


def test_different_call_specs_are_built_once_each():
    kernel = slow_kernel()
    op = add_op({"plain": kernel})()
    op(*pair(1))
    results = at_once(lambda n: op(*pair(2 + n % 4)))
    assert [len(result) for result in results] == [2 + n % 4 for n in range(THREADS)]
    assert kernel.built == 5


def test_warm_call_does_not_wait_for_another_s_build():
    building, go = threading.Event(), threading.Event()

    class Waits(AddKernel):
        def __init__(self, call):
            if call.n == 7:
                building.set()
                go.wait(LIMIT)
            super().__init__(call)

    op = add_op({"plain": Waits})()
    op(*pair(3))
    cold = threading.Thread(target=lambda: op(*pair(7)))
    cold.start()
    assert building.wait(LIMIT)
    warm = threading.Thread(target=lambda: op(*pair(3)))
    warm.start()
    warm.join(LIMIT)
    assert not warm.is_alive()
    assert cold.is_alive()
    go.set()
    cold.join(LIMIT)


def test_tuning_request_during_a_build_leaves_no_kernel_untuned(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "time_launch", lambda launch, device: 1.0)
    kernel = slow_kernel(autotune_configs=({"tile": 1},))
    op = add_op({"plain": kernel})()

    def task(n):
        if n == 3:
            slow()
            op.request_tune()
        else:
            op(*pair(1 + n))

    at_once(task)
    op_kernels = list(op.iter_kernels())
    assert len(op_kernels) == THREADS - 1
    assert all(kernel._tuning_asked for kernel in op_kernels)


def composite(part):
    def forward(self, x):
        y = self.delegate_for("part", None)(x, x)
        return self.delegate_for("part", None)(y, x)

    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()}, forward,
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    return cls


def test_records_of_sub_ops_never_cross_threads(monkeypatch):
    cls = composite(add_op())
    op, records = cls(), {}
    known = cls._record

    def note(self, record, reports, frames):
        known(self, record, reports, frames)
        records[threading.get_ident()] = record

    monkeypatch.setattr(cls, "_record", note)

    def task(n):
        op(torch.ones(n + 1))
        mine = records[threading.get_ident()]
        return [record.shape("x") for record in mine.stages["part"]]

    assert at_once(task) == [[(n + 1,)] * 2 for n in range(THREADS)]
    assert len(op.held_delegates()) == 1


def test_shared_sub_op_under_concurrent_failures_never_deadlocks():
    def forward(self, x, y):
        if x.numel() % 3 == 0:
            raise OSError
        return x + y

    part = add_op({"plain": add_kernel(forward=forward)})
    shared, cls = part(), composite(part)
    parents = [cls() for _ in range(4)]
    for parent in parents:
        parent.delegate_for("part", None, shared)

    def task(n):
        outcomes = []
        for turn in range(12):
            try:
                parents[(n + turn) % 4](torch.ones(1 + (n + turn) % 6))
                outcomes.append(True)
            except OSError:
                outcomes.append(False)
        return outcomes

    for n, outcomes in enumerate(at_once(task)):
        assert outcomes == [(1 + (n + turn) % 6) % 3 != 0 for turn in range(12)]


def test_one_instance_with_many_shapes():
    op = add_op()(3.0)

    def task(n):
        for turn in range(40):
            x, y = pair(1 + (n * 7 + turn) % 25, seed=n)
            assert torch.equal(op(x, y), 3 * x + y)
        return True

    assert at_once(task) == [True] * THREADS
    assert len(op._entries_by_call) == 25


def test_delegate_is_built_once_however_many_ask():
    built = []

    def init(self, alpha=1.0, *, target=None):
        from tileops import Op

        slow()
        built.append(self)
        self.alpha = alpha
        Op.__init__(self, target=target)

    op = composite(add_op(__init__=init))()
    held = at_once(lambda n: op.delegate_for("part", None))
    assert len({id(sub) for sub in held}) == 1
    assert len(built) == 1


def test_kernel_for_from_many_threads_evicts_without_error(monkeypatch):
    from tileops._core.op import entries

    monkeypatch.setattr(entries, "MOST_CALL_SPECS", 8)
    op = add_op(
        {"plain": add_kernel(entry_for=classmethod(lambda cls, call: (0, lambda: cls(call))))}
    )()

    def task(n):
        for turn in range(200):
            spec = AddCall((n + turn) % 64, 1.0, torch.float32, device="cpu")
            assert op.kernel_for("add", spec) is not None
        return True

    assert at_once(task) == [True] * THREADS
    assert len(op._entries_by_call) <= 8
    assert len(op.built_entries("add")) == 1


@pytest.mark.parametrize("count", [16])
def test_keys_of_instances_made_at_once_are_distinct(count):
    cls = add_op()
    keys = [key for made in at_once(lambda n: [cls()._instance_key for _ in range(50)], count)
            for key in made]  # fmt: skip
    assert len(set(keys)) == 50 * count


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
    if request.param == "direct":
        cls.compile_op_names = ()
    return cls


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
