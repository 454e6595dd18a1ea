from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import pytest
import torch
from toys import (
    LIMIT,
    THREADS,
    AddCall,
    AddKernel,
    add_kernel,
    add_op,
    at_once,
    composite,
    elsewhere,
    pair,
    slow,
)

from tileops import backend
from tileops._core.dispatch import tuning
from tileops.kernels import CallSpec


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
    assert op._settled == ("builtin", None, op._target_kernels)
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


def test_records_of_sub_ops_never_cross_threads(monkeypatch):
    cls = composite(add_op())
    op, records = cls(), {}
    known = cls._record

    def note(self, record, *others):
        known(self, record, *others)
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


@pytest.fixture
def quick_switches():
    saved = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(saved)


@pytest.mark.usefixtures("quick_switches")
def test_first_call_specs_of_a_class_are_alike():
    """The methods of the class are replaced in the middle of it."""
    for _ in range(60):

        @dataclass(frozen=True)
        class First(CallSpec):
            n: int
            scale: float = 2.0

        def look(_):
            one, two = First(3, device="cpu"), First(3, device="cpu")
            return one.table_key, hash(one), one == two, one.n, one.scale

        found = set(at_once(look, 8))
        assert len(found) == 1, found
