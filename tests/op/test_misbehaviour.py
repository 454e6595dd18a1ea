"""What others do wrong during a call: raise at any step, return junk, call back, fork, hold."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from test_copies import CopiedAddFwdOp
from toys import AddCall, AddKernel, add_op, body_op, pair, tensor

from tileops import backend
from tileops._core.op import calls, composite
from tileops._core.op.state import _UNRESOLVED
from tileops.errors import BackendError, SignatureError

LIMIT = 20


class Trouble(Exception):
    pass


def outer(part, stages=("part",), forward=None):
    def body(self, x):
        return self.delegate_for("part", None)(x, x)

    listed = [{"name": name, "op": part.__name__} for name in stages]
    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()}, forward or body,
        composition={"kind": "composite", "stages": listed},
    )  # fmt: skip
    cls.delegate_types = dict.fromkeys(stages, part)
    return cls


def served(build_kernel, cls=None):
    cls = cls or add_op()
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    return cls(target="east")


STEPS = {
    "check": lambda op: (type(op)._signature, "check"),
    "empty write": lambda op: (calls, "writes_nothing"),
    "selection": lambda op: (type(op), "_selection"),
    "body": lambda op: (type(op), "forward"),
    "result": lambda op: (type(op)._signature, "check_result"),
    "filing": lambda op: (type(op), "_filed"),
    "record": lambda op: (type(op), "_record"),
}


@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt])
@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_raises(monkeypatch, step, earlier, error):
    """The state after a failure, for a call that selects and for one that finds a selection."""
    op = outer(add_op())()
    x = torch.ones(3)
    if earlier:
        op(x)
    record, target = op._last_call, op.serving_target

    def fail(*args, **kwargs):
        raise error

    before_selection = step in {"check", "empty write", "selection"}
    with monkeypatch.context() as patch:
        patch.setattr(*STEPS[step](op), fail)
        if step == "check":
            op._known_calls.clear()
        if step == "result":
            patch.setattr(type(op), "_call_entry", replace(type(op)._call_entry, fits=fail))
        if earlier and step == "selection":
            op(x)  # nothing is selected twice
            return
        with pytest.raises(error):
            op(x)
    assert op._last_call is record
    assert calls._stack.frames == []
    selected_now = not earlier and not before_selection
    undone = selected_now and error is Trouble
    if undone or (not earlier and before_selection):
        assert op.serving_target is None
        assert op._target_builder is _UNRESOLVED
        assert all(part.serving_target is None for part in op.held_delegates())
    else:
        assert op.serving_target == "builtin"
        assert earlier is False or target == "builtin"
    for lock in (op._bind_lock, op._build_lock):
        with ThreadAttempt(lock) as free:
            assert free
    assert op(x).tolist() == [2, 2, 2]
    assert op.last_call is not record


class ThreadAttempt:
    """Whether another thread can take a lock now."""

    def __init__(self, lock):
        self.lock, self.free = lock, False

    def __enter__(self):
        thread = threading.Thread(target=self._try)
        thread.start()
        thread.join(LIMIT)
        return self.free

    def _try(self):
        self.free = self.lock.acquire(blocking=False)
        if self.free:
            self.lock.release()

    def __exit__(self, *exc):
        return None


@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt])
def test_step_of_an_empty_write_raises(monkeypatch, error):
    op, empty = add_op()(), torch.empty(0)
    with monkeypatch.context() as patch:
        patch.setattr(calls, "empty_result", lambda *args: (_ for _ in ()).throw(error))
        with pytest.raises(error):
            op(empty, empty)
    assert calls._stack.frames == []
    assert op._target_builder is _UNRESOLVED
    op(empty, empty)


def test_op_that_calls_itself_fails_and_is_undone():
    def forward(self, x):
        return self(x) if depth.pop() else x + 1

    depth = [False, True]
    op = body_op("Self", {"x": tensor()}, {"y": tensor()}, forward)()
    with pytest.raises(RuntimeError, match="which does not hold it"):
        op(torch.ones(2))
    assert op.serving_target is None
    assert calls._stack.frames == []


def test_endless_recursion_ends_in_the_plain_error():
    op = body_op("Endless", {"x": tensor()}, {"y": tensor()}, lambda self, x: self(x))()
    with pytest.raises(RecursionError):
        op(torch.ones(2))
    assert op.serving_target is None
    assert calls._stack.frames == []


def test_factory_that_has_another_entry_built_loses_neither():
    class Nested(AddKernel):
        @classmethod
        def entry_for(cls, call):
            def build():
                if call.n == 6:
                    op.kernel_for("add", AddCall(5, 1.0, torch.float32, device="cpu"))
                return cls(call)

            return call, build

    op = add_op({"plain": Nested})()
    op.kernel_for("add", AddCall(6, 1.0, torch.float32, device="cpu"))
    assert [call.n for _, call in op.built_entries("add")] == [5, 6]


@pytest.mark.parametrize(
    "junk", [{}, "text", 3, object(), iter(()), (torch.ones(6),) * 2, [None], [[]], ()]
)
def test_kernel_of_a_target_that_returns_junk(junk):
    op = served(lambda *specs, **params: lambda x, y: junk)
    with pytest.raises(SignatureError, match=r"outputs.z"):
        op(*pair())
    assert op.serving_target is None


class Marked(torch.Tensor):
    pass


def of_inference_mode(x):
    with torch.inference_mode():
        return x + 1


STRANGE = {
    "gradient": (
        lambda x, y: (x + y).requires_grad_(),
        "expected a tensor without a gradient, got one that requires grad",
    ),
    "parameter": (
        lambda x, y: torch.nn.Parameter(x + y, requires_grad=False),
        "expected a plain tensor, got a Parameter",
    ),
    "subclass": (
        lambda x, y: (x + y).as_subclass(Marked), "expected a plain tensor, got a Marked",
    ),
    "negated": (
        lambda x, y: torch._neg_view(x + y),
        "expected its values, got a lazily negated tensor",
    ),
    "inference mode": (
        lambda x, y: of_inference_mode(x), "expected an ordinary tensor, got one of inference mode",
    ),
    "view": (
        lambda x, y: x.view_as(y), "expected storage of its own, got a tensor that shares it with x"
    ),
    "another shape": (
        lambda x, y: x[1:] + 1, "the implementation returned (5,), expected (6,)",
    ),
    "several": (lambda x, y: (x, y), "expected a tensor, got a sequence of 2"),
}  # fmt: skip


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("which", STRANGE)
def test_kernel_of_a_target_that_returns_a_strange_tensor(which, again):
    kernel, text = STRANGE[which]
    kernels = [lambda x, y: x + y, kernel] if again else [kernel]

    def run(x, y):
        return kernels.pop(0)(x, y)

    op = served(lambda *specs, **params: run)
    if again:
        op(*pair())
    with pytest.raises(SignatureError) as caught:
        op(*pair())
    assert (
        str(caught.value)
        .splitlines()[0]
        .endswith(f"{text}; the kernel of target 'east' returned it")
    )
    assert str(caught.value).startswith(f"{op._name} (call): outputs.z")
    assert caught.value.op == op._name


def test_kernel_of_a_target_that_returns_a_lazily_conjugated_tensor():
    kind = {"signature": {"forall": {"S": "Shape", "T": "DType[complex64]"}}}
    cls = body_op("Conj", {"x": tensor()}, {"y": tensor()}, lambda self, x: x.conj(), **kind)
    op = served(lambda *specs, **params: lambda x: x.clone().conj(), cls)
    with pytest.raises(SignatureError, match="expected its values, got a lazily conjugated tensor"):
        op(torch.ones(2, dtype=torch.complex64))


def test_body_that_returns_a_tensor_that_requires_grad():
    bad = add_op(forward=lambda self, x, y: (x + y).requires_grad_())()
    whole = outer(add_op(), forward=lambda self, x: (x + 1).requires_grad_())()
    for op, inputs in ((bad, pair()), (whole, pair()[:1])):
        with pytest.raises(SignatureError, match="expected a tensor without a gradient"):
            op(*inputs)
    passed = outer(add_op(), forward=lambda self, x: x + 1)()
    assert passed(torch.ones(2, requires_grad=True)).requires_grad


def test_builder_that_returns_the_op_itself():
    op = served(lambda *specs, **params: op)
    with pytest.raises(RecursionError) as caught:
        op(*pair())
    assert caught.value.__notes__ == [f"in the kernel of target 'east' for {op._name}"]
    assert op.serving_target is None
    assert calls._stack.frames == []


def test_builder_that_registers_and_presets_disturbs_no_selection():
    def build(*specs, **params):
        backend.register_detector(target="west", detect=lambda device: True)
        backend.set_default_target("west")
        return lambda x, y: x + y

    op = served(build)
    op(*pair())
    assert op.serving_target == "east"


def test_kernel_that_writes_its_copy_of_an_input_leaves_the_caller_s_alone():
    op = served(lambda *specs, **params: lambda x, y: x.mul_(0) + y)
    x = torch.ones(3, 2).t()
    op(x, torch.ones(2, 3))
    assert x.tolist() == [[1, 1, 1]] * 2


def test_kernel_that_resizes_what_it_writes():
    for inputs, outputs, forward in (
        ({"x": tensor()}, {"y": tensor(buffer="out")}, lambda self, x, out=None: out.resize_(5)),
        ({"x": tensor(mutated=True)}, {"y": tensor(alias="x")}, lambda self, x: x.resize_(5)),
    ):
        op = body_op("Resize", inputs, outputs, forward)()
        given = (torch.ones(2), torch.empty(2)) if "buffer" in outputs["y"] else (torch.ones(2),)
        with pytest.raises(SignatureError, match=r"outputs.y.shape"):
            op(*given)


def test_detector_whose_answer_is_no_truth_value():
    backend.register_detector(target="east", detect=lambda device: torch.ones(2))
    op = add_op()()
    with pytest.raises(BackendError, match="the detector of target 'east' failed on cpu"):
        op(*pair())
    assert op.serving_target is None


class End(BaseException):
    """Is no interrupt, and left alone like one."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, End])
