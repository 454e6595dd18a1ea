from __future__ import annotations

import threading

import pytest
import torch
from toys import add_kernel, add_op, body_op, pair, tensor

from tileops import backend
from tileops._core.op import calls
from tileops._core.op.state import _UNRESOLVED
from tileops.backend import BUILTIN

BINDING = ("_target_builder", "_serving_target", "_entries_by_call", "_built_entries",
           "_target_kernels")  # fmt: skip


def binding(op):
    return {name: getattr(op, name) for name in BINDING}


def is_unbound(op):
    tables = (op._entries_by_call, op._built_entries, op._target_kernels)
    return op._target_builder is _UNRESOLVED and op._serving_target is None and not any(tables)


class Trouble(Exception):
    pass


class Switch:
    """A body's fault that can be turned on and off."""

    def __init__(self):
        self.error = None

    def __call__(self):
        if self.error is not None:
            raise self.error


@pytest.fixture
def switch():
    return Switch()


@pytest.fixture
def failing(switch):
    """An addition whose kernel raises while the switch is on."""

    def forward(self, x, y):
        type(self).launched += 1
        switch()
        return x + y

    return add_op({"plain": add_kernel(forward=forward)})


def test_binding_faults_change_nothing(failing):
    op = failing()
    before = binding(op)
    with pytest.raises(TypeError):
        op(1)
    assert binding(op) == before
    assert calls._stack.frames == []


def test_failed_check_changes_nothing(failing):
    op = failing()
    with pytest.raises(ValueError, match=r"inputs.y"):
        op(torch.ones(2), torch.ones(3))
    assert is_unbound(op)
    assert calls._stack.frames == []


def test_failed_selection_changes_nothing():
    op = add_op()(target="nowhere")
    with pytest.raises(RuntimeError, match="not registered"):
        op(*pair())
    assert is_unbound(op)
    assert calls._stack.frames == []


def test_failed_selection_leaves_sub_ops_alone(failing):
    parent = composite(failing, lambda self, x: self.delegate_for("part", None)(x, x))
    op, part = parent(target="nowhere"), failing()
    op.delegate_for("part", None, part)
    part(*pair())
    before = binding(part)
    with pytest.raises(RuntimeError, match="not registered"):
        op(torch.ones(2))
    assert binding(part) == before
    assert part.serving_target == BUILTIN


def test_failing_call_takes_back_what_calls_inside_it_completed_on(switch):
    def forward(self, x, y):
        if len(x) == 2:
            op(x[:1], y[:1])
            raise Trouble
        return x + y

    op = add_op({"plain": add_kernel(forward=forward)})()
    with pytest.raises(Trouble):
        op(*pair(2))
    assert is_unbound(op)
    assert op._settled is None
    assert op.last_call.shape("x") == (1,)


def test_failing_call_keeps_what_one_that_ran_beside_it_settled():
    def forward(self, x, y):
        if len(x) == 2:
            thread = threading.Thread(target=lambda: op(x[:1], y[:1]))
            thread.start()
            thread.join(10)
            raise Trouble
        return x + y

    op = add_op({"plain": add_kernel(forward=forward)})()
    with pytest.raises(Trouble):
        op(*pair(2))
    assert op.serving_target == BUILTIN
    assert op._settled == ("builtin", None, op._target_kernels)
    assert len(op.built_entries("add")) == 2


def test_failing_call_takes_back_what_it_selected(failing, switch):
    op = failing()
    tables = binding(op)
    switch.error = Trouble()
    with pytest.raises(Trouble):
        op(*pair())
    assert is_unbound(op)
    for name in BINDING[2:]:
        assert binding(op)[name] is not tables[name]
    assert op._last_call is None
    assert calls._stack.frames == []


def test_failing_call_keeps_what_an_earlier_one_selected(failing, switch):
    op = failing()
    op(*pair(4))
    record, before = op.last_call, binding(op)
    switch.error = Trouble()
    with pytest.raises(Trouble):
        op(*pair(5))
    assert binding(op) == before
    assert len(op.built_entries("add")) == 2
    assert op.last_call is record


def test_failed_result_check_is_undone_too():
    op = body_op("Bad", {"x": tensor()}, {"y": tensor()}, lambda self, x: x[1:] + 1)()
    with pytest.raises(ValueError, match=r"outputs.y"):
        op(torch.ones(3))
    assert is_unbound(op)


def test_next_call_selects_again_and_may_select_otherwise(failing, switch):
    backend.register_detector(target="east", detect=lambda device: detected)
    backend.register_kernel_builder(
        op=failing.__name__, target="east", build_kernel=lambda *s, **p: lambda x, y: x - y
    )
    op, detected = failing(), False
    switch.error = Trouble()
    with pytest.raises(Trouble):
        op(*pair())
    detected = True
    x, y = pair()
    assert torch.equal(op(x, y), x - y)
    assert op.serving_target == "east"


def test_builder_that_raises_leaves_nothing_selected():
    cls = add_op()

    def build_kernel(*specs, **parameters):
        raise Trouble

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east")
    with pytest.raises(Trouble):
        op(*pair())
    assert is_unbound(op)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_change_nothing_and_leave_no_frame(failing, switch, interrupt):
    op = failing()
    switch.error = interrupt()
    with pytest.raises(interrupt):
        op(*pair())
    assert op.serving_target == BUILTIN
    assert len(op.built_entries("add")) == 1
    assert calls._stack.frames == []
    assert op._bind_lock.acquire(blocking=False)
    op._bind_lock.release()
    switch.error = None
    op(*pair())
    assert op.last_call is not None


