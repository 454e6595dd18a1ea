"""Calls that the interpreter makes in passing, while another op's call runs on the same thread."""

from __future__ import annotations

import gc
import signal
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from toys import add_op, body_op, tensor

import tileops
from tileops._core.op import calls


class Owner:
    """Something that is dropped."""


def by_del(call):
    class Dropped:
        def __del__(self):
            call()

    Dropped()


def by_del_in_a_cycle(call):
    class Dropped:
        def __del__(self):
            call()

    one = Dropped()
    one.itself = one
    del one
    gc.collect()


def by_weak_reference(call):
    owner = Owner()
    keep = weakref.ref(owner, lambda reference: call())
    del owner
    return keep


def by_bound_callback(call):
    class Watch:
        def gone(self, reference):
            call()

    owner = Owner()
    keep = weakref.ref(owner, Watch().gone)
    del owner
    return keep


def by_finalize(call):
    owner = Owner()
    weakref.finalize(owner, call)
    del owner


def by_collection(call):
    def note(phase, info):
        if phase == "stop":
            call()

    gc.callbacks.append(note)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(note)


def by_signal(call):
    known = signal.signal(signal.SIGUSR1, lambda number, frame: call())
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, known)


def by_generator(call):
    def running():
        try:
            yield
        finally:
            call()

    next(running())


def by_generator_within_a_context(call):
    @contextmanager
    def context():
        try:
            yield
        finally:
            call()

    def running():
        with context():
            yield

    next(running())


def by_coroutine(call):
    class Once:
        def __await__(self):
            yield

    async def running():
        try:
            await Once()
        finally:
            call()

    running().send(None)


def by_async_generator(call):
    async def running():
        yield

    known = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=lambda generator: call())
    try:
        with pytest.raises(StopIteration):
            running().asend(None).send(None)
    finally:
        sys.set_asyncgen_hooks(*known)


WAYS = [
    by_del, by_del_in_a_cycle, by_weak_reference, by_bound_callback, by_finalize, by_collection,
    by_signal, by_generator, by_generator_within_a_context, by_coroutine, by_async_generator,
]  # fmt: skip


def composed(part, during):
    def forward(self, x):
        first = self.delegate_for("part", None)(x, x)
        during()
        return self.delegate_for("part", None)(first, x)

    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()}, forward,
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    return cls()


@pytest.mark.parametrize("way", WAYS)
def test_call_in_passing_is_no_part_of_the_call_around(way):
    part = add_op()
    stray, x, seen = part(5.0), torch.ones(2), []
    outer = composed(part, lambda: way(lambda: seen.append(stray(x, x).tolist())))
    for _ in range(2):
        assert outer(x).tolist() == [3, 3]
    assert seen == [[6, 6]] * 2
    assert len(outer.last_call.stages["part"]) == 2
    assert stray.last_call is not None
    assert calls._stack.frames == []


def test_composite_in_passing_files_its_own_stages():
    part, x = add_op(), torch.ones(2)
    inner = composed(part, lambda: None)
    outer = composed(part, lambda: by_del(lambda: inner(x)))
    outer(x)
    assert len(inner.last_call.stages["part"]) == len(outer.last_call.stages["part"]) == 2


def test_call_within_a_call_in_passing_is_a_mistake_all_the_same():
    part, x, seen = add_op(), torch.ones(2), []
    stray = part()
    inner = composed(part, lambda: stray(x, x))

    def refused():
        with pytest.raises(RuntimeError, match="does not hold it"):
            inner(x)
        seen.append(None)

    outer = composed(part, lambda: by_del(refused))
    assert outer(x).tolist() == [3, 3]
    assert seen == [None]


def test_meta_call_in_passing():
    part = add_op()
    stray, x = part(), torch.ones(2, device="meta")
    outer = composed(part, lambda: by_del(lambda: stray(x, x)))
    assert outer(x).is_meta
    assert len(outer.last_call.stages["part"]) == 2


def test_failing_call_in_passing_leaves_the_call_around_alone(monkeypatch):
    part, x, seen = add_op(), torch.ones(2), []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_type))
    outer = composed(part, lambda: by_del(lambda: part()(x, x[1:])))
    assert outer(x).tolist() == [3, 3]
    assert seen == [tileops.SignatureError]
    assert calls._stack.frames == []


def called_with_a_living_reference(call):
    owner = Owner()
    (lambda reference: call())(weakref.ref(owner))


def called_by_an_exhausted_generator(call):
    def running():
        yield
        call()

    list(running())


def called_by_a_generator_expression_while_another_closes(call):
    sum(len(call()) for _ in range(1))


def called_with_another_frame(call):
    (lambda number, frame: call())(0, sys._getframe(1))


@pytest.mark.parametrize(
    "way",
    [
        lambda call: call(),
        called_with_a_living_reference,
        called_by_an_exhausted_generator,
        called_by_a_generator_expression_while_another_closes,
        called_with_another_frame,
    ],
)
def test_call_that_the_body_makes_is_a_mistake_all_the_same(way):
    part, x = add_op(), torch.ones(2)
    stray = part()
    outer = composed(part, lambda: way(lambda: stray(x, x)))

    def closing():
        try:
            yield
        finally:
            with pytest.raises(RuntimeError, match="does not hold it"):
                outer(x)

    by = closing()
    next(by)
    by.close()
    with pytest.raises(RuntimeError, match="does not hold it"):
        outer(x)


def test_no_lock_keeps_what_runs_in_passing_waiting():
    """What runs in passing may find its own thread within any lock, so that all are re-entrant."""
    folder = Path(tileops.__file__).parent
    made = [path for path in folder.rglob("*.py") if "threading.Lock(" in path.read_text()]
    assert made == []


def test_op_called_in_passing_while_the_first_selects(monkeypatch):
    op, x = add_op()(2.0), torch.ones(2)
    known, seen = type(op)._selection, []

    def selection(self, device):
        found = known(self, device)
        if not seen:
            seen.append(None)
            by_del(lambda: seen.append(op(x, x).tolist()))
        return found

    monkeypatch.setattr(type(op), "_selection", selection)
    assert op(x, x).tolist() == [3, 3]
    assert seen == [None, [3, 3]]
    assert op._settled == ("builtin", None, op._target_kernels)
    assert op._bind_lock.acquire(blocking=False)
    op._bind_lock.release()
