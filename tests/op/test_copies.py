from __future__ import annotations

import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import sys
import threading
import weakref

import pytest
import torch
from toys import (
    ADD_SPEC,
    AddInterface,
    AddKernel,
    add_kernel,
    add_op,
    pair,
    spec,
    specs_registered,
    tensor,
)

from tileops import Op, TileOpsError
from tileops._core import instances, locks
from tileops._core.op.state import _UNRESOLVED
from tileops._core.runtime.placement import DeviceCopies

SPECS = {
    "CopiedAddFwdOp": ADD_SPEC,
    "CopiedHoldFwdOp": spec(
        {"x": tensor(shape="[*S, C]")}, {"y": tensor(shape="[*S, C]")},
        {"scale": {"dtype": "T", "shape": "[C]"}},
        {"forall": {"S": "Shape", "C": "Dim", "T": "DType[float32]"}},
    ),
    "CopiedConvertFwdOp": spec(
        {"x": tensor(shape="[*S, C]")}, {"y": tensor(shape="[*S, C]")},
        {
            "scale": {"dtype": "coalesce_dtype(wide, T)", "shape": "[C]"},
            "wide": {"type": "float64 | None", "default": None},
        },
        {"forall": {"S": "Shape", "C": "Dim", "T": "DType[float16 | float64]"}},
    ),
    "CopiedOuterFwdOp": spec(
        {"x": tensor()}, {"z": tensor()},
        composition={"kind": "composite", "stages": [{"name": "part", "op": "CopiedAddFwdOp"}]},
    ),
}  # fmt: skip

with specs_registered(SPECS):

    class CopiedAddFwdOp(Op):
        kernel_types = {"plain": AddKernel}
        interfaces = {"add": AddInterface}

        def __init__(self, alpha=1.0, *, injected=None, target=None):
            self.alpha = alpha
            self.injected = injected
            super().__init__(target=target)

        def forward(self, x, y):
            request = self.interfaces["add"].request
            call = request(x.numel(), self.alpha, x.dtype, device=x.device)
            return self.kernel_for("add", call)(x, y)

    class CopiedSlotsFwdOp(CopiedAddFwdOp):
        __slots__ = ("__secret", "alpha", "note", "unset")

        def __init__(self, alpha, note, *, target=None):
            self.__secret = "hidden"
            self.note = note
            super().__init__(alpha, target=target)

        def secret(self):
            return self.__secret

    class CopiedHoldFwdOp(Op):
        def __init__(self, scale, *, target=None):
            self.scale = scale
            super().__init__(target=target)

        def forward(self, x):
            return x * self.scale

    class CopiedConvertFwdOp(Op):
        def __init__(self, scale, wide=None, *, target=None):
            self.scale, self.wide = scale, wide
            super().__init__(target=target)

        def forward(self, x):
            return x * self.scale

    class CopiedOuterFwdOp(Op):
        delegate_types = {"part": CopiedAddFwdOp}

        def forward(self, x):
            return self.delegate_for("part", None)(x, x)


def by_pickle(op):
    return pickle.loads(pickle.dumps(op))


WAYS = pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, by_pickle])


@WAYS
def test_copy_is_a_new_instance_of_the_same_construction(way):
    op = CopiedAddFwdOp(2.0, injected={"a": [1]}, target="builtin")
    x, y = pair()
    op(x, y)
    op.request_tune()
    op.composition_only = True
    new = way(op)
    assert type(new) is type(op)
    assert (new.alpha, new.injected, new.target) == (2.0, {"a": [1]}, "builtin")
    assert new._construction_indices == op._construction_indices
    assert new._instance_key != op._instance_key
    assert instances.find(new._instance_key) is new
    assert new._bind_lock is not op._bind_lock
    assert new._target_builder is _UNRESOLVED
    assert new.serving_target is None
    assert (new._entries_by_call, new._built_entries, new._target_kernels) == ({}, {}, {})
    assert new._last_call is None
    assert (new._tune_requested, new._tune_warned) == (True, False)
    assert new.composition_only is True
    assert torch.equal(new(x, y), 2 * x + y)
    assert op.last_call is not new.last_call


@WAYS
def test_construction_time_tensors_come_along(way):
    op = CopiedHoldFwdOp(torch.tensor([2.0, 3.0]))
    op(torch.ones(1, 2))
    new = way(op)
    assert new._construction_indices["C"] == 2
    assert new(torch.ones(1, 2)).tolist() == [[2, 3]]
    shared = new.scale.data_ptr() == op.scale.data_ptr()
    assert shared is (way is copy.copy)


