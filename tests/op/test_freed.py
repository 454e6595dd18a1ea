"""Tensors and instances are freed with the last reference to them, however a call ends.

A call that fails leaves no cycle behind: its tensors may be most of a device's memory, and the
collector knows nothing of that.
"""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
from test_copies import CopiedAddFwdOp
from toys import AddCall, add_kernel, add_op, body_op, define, spec, tensor

from tileops import Op, backend


@pytest.fixture(autouse=True)
def collector_at_rest():
    """Only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def raised(call, *args, **kwargs):
    """The class and the text of what a call raises; the exception itself is dropped."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("nothing was raised")


def fail(*_args, **_kwargs):
    raise OSError("broken")


def into(self, x, out=None):
    return x + 1 if out is None else torch.add(x, 1, out=out)


def refined(**more):
    """An op whose rules name what they compare."""
    declared = {"shape_rules": ["S[0] % n == 0"], "forall": {"S": "Shape", "T": "DType[float32]"}}
    params = {"n": {"type": "int", "default": 2}}
    return body_op(
        "Rule", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1, params, declared, **more
    )


def served(build_kernel):
    cls = add_op()
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    return cls(target="east")


def holder():
    held = {"w": {"dtype": "T", "shape": "[*S]"}}
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + self.w, held)
    return cls(torch.ones(3))


def composite(forward):
    inner = add_op()
    stages = {"kind": "composite", "stages": [{"name": "add", "op": inner.__name__}]}
    declared = spec({"x": tensor(), "y": tensor()}, {"z": tensor()}, composition=stages)
    return define("Outer", declared, forward=forward, delegate_types={"add": inner})()


def once():
    """An op whose first call is behind it, and whose next one fails."""
    op = add_op(forward=lambda self, x, y: x + y if len(x) == 2 else fail())()
    op(torch.ones(2), torch.ones(2))
    return op


def unheld(self, x, y):
    return self.delegate_types["add"]()(x, y)