def test_detector_that_is_interrupted_changes_nothing(error):
    stop = [True]

    def detect(device):
        if stop.pop():
            raise error
        return False

    backend.register_detector(target="east", detect=detect)
    op = add_op()()
    with pytest.raises(error):
        op(*pair())
    assert op._target_builder is _UNRESOLVED
    stop.append(False)
    op(*pair())
    assert op.serving_target == "builtin"


def test_detector_that_registers_another_while_it_is_asked():
    def detect(device):
        if not asked:
            asked.append(device)
            backend.register_detector(target="west", detect=lambda device: False)
        return False

    asked = []
    backend.register_detector(target="east", detect=detect)
    add_op()()(*pair())
    assert backend.registered_targets() == ("east", "west")


class Sealed(Exception):
    """Takes no attributes."""

    def __setattr__(self, name, value):
        raise AttributeError(name)


def test_exception_that_takes_no_note_passes_all_the_same():
    def build(*specs, **params):
        raise Sealed("mine")

    op = served(build)
    with pytest.raises(Sealed, match="mine"):
        op(*pair())
    assert op.serving_target is None


def test_two_ops_that_take_each_other_in_at_once(monkeypatch):
    """One of them is refused; neither waits for ever, and no cycle comes about."""
    base = outer(add_op(), ("part", "other"))
    known, meet = composite.paths_down, threading.Barrier(2)

    def slow(start):
        paths = list(known(start))
        with suppress(threading.BrokenBarrierError):
            meet.wait(0.2)
        return iter(paths)

    monkeypatch.setattr(composite, "paths_down", slow)
    first, second = base(), base()
    outcomes = []

    def take_in(op, given):
        try:
            outcomes.append(op.delegate_for("part", None, given) is given)
        except ValueError as error:
            outcomes.append("cannot hold an op that is or holds this one" not in str(error))

    threads = [
        threading.Thread(target=take_in, args=ops, daemon=True)
        for ops in ((first, second), (second, first))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(outcomes) == [False, True]


def test_attribute_that_leads_back_to_the_op_is_copied_and_pickled():
    op = CopiedAddFwdOp(injected={})
    op.injected["op"] = op
    for new in (copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert new is not op
        assert new.injected["op"] is new


def test_pickling_tries_attributes_once_a_level_however_deep_ops_are_nested():
    class Counted:
        def __reduce__(self):
            seen.append(self)
            return (int, ())

    seen = []
    op = CopiedAddFwdOp(injected=[Counted()])
    for _ in range(8):
        op = CopiedAddFwdOp(injected=[op])
    pickle.dumps(op)
    assert len(seen) == 10


def test_copies_made_while_the_op_is_called_for_the_first_time():
    cls = add_op()
    failed = []

    def run(op):
        try:
            op(*pair())
        except Exception as error:
            failed.append(error)

    for _ in range(30):
        op = cls(2.0)
        thread = threading.Thread(target=run, args=(op,))
        thread.start()
        for _ in range(5):
            assert copy.deepcopy(op).alpha == 2.0
        thread.join(LIMIT)
    assert failed == []


def test_child_forked_in_a_body_calls_ops_as_before():
    part = add_op()

    def forward(self, x):
        pid = os.fork()
        if pid == 0:
            fine = part()(x, x).tolist() == [2, 2]
            os._exit(0 if fine else 1)
        assert os.waitpid(pid, 0)[1] == 0
        return x + 1

    op = body_op("Forks", {"x": tensor()}, {"y": tensor()}, forward)()
    assert op(torch.ones(2)).tolist() == [2, 2]


def test_instances_alive_at_exit_say_nothing():
    script = (
        "import torch, tileops.elementwise as elementwise\n"
        "op = elementwise.SiluFwdOp(target='builtin')\n"
        "op(torch.ones(2, 8))\n"
        "keep = [op]; op.me = keep\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
