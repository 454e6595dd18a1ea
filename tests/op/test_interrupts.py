"""An exception or an interrupt at every line of the call path, one after the other.

A tracer raises in place of the n-th line that the path runs. Whatever the line, no frame and no
lock stays behind, and the next call is as good as the first. Left out are the lines that free what
was taken: the interpreter itself promises nothing of an interrupt there.
"""

from __future__ import annotations

import linecache
import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from toys import add_kernel, add_op, body_op, pair, tensor

from tileops import backend
from tileops._core import op as op_layer
from tileops._core import owners
from tileops._core.op import calls

PATH = str(Path(op_layer.__file__).parent)
FREES = ("except BaseException", "del frames", "with ", "finally")
FREES += ("_under_way[thread] = around", "if not around:", "del _under_way", "_changing.notify_all")


class Trouble(Exception):
    pass


class RaiseAt:
    """Raises in place of the n-th line of the files below `path`; `line` is the one that it was.

    Lines are counted once the code `begin` is entered, where that is given.
    """

    def __init__(self, number, error, begin=None, path=PATH):
        self.left, self.error, self.line, self.begin = number, error, None, begin
        self.path = path

    def __call__(self, frame, event, arg):
        if frame.f_code is self.begin:
            self.begin = None
        return self.local if frame.f_code.co_filename.startswith(self.path) else None

    def local(self, frame, event, arg):
        if event == "line" and self.line is None and self.begin is None:
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if not text.startswith(FREES):
                self.left -= 1
                if self.left < 0:
                    self.line = text
                    raise self.error
        return self.local


def plain():
    cls, (x, y) = add_op({"plain": add_kernel()}), pair()
    return lambda: cls(2.0), (x, y), 2 * x + y


def served():
    cls, (x, y) = add_op(), pair()
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *s, **p: lambda x, y: x - y
    )
    return lambda: cls(target="east"), (x, y), x - y


def composed():
    part, (x, _) = add_op(), pair()
    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()},
        lambda self, x: self.delegate_for("part", None, alpha=2.0)(x, x),
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    return cls, (x,), 3 * x


def is_free(lock):
    """Whether another thread can take a lock."""
    found = []

    def attempt():
        if lock.acquire(blocking=False):
            lock.release()
            found.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return bool(found)


def raised(call, arguments, fault):
    """Call under the tracer; the line in place of which it raised, None where it came too late.

    In a thread of its own: where a tracer raises while an exception is handled, the interpreter
    may take that for handled from then on, and make it the context of all that the thread raises.
    """
    left = []

    def run():
        sys.settrace(fault)
        try:
            call(*arguments)
        except (fault.error, Trouble):
            pass
        finally:
            sys.settrace(None)
        left.append(list(calls._stack.frames))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert left == [[]], fault.line
    return fault.line


def test_undo_that_is_interrupted_at_any_line():
    part, (x, _), fails = add_op(), pair(), [True]

    def forward(self, x):
        y = self.delegate_for("part", None)(x, x)
        if fails[0]:
            raise Trouble
        return y

    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    cls = body_op("Outer", {"x": tensor()}, {"z": tensor()}, forward, composition=stages)
    cls.delegate_types = {"part": part}
    begin = cls._leave.__code__
    for number in range(1000):
        op, fails[0] = cls(), True
        line, fails[0] = raised(op, (x,), RaiseAt(number, KeyboardInterrupt, begin)), False
        assert torch.equal(op(x), 2 * x), line
        for each in (op, *op.held_delegates()):
            assert is_free(each._bind_lock), line
            assert each.serving_target == "builtin", line
            assert each._settled == ("builtin", None, each._target_kernels), line
        if line is None:
            break
    assert line is None
    assert number > 20


def test_binding_a_tensor_that_is_interrupted_at_any_line():
    held = {"scale": {"dtype": "T", "shape": "[*S]"}}
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x * self.scale, held)
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda x, scale: lambda x: x * scale
    )
    for number in range(100):
        op = cls(torch.ones(2), target="east")
        op(torch.ones(2))
        arguments = "scale", torch.full((2,), 3.0)
        line = raised(op.__setattr__, arguments, RaiseAt(number, KeyboardInterrupt))
        assert torch.equal(op(torch.ones(2)), op.scale), line
        if line is None:
            break
    assert line is None
    assert number > 5


def test_loading_that_is_interrupted_at_any_line(packages):
    packages()

    def load():
        with owners.under_way(EntryPoint("this", "json", "tileops.backends")):
            pass

    for number in range(100):
        line = raised(load, (), RaiseAt(number, KeyboardInterrupt, path=owners.__file__))
        assert owners._under_way == {}, line
        assert owners._changing.acquire(blocking=False), line
        owners._changing.release()
        if line is None:
            break
    assert line is None
    assert number > 5


def test_holding_a_given_op_that_is_interrupted_at_any_line():
    make, (x,), _ = composed()
    part = make.delegate_types["part"]
    for number in range(100):
        op, given = make(), part(2.0)
        line = raised(op.delegate_for, ("part", None, given), RaiseAt(number, KeyboardInterrupt))
        assert op.composition_only or not op.held_delegates(), line
        assert op.delegate_for("part", None, given) is given, line
        assert torch.equal(op(x), 3 * x), line
        if line is None:
            break
    assert line is None
    assert number > 10


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt])
@pytest.mark.parametrize("case", [plain, served, composed])
def test_call_that_ends_at_any_line(case, error, warm):
    make, arguments, expected = case()
    make()(*arguments)
    for number in range(1000):
        op = make()
        if warm:
            op(*arguments)
        op._last_call = None
        line = raised(op, arguments, RaiseAt(number, error))
        for each in (op, *op.held_delegates()):
            assert is_free(each._bind_lock), line
            assert is_free(each._build_lock), line
        op._last_call = None
        assert torch.equal(op(*arguments), expected), line
        assert op.last_call.device == expected.device, line
        assert all(len(records) == 1 for records in op.last_call.stages.values()), line
        if line is None:
            break
    assert line is None
    assert number > 20