@WAYS
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensor_that_a_call_has_moved_is_copied_as_it_was_bound(way, device):
    precise = torch.tensor([1.0 + 2.0**-30, 3.0], dtype=torch.float64)
    op = CopiedConvertFwdOp(precise)
    op(torch.ones(1, 2, dtype=torch.float16, device=device))
    new = way(op)
    assert (op.scale.dtype, op.scale.device.type) == (torch.float16, device)
    assert torch.equal(new.scale, precise)
    assert torch.equal(new(torch.ones(1, 2).double()), precise[None])


class Growing:
    """A key of copies that more of them are made for while it is looked at."""

    def __init__(self, copies):
        self.copies, self.is_looked_at = copies, False

    def __hash__(self):
        if self.is_looked_at:
            self.copies[torch.device("meta")] = torch.ones(2)
        return 1


def test_copies_of_a_tensor_are_copied_while_others_are_made():
    copies = DeviceCopies(torch.ones(2))
    key = Growing(copies)
    copies[key] = torch.ones(2)
    key.is_looked_at = True
    twin = copy.copy(copies)
    assert twin.source is copies.source
    assert list(twin) == [key]


def test_copies_of_a_tensor_are_looked_through_while_others_are_made():
    copies, known = DeviceCopies(torch.ones(2)), sys.gettrace()
    copies[torch.device("cpu")] = torch.ones(2)

    def trace(frame, event, arg):
        if frame.f_code.co_name == "<genexpr>":
            copies[torch.device("meta")] = torch.ones(2)

    sys.settrace(trace)
    try:
        assert not copies.knows(None)
    finally:
        sys.settrace(known)
    assert len(copies) == 2


@WAYS
def test_sub_ops_are_copied_with_their_holder(way):
    op = CopiedOuterFwdOp()
    part = op.delegate_for("part", None, CopiedAddFwdOp(4.0))
    op.alias = part
    op(torch.ones(2))
    new = way(op)
    (copied,) = new.held_delegates()
    assert copied is not part
    assert new.alias is copied
    assert new.delegate_for("part", None) is copied
    assert new._delegate_stages == {id(copied): "part"}
    assert new(torch.ones(2)).tolist() == [5, 5]
    assert len(new.last_call.stages["part"]) == 1


@WAYS
def test_attributes_in_slots_come_along(way):
    op = CopiedSlotsFwdOp(3.0, [1])
    new = way(op)
    assert (new.alpha, new.note, new.secret()) == (3.0, [1], "hidden")
    assert not hasattr(new, "unset")
    assert "note" not in vars(new)
    assert (new.note is op.note) is (way is copy.copy)
    x, y = pair()
    assert torch.equal(new(x, y), 3 * x + y)
    assert op.explain(x, y).error is None
    with pytest.raises(AttributeError, match="alpha cannot be assigned"):
        new.alpha = 1.0


@WAYS
def test_op_that_several_hold_is_copied_once(way):
    part, outer = CopiedAddFwdOp(2.0), CopiedOuterFwdOp()
    for identity in ("one", "two"):
        holder = CopiedOuterFwdOp()
        holder.delegate_for("part", None, part)
        outer.delegate_for("part", identity, holder)
    one, two = way(outer).held_delegates()
    assert one is not two
    assert one.held_delegates() == two.held_delegates() != (part,)


def test_deepcopy_keeps_sharing():
    part = CopiedAddFwdOp(2.0)
    first, second = CopiedOuterFwdOp(), CopiedOuterFwdOp()
    first.delegate_for("part", None, part)
    second.delegate_for("part", None, part)
    one, two = copy.deepcopy([first, second])
    assert one.held_delegates()[0] is two.held_delegates()[0]


def test_module_that_holds_an_op_is_copied_and_saved(tmp_path):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add = CopiedAddFwdOp(2.0)

        def forward(self, x):
            return self.add(x, x)

    block = Block()
    x = torch.ones(2)
    block(x)
    assert torch.equal(copy.deepcopy(block)(x), block(x))
    torch.save(block.add, tmp_path / "op.pt")
    assert torch.equal(torch.load(tmp_path / "op.pt", weights_only=False)(x, x), block(x))


class Refuses:
    def __reduce__(self):
        raise RuntimeError("stays here")


@pytest.mark.parametrize(("way", "doing"), [(copy.deepcopy, "copying"), (by_pickle, "pickling")])
def test_what_cannot_be_copied_raises_its_own_error_with_the_op_named(way, doing):
    with pytest.raises(RuntimeError, match="stays here") as caught:
        way(CopiedAddFwdOp(injected=Refuses()))
    assert caught.value.__notes__ == [f"while {doing} the attribute 'injected' of CopiedAddFwdOp"]