REJECTED = {
    "rule": lambda x: raised(refined()(), x),
    "rule of a second call": lambda x: (lambda op: (op(x[:2]), raised(op, x)))(refined()()),
    "shape": lambda x: raised(add_op()(), x, x[:2]),
    "dtype": lambda x: raised(add_op()(), x, x.half()),
    "device": lambda x: raised(add_op()(), x, x.to("meta")),
    "unknown argument": lambda x: raised(add_op()(), x, x, z=x),
    "missing argument": lambda x: raised(add_op()(), x),
    "surplus argument": lambda x: raised(add_op()(), x, x, x),
    "no tensor": lambda x: raised(add_op()(), x, [x]),
    "sparse": lambda x: raised(add_op()(), x, x.to_sparse()),
    "gradient": lambda x: raised(add_op()(), x, torch.ones(3, requires_grad=True)),
    "buffer": lambda x: raised(
        body_op("Into", {"x": tensor()}, {"y": tensor(buffer="out")}, into)(), x, out=x
    ),
    "held tensor": lambda x: raised(holder(), x[:2]),
    "body": lambda x: raised(add_op(forward=lambda self, x, y: fail())(), x, x),
    "body of a second call": lambda x: raised(once(), x, x),
    "factory": lambda x: raised(
        add_op({"plain": add_kernel(entry_for=classmethod(lambda cls, call: (1, fail)))})(), x, x
    ),
    "kernel": lambda x: raised(
        add_op({"plain": add_kernel(forward=lambda s, x, y: fail())})(), x, x
    ),
    "no kernel": lambda x: raised(add_op({"plain": add_kernel(devices={"cuda"})})(), x, x),
    "result": lambda x: raised(add_op(forward=lambda self, x, y: x)(), x, x),
    "result of another shape": lambda x: raised(
        add_op(forward=lambda self, x, y: torch.ones(7))(), x, x
    ),
    "builder": lambda x: raised(served(fail), x, x),
    "no callable": lambda x: raised(served(lambda *specs, **params: 3), x, x),
    "target's kernel": lambda x: raised(served(lambda *specs, **params: fail), x, x),
    "target's result": lambda x: raised(served(lambda *specs, **params: lambda x, y: x), x, x),
    "unknown target": lambda x: raised(add_op()(target="nowhere"), x, x),
    "sub-op": lambda x: raised(
        composite(lambda self, x, y: self.delegate_for("add", None)(x, x[:2])), x, x
    ),
    "sub-op that is not held": lambda x: raised(composite(unheld), x, x),
    "call spec": lambda x: raised(
        add_op(forward=lambda s, x, y: s.kernel_for("add", AddCall(x, 1.0, x.dtype)))(), x, x
    ),
    "unhashable stage": lambda x: raised(
        composite(lambda self, x, y: self.delegate_for("add", [x])(x, x)), x, x
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("which", REJECTED)
def test_rejected_call_keeps_no_tensor(which):
    x = torch.ones(3)
    gone = weakref.ref(x)
    REJECTED[which](x)
    del x
    assert gone() is None


def test_refused_construction_keeps_neither_tensor_nor_instance():
    def init(self, w, n=1):
        self.w, self.n = w, n
        made.append(weakref.ref(self))
        Op.__init__(self)

    held = {"w": {"dtype": "T", "shape": "[*S]"}, "n": {"type": "int"}}
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + self.w, held)
    cls.__init__ = init
    made = []
    for arguments in ({"n": "two"}, {"m": 1}):
        w = torch.ones(3)
        made.append(weakref.ref(w))
        raised(cls, w, **arguments)
    del w
    assert [each() for each in made] == [None] * 3


def failing(x):
    op = add_op(forward=lambda self, x, y: fail())()
    raised(op, x, x)
    return op


USED = {
    "constructed": lambda x: add_op()(),
    "called": lambda x: (lambda op: (op(x, x), op)[1])(add_op()()),
    "failed": failing,
    "explained": lambda x: (lambda op: (op.explain(x, x), op)[1])(add_op()()),
    "copied": lambda x: copy.deepcopy(CopiedAddFwdOp(2.0)),
    "pickled": lambda x: pickle.loads(pickle.dumps(CopiedAddFwdOp(2.0))),
    "served": lambda x: (lambda op: (op(x, x), op)[1])(served(lambda *s, **p: torch.add)),
    "composite": lambda x: (lambda op: (op(x, x), op)[1])(
        composite(lambda self, x, y: self.delegate_for("add", None)(x, y))
    ),
    "tuned": lambda x: (lambda op: (op.request_tune(), op(x, x), op)[2])(add_op()()),
}


@pytest.mark.parametrize("which", USED)
def test_instance_goes_with_its_last_reference(which):
    op = USED[which](torch.ones(3))
    gone = weakref.ref(op)
    del op
    assert gone() is None


@pytest.mark.parametrize("end", ["served", "refused", "cannot follow", "rejected", "unbound"])
@pytest.mark.parametrize("whole", [False, True])
def test_report_keeps_no_tensor_of_its_call(end, whole):
    kernels = {"plain": add_kernel(devices={"cuda"})} if end == "refused" else None
    bodies = {"cannot follow": {"forward": lambda self, x, y: fail()}}
    op = add_op(kernels, **bodies.get(end, {}))()
    x, y = torch.ones(3), torch.ones(2 if end == "rejected" else 3)
    if whole:
        inner = op
        op = composite(lambda self, x, y: self.delegate_for("add", None)(x, y))
        op.delegate_for("add", None, inner)
    gone = weakref.ref(x), weakref.ref(y), weakref.ref(op)
    report = op.explain(x, y, **({"z": y} if end == "unbound" else {}))
    assert (report.error is None) == (end in {"served", "cannot follow"})
    del x, y, op
    if whole:
        del inner
    assert [each() for each in gone] == [None] * 3
    assert str(report)