def test_call_after_an_interrupted_one_settles_what_that_selected(failing, switch):
    op = failing()
    switch.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        op(*pair())
    switch.error = Trouble()
    with pytest.raises(Trouble):
        op(*pair())
    assert op._settled is None
    assert op.serving_target == BUILTIN
    switch.error = None
    op(*pair())
    assert op._settled == ("builtin", None, op._target_kernels)
    assert op.last_call is not None


@pytest.mark.parametrize("first", [True, False])
def test_target_is_named_although_its_selection_was_taken_back_meanwhile(first):
    op = add_op()(target="east")

    def kernel(x, y):
        if trouble:
            op._reset_binding()  # As another thread's call of a composite that holds the op does.
            raise trouble[0]
        return x + y

    def build(*specs, **parameters):
        return kernel

    trouble = []
    backend.register_kernel_builder(op=op._name, target="east", build_kernel=build)
    x, y = pair()
    if not first:
        op(x, y)
    trouble.append(Trouble())
    with pytest.raises(Trouble) as caught:
        op(x, y)
    assert caught.value.__notes__ == [f"in the kernel of target 'east' for {op._name}"]


def test_nothing_is_settled_that_was_taken_back_meanwhile(failing, switch, monkeypatch):
    op = failing()
    switch.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        op(*pair())
    monkeypatch.setattr(Switch, "__call__", lambda self: op._reset_binding())
    op(*pair())
    assert is_unbound(op)
    assert op._settled is None


def test_interrupt_in_a_builder():
    cls, stop = add_op(), [True]

    def build_kernel(*specs, **parameters):
        if stop.pop():
            raise KeyboardInterrupt
        return lambda x, y: x + y

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east")
    with pytest.raises(KeyboardInterrupt):
        op(*pair())
    assert op.serving_target == "east"
    assert op._target_kernels == {}
    assert calls._stack.frames == []
    stop.append(False)
    op(*pair())
    assert len(op._target_kernels) == 1


def composite(part, forward=None, stem="Outer"):
    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}

    def body(self, x):
        op = self.delegate_for("part", None)
        return op(x, x) if len(op._signature.input_names) == 2 else op(x)

    cls = body_op(stem, {"x": tensor()}, {"z": tensor()}, forward or body, composition=stages)
    cls.delegate_types = {"part": part}
    return cls


def test_undo_goes_down_two_levels(failing, switch):
    middle = composite(failing, stem="Middle")
    outer = composite(middle)()
    switch.error = Trouble()
    with pytest.raises(Trouble):
        outer(torch.ones(2))
    (inner,) = outer.held_delegates()
    (leaf,) = inner.held_delegates()
    for op in (outer, inner, leaf):
        assert is_unbound(op)
    assert calls._stack.frames == []
    switch.error = None
    outer(torch.ones(2))
    assert outer.held_delegates() == (inner,)


def test_sub_op_bound_earlier_is_reset_by_the_parent_s_undo(failing):
    trouble = Switch()

    def forward(self, x):
        result = self.delegate_for("part", None)(x, x)
        trouble()
        return result

    parent = composite(failing, forward)()
    part = parent.delegate_for("part", None)
    part(*pair())
    record = part.last_call
    trouble.error = Trouble()
    with pytest.raises(Trouble):
        parent(torch.ones(2))
    assert is_unbound(part)
    assert part.last_call is not record
    assert parent._last_call is None


def test_parent_that_catches_a_sub_op_s_failure_goes_on(failing, switch):
    def forward(self, x):
        try:
            return self.delegate_for("part", None)(x, x)
        except Trouble:
            return x * 9

    parent = composite(failing, forward)()
    switch.error = Trouble()
    assert parent(torch.ones(2)).tolist() == [9, 9]
    assert parent.serving_target == BUILTIN
    assert is_unbound(parent.held_delegates()[0])
    assert parent.last_call.stages == {"part": ()}


def test_undo_keeps_sub_ops_tuned_mode_and_the_last_record(failing, switch):
    parent = composite(failing)()
    parent(torch.ones(2))
    parent.request_tune()
    record = parent.last_call
    parent._reset_binding()
    assert parent.held_delegates()
    assert parent._tune_requested
    assert parent.last_call is record
    assert is_unbound(parent.held_delegates()[0])


def test_what_was_written_stays_written():
    def forward(self, x):
        x.add_(1)
        raise Trouble

    op = body_op("Writes", {"x": tensor(mutated=True)}, {"y": tensor(alias="x")}, forward)()
    x = torch.ones(2)
    with pytest.raises(Trouble):
        op(x)
    assert x.tolist() == [2, 2]


def test_failing_sub_op_call_in_an_outer_frame_reports_nothing(failing, switch):
    trouble = [True]

    def forward(self, x):
        part = self.delegate_for("part", None)
        if trouble.pop():
            switch.error = Trouble()
            with pytest.raises(Trouble):
                part(x, x)
            switch.error = None
        return part(x, x)

    parent = composite(failing, forward)()
    parent(torch.ones(2))
    assert len(parent.last_call.stages["part"]) == 1