def test_shallow_copy_asks_nothing_of_attributes():
    refuses = Refuses()
    assert copy.copy(CopiedAddFwdOp(injected=refuses)).injected is refuses


def _in_child(payload, results):
    op = pickle.loads(payload)
    x, y = pair()
    results.put((op._instance_key, op(x, y).tolist()))


def test_pickle_travels_to_another_process():
    op = CopiedAddFwdOp(2.0)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(pickle.dumps(op), results))
    child.start()
    key, values = results.get()
    child.join(20)
    x, y = pair()
    assert values == op(x, y).tolist()
    assert key not in {op._instance_key, CopiedAddFwdOp()._instance_key}


def test_keys_are_never_used_again():
    cls = add_op()
    keys = set()
    for _ in range(100):
        keys.add(cls()._instance_key)
    assert len(keys) == 100
    name, rest = keys.pop().split("#")
    run, number = rest.split("-")
    assert name == cls.__name__
    assert int(run, 16) >= 0
    assert int(number) >= 0


def test_forked_child_makes_keys_of_its_own():
    cls = add_op()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, cls()._instance_key.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    in_child = os.read(read, 200).decode()
    os.close(read)
    os.close(write)
    in_parent = cls()._instance_key
    assert in_child.split("#")[1].split("-")[0] != in_parent.split("#")[1].split("-")[0]


def test_forked_child_knows_its_own_keys():
    """And those of its parent; what its parent does not know is another process's there."""
    cls = add_op()
    read, write = os.pipe()
    before = cls()._instance_key
    pid = os.fork()
    if pid == 0:
        own = cls()._instance_key
        words = [own, *(advice_for(key) for key in (before, own))]
        os.write(write, "\n".join(words).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    in_child, *told = os.read(read, 2000).decode().splitlines()
    os.close(read)
    os.close(write)
    assert [words.startswith("keep the op alive") for words in told] == [True, True]
    assert advice_for(in_child).startswith("it was given in another process")


def advice_for(key):
    """What is said of the key of an instance that is gone."""
    gc.collect()
    with pytest.raises(TileOpsError) as caught:
        instances.find(key)
    return str(caught.value).rpartition(": ")[2]


def test_dead_key_is_named():
    op = add_op()()
    key = op._instance_key
    assert instances.find(key) is op
    del op
    gc.collect()
    with pytest.raises(TileOpsError) as caught:
        instances.find(key)
    assert str(caught.value) == (
        f"no live instance has the key {key!r}: keep the op alive as long as the function that was "
        "compiled with it"
    )


def test_key_of_another_process_is_named():
    """As in an exported program that is loaded there, or a package."""
    with pytest.raises(TileOpsError) as caught:
        instances.find("SiluFwdOp#0-0")
    assert str(caught.value) == (
        "no live instance has the key 'SiluFwdOp#0-0': it was given in another process; export or "
        "package the program where it runs"
    )


def test_instances_are_freed_when_dropped():
    op = CopiedOuterFwdOp()
    op(torch.ones(2))
    gone = weakref.ref(op)
    part = weakref.ref(op.held_delegates()[0])
    del op
    gc.collect()
    assert gone() is None
    assert part() is None


def test_constructions_leave_no_growth():
    cls = add_op()
    cls()
    gc.collect()
    before = len(instances.table)
    objects = len(gc.get_objects())
    for _ in range(100_000):
        cls(2.0)
    assert len(instances.table) == before
    gc.collect()
    assert len(gc.get_objects()) - objects < 200


def test_forked_child_finds_its_locks_free():
    op, held = add_op({"plain": add_kernel()})(), threading.Event()
    x, y = pair()
    op(x, y)
    done = threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in [op._turn("backward"), *locks._made]:
                stack.enter_context(lock)
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    child = os.fork()
    if child == 0:
        free = all(lock.acquire(blocking=False) for lock in list(locks._made))
        free = free and op._turn("backward").acquire(blocking=False)
        os._exit(0 if free else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_forked_child_of_a_thread_that_holds_a_lock_lets_it_go():
    lock = locks.make_lock()
    with lock:
        child = os.fork()
        if child == 0:
            lock.release()  # Raises where the lock is no longer held.
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_op_that_is_neither_true_nor_equal_to_anything():
    class Odd(add_op()):
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError

        def __bool__(self):
            raise AssertionError

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return 42

    op, (x, y) = Odd(2.0), pair()
    for each in (op, copy.copy(op), copy.deepcopy(op)):
        assert torch.equal(each(x, y), 2 * x + y)
        assert each.explain(x, y).error is None
