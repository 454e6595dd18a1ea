"""First calls in every order in which they can begin and end, against what must hold then.

Each call has a thread of its own and stops in its kernel until the schedule lets it end: complete,
fail, or be interrupted. A selection is there while a call runs on it; once no call runs, it is
there exactly if one has completed or was interrupted.
"""

from __future__ import annotations

import itertools
import random
import threading

import pytest
import torch
from toys import add_kernel, add_op, body_op, tensor

from tileops import backend
from tileops._core.op import calls

LIMIT = 20
ENDS = ("complete", "fail", "interrupt")


class Trouble(Exception):
    pass


class Gate:
    """A place at which a thread stops until it is told how to go on."""

    def __init__(self):
        self._there, self._go, self._end = threading.Event(), threading.Event(), None

    def stop(self):
        self._there.set()
        assert self._go.wait(LIMIT)
        if self._end == "fail":
            raise Trouble
        if self._end == "interrupt":
            raise KeyboardInterrupt

    def is_reached(self):
        assert self._there.wait(LIMIT)

    def open(self, end):
        self._end = end
        self._go.set()


class Call:
    """A call of an op in a thread of its own, which stops at its gates."""

    def __init__(self, op, number, gates):
        self.ended = None
        self._gates = iter(gates)
        self._thread = threading.Thread(target=self._run, args=(op, number), daemon=True)
        self._thread.start()
        self._gate = next(self._gates)
        self._gate.is_reached()

    def _run(self, op, number):
        try:
            assert op(torch.full((1,), float(number))).item() == 2 * number
            self.ended = "complete"
        except Trouble:
            self.ended = "fail"
        except KeyboardInterrupt:
            self.ended = "interrupt"
        assert calls._stack.frames == []

    def go_on(self, end):
        """Let it end, or complete what it is in and go on to its next gate."""
        self._gate.open(end)
        following = next(self._gates, None) if end == "complete" else None
        if following is None:
            self._thread.join(LIMIT)
            assert self.ended == end
        else:
            self._gate = following
            following.is_reached()


class Model:
    """What must hold of an op: whether it has selected, and how often."""

    def __init__(self):
        self.running, self.selections, self.stays = 0, 0, False

    def begin(self):
        self.selections += not self.is_bound()
        self.running += 1

    def end(self, how):
        self.running -= 1
        self.stays |= how != "fail"

    def is_bound(self):
        return self.running > 0 or self.stays

    def reset(self):
        self.stays = False

    def agrees(self, op, kernel=None):
        assert op.serving_target == ("builtin" if self.is_bound() else None)
        if kernel is not None:
            assert kernel.built == self.selections
            assert bool(op.built_entries("add")) == self.is_bound()
        if not self.is_bound():
            assert op._unsettled_calls == {}
            assert op._settled is None


def orders(count):
    """Every order in which `count` calls begin, one after the other, and end."""

    def extend(order, begun, running):
        if begun == count and not running:
            yield order
        if begun < count:
            yield from extend([*order, begun], begun + 1, [*running, begun])
        for n in running:
            yield from extend([*order, n], begun, [m for m in running if m != n])

    return extend([], 0, [])


def counted_op(gates):
    """An addition `x + x` whose kernel stops at the gate of the call."""

    def compute(self, x, y):
        gates[int(x)].stop()
        return x + y

    kernel = add_kernel(forward=compute)
    body = add_op({"plain": kernel}).forward
    return add_op({"plain": kernel}, forward=body), kernel


def detections(asked):
    def detect(device):
        asked.append(device)
        return False

    backend.register_detector(target="east", detect=detect)


def follow(orders, ends):
    """Follow schedules of first calls of an op, comparing after every event; the last model."""
    gates = []
    cls, kernel = counted_op(gates)
    for order in orders:
        gates[:] = (Gate() for _ in ends)
        op, running, model, kernel.built = cls(), {}, Model(), 0
        for n in order:
            if n in running:
                running.pop(n).go_on(ends[n])
                model.end(ends[n])
            else:
                model.begin()
                running[n] = Call(lambda x, op=op: op(x, x), n, [gates[n]])
            model.agrees(op, kernel)
        assert (op._settled is not None) == ("complete" in ends)
    return model


@pytest.mark.parametrize("ends", list(itertools.product(ENDS, repeat=3)), ids="-".join)
def test_three_first_calls_in_every_order(ends):
    follow(orders(3), ends)


@pytest.mark.parametrize("seed", range(8))
def test_sixteen_first_calls(seed):
    chance = random.Random(seed)
    order = list(range(16)) * 2
    chance.shuffle(order)
    ends = [chance.choice(("fail", "fail", *ENDS[: seed % 4])) for _ in range(16)]
    asked = []
    detections(asked)
    model = follow([order], ends)
    assert len(asked) == model.selections


def composed(gates, after):
    """A composite whose body stops once more after its sub-op."""
    part, kernel = counted_op(gates)

    def forward(self, x):
        y = self.delegate_for("part", None)(x, x)
        after[int(x)].stop()
        return y

    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()}, forward,
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    return cls, kernel


def steps(order, ends):
    """The order with each end in two: that of the sub-op, and that of the composite."""
    chance, begun, told = random.Random(str((order, ends))), set(), []
    for n in order:
        if n in begun and ends[n][0] == "complete":
            told.insert(chance.randint(told.index(n) + 1, len(told)), n)
        begun.add(n)
        told.append(n)
    return told


COMPOSED = [("complete", "complete"), ("fail", None), ("complete", "fail")]


@pytest.mark.parametrize("ends", list(itertools.product(COMPOSED, repeat=3)))
def test_three_first_calls_of_a_composite(ends):
    gates, after = [], []
    cls, kernel = composed(gates, after)
    for order in orders(3):
        gates[:], after[:] = (Gate() for _ in ends), (Gate() for _ in ends)
        op, kernel.built = cls(), 0
        part = op.delegate_for("part", None)
        outer, inner, running, stage = Model(), Model(), {}, {}
        for n in steps(order, ends):
            if n not in running:
                outer.begin()
                inner.begin()
                running[n], stage[n] = Call(op, n, [gates[n], after[n]]), 0
            else:
                end = ends[n][stage[n]]
                running[n].go_on(end)
                if stage[n] == 0:
                    inner.end(end)
                if stage[n] == 1 or end == "fail":
                    outer.end(end)
                    if not outer.is_bound():
                        inner.reset()
                stage[n] += 1
            outer.agrees(op)
            inner.agrees(part, kernel)
        assert (op._settled is not None) == (("complete", "complete") in ends)
