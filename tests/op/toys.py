"""Small ops with specs of their own, made anew for each test so that none sees another's state."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tileops import Op, manifest
from tileops._core.op.calls import Calls, calling
from tileops._core.spec import registry
from tileops.kernels import CallSpec, Kernel, KernelInterface

_numbers = itertools.count()

THREADS = 16
LIMIT = 20


def tensor(**declared):
    """A tensor of any shape and the dtype T."""
    return {"dtype": "T", "shape": "[*S]", **declared}


def spec(inputs, outputs, params=None, signature=None, **fields):
    """A spec over one shape S and one dtype T."""
    return {
        "family": "toys",
        "status": "spec-only",
        "signature": {
            "forall": {"S": "Shape", "T": "DType[float16 | float32 | int32]"},
            "params": params or {},
            "inputs": inputs,
            "outputs": outputs,
            **(signature or {}),
        },
        "workloads": [{"S": [2], "dtype_cases": [{"T": "float32"}], "label": "row"}],
        "roofline": {"flops": 1},
        **fields,
    }


@contextmanager
def specs_registered(specs):
    """The specs are known while classes are defined, and to nobody afterwards."""
    saved = registry.manifest()
    manifest.register(specs)
    yield
    registry._manifest = saved


def unique(stem):
    """A class name that no spec has."""
    return f"{stem}{next(_numbers)}FwdOp"


def define(stem, declared, *, base=Op, **members):
    """Register a spec and define the class that it describes."""
    name = unique(stem)
    manifest.register({name: declared})
    return type(base)(name, (base,), members)


@dataclass(frozen=True)
class AddCall(CallSpec):
    """One addition of `n` elements."""

    n: int
    alpha: float
    dtype: torch.dtype


class AddInterface(KernelInterface):
    """Adds."""

    request = AddCall

    def forward(self, x, y):
        """`alpha * x + y`."""


class AddKernel(Kernel, AddInterface):
    """Counts how often it was built and launched."""

    devices = frozenset({"cpu"})
    built = 0
    launched = 0

    def __init__(self, call):
        super().__init__()
        self.call = call
        type(self).built += 1

    def forward(self, x, y):
        type(self).launched += 1
        return x * self.call.alpha + y


def add_kernel(base=AddKernel, **declared):
    """A kernel class with counters of its own."""
    return type(base.__name__, (base,), {"built": 0, "launched": 0, **declared})


ADD_SPEC = spec(
    {"x": tensor(), "y": tensor()},
    {"z": tensor()},
    {"alpha": {"type": "float", "default": 1.0}},
)


def _add_init(self, alpha=1.0, *, target=None):
    self.alpha = alpha
    Op.__init__(self, target=target)


def _add_forward(self, x, y):
    x, y = x.contiguous(), y.contiguous()
    call = AddCall(x.numel(), self.alpha, x.dtype, device=x.device)
    return self.kernel_for("add", call)(x, y)


def add_op(kernels=None, declared=ADD_SPEC, **members):
    """`z = alpha * x + y` through one kernel interface."""
    members = {
        "kernel_types": {"plain": add_kernel()} if kernels is None else kernels,
        "interfaces": {"add": AddInterface},
        "__init__": _add_init,
        "forward": _add_forward,
        **members,
    }
    return define("Add", declared, **members)


def body_op(stem, inputs, outputs, forward, params=None, signature=None, **fields):
    """An op without kernels, whose body is `forward`; parameters keep their names."""
    names = list(params or {})

    def init(self, *args, target=None, **kwargs):
        given = {
            name: declared["default"]
            for name, declared in (params or {}).items()
            if "default" in declared
        }
        given |= dict(zip(names, args, strict=False)) | kwargs
        for name, value in given.items():
            setattr(self, name, value)
        Op.__init__(self, target=target)

    members = {"__init__": init, "forward": forward}
    return define(stem, spec(inputs, outputs, params, signature, **fields), **members)


def direct(cls):
    """A class of its own whose calls enter no operator, as those of composites do."""
    cls.compile_op_names = ()
    cls.__call__ = calling(Calls._enter_call)
    return cls


def composite(part):
    """A composite of one stage that calls the same sub-op twice, on `(x, x)` and on `(y, x)`."""

    def forward(self, x):
        y = self.delegate_for("part", None)(x, x)
        return self.delegate_for("part", None)(y, x)

    cls = body_op(
        "Outer", {"x": tensor()}, {"z": tensor()}, forward,
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls.delegate_types = {"part": part}
    return cls


def in_place():
    """An op that adds 1, to `x` itself where `in_place` says so."""
    return body_op(
        "InPlace",
        {"x": tensor(mutated="in_place")},
        {"y": tensor(alias="x")},
        lambda self, x: x.add_(1) if self.in_place else x + 1,
        {"in_place": {"type": "bool", "default": False}},
    )


def compiled(op, backend="aot_eager", **options):
    """An op or function compiled whole."""
    return torch.compile(op, fullgraph=True, backend=backend, **options)


class Block(torch.nn.Module):
    """A module that holds an op and scales its result."""

    def __init__(self, op, factor=2):
        super().__init__()
        self.op = op
        self.factor = factor

    def forward(self, x, y):
        result = self.op(x, y)
        return result if self.factor == 1 else result * self.factor


def pair(n=6, dtype=torch.float32, seed=0):
    """Two random rows."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, generator=generator).to(dtype) for _ in range(2))


def elsewhere(task, *args):
    """What `task` gives in another thread, which must end."""
    found = []
    thread = threading.Thread(target=lambda: found.append(task(*args)), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "the other thread hangs"
    return found[0]


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


def switches(monkeypatch, module):
    """What a module makes the current device, and when it leaves it; nothing is switched."""
    log = []

    @contextmanager
    def as_current(device):
        log.append(("enter", device))
        yield
        log.append(("leave", device))

    monkeypatch.setattr(module, "as_current", as_current)
    return log


def slow():
    threading.Event().wait(0.02)


def warmed(op, *arguments):
    """The op, after as many calls of one kind as it takes to tell that by a look."""
    for _ in range(4):
        op(*arguments)
    return op
