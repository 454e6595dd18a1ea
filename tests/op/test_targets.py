from __future__ import annotations

import sys

import pytest
import torch
from toys import add_kernel, add_op, body_op, direct, pair, switches, tensor

from tileops import Op, backend
from tileops._core import devices
from tileops._core.lang.values import shown
from tileops._core.plugins import Loading
from tileops._core.targets import loading
from tileops.backend import BUILTIN, TensorSpec
from tileops.errors import (
    AmbiguousTargetError,
    BackendError,
    OpNotAvailableError,
    UnknownTargetError,
)

CPU = torch.device("cpu")


def claim(target, *devices):
    """Register a detector; returns the devices that it was asked about."""
    asked = []

    def detect(device):
        asked.append(device)
        return device.type in devices

    backend.register_detector(target=target, detect=detect)
    return asked


class Builder:
    """Builds kernels from `function` and notes what it was given and what they were called with."""

    def __init__(self, function):
        self.function = function
        self.builds, self.calls = [], []

    def __call__(self, *specs, **parameters):
        self.builds.append((specs, parameters))

        def kernel(*tensors, **arguments):
            self.calls.append((tensors, arguments))
            return self.function(*tensors, **arguments)

        return kernel


def serve(cls, target, function=lambda x, y: x - y):
    builder = Builder(function)
    backend.register_kernel_builder(op=cls.__name__, target=target, build_kernel=builder)
    return builder


def test_in_tree_kernels_serve_where_nothing_claims_the_device():
    asked = claim("east", "cuda")
    op = add_op()()
    assert op.serving_target is None
    op(*pair())
    assert op.serving_target == BUILTIN == "builtin"
    assert asked == [CPU]


def test_detected_target_takes_the_whole_op():
    claim("east", "cpu")
    kernel = add_kernel()
    cls = add_op({"plain": kernel})
    builder = serve(cls, "east")
    op = cls()
    x, y = pair()
    assert torch.equal(op(x, y), x - y)
    assert op.serving_target == "east"
    assert kernel.built == 0
    assert len(builder.builds) == 1


def test_constructor_comes_before_default_and_default_before_detection():
    asked = claim("seen", "cpu")
    cls = add_op()
    for target in ("seen", "asked", "preset"):
        serve(cls, target)
    backend.set_default_target("preset")
    for target, serving in (("asked", "asked"), (None, "preset"), (BUILTIN, BUILTIN)):
        op = cls(target=target)
        op(*pair())
        assert op.serving_target == serving
    assert asked == []
    backend.set_default_target(None)
    op = cls()
    op(*pair())
    assert op.serving_target == "seen"
    backend.set_default_target(BUILTIN)
    other = cls()
    other(*pair())
    assert other.serving_target == BUILTIN
    assert op.serving_target == "seen"


def test_selection_holds_against_later_registrations_and_defaults():
    cls = add_op()
    op = cls()
    op(*pair())
    claim("late", "cpu")
    serve(cls, "late")
    backend.set_default_target("late")
    op(*pair())
    assert op.serving_target == BUILTIN


def test_construction_time_tensor_bound_anew_takes_kernels_of_its_own():
    held = {"w": {"dtype": "T", "shape": "[*S]"}}
    cls = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x, held)
    built = []

    def build(x, *, w):
        built.append(w)
        return lambda x: x + w

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build)
    op, x = cls(torch.ones(2), target="east"), torch.zeros(2)
    first = op.w
    for _ in range(2):
        assert op(x).tolist() == [1, 1]
    op.w = first
    assert op(x).tolist() == [1, 1]
    assert len(built) == 1
    op.w = torch.full((2,), 3.0)
    for _ in range(2):
        assert op(x).tolist() == [3, 3]
    assert len(built) == 2
    op.w = first
    assert op(x).tolist() == [1, 1]
    assert op.serving_target == "east"


def test_tensor_of_a_class_that_inherits_its_spec_is_bound_anew_too():
    held = {"w": {"dtype": "T", "shape": "[*S]"}}
    parent = body_op("Hold", {"x": tensor()}, {"y": tensor()}, lambda self, x: x, held)
    child = type("ChildOfHold", (parent,), {})
    builder = serve(child, "east", lambda x: x + 1)
    op = child(torch.ones(2), target="east")
    for _ in range(2):
        op(torch.zeros(2))
    assert len(builder.builds) == 1
    op.w = torch.zeros(2)
    op(torch.zeros(2))
    assert len(builder.builds) == 2


@pytest.mark.parametrize("whole", [False, True])
def test_kernel_gets_no_lazy_tensor(whole):
    kind = {"signature": {"forall": {"S": "Shape", "T": "DType[float32 | complex64]"}}}
    part = body_op("Part", {"x": tensor()}, {"y": tensor()}, lambda self, x: x.clone(), **kind)
    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    more = {"composition": stages} if whole else {}
    cls = body_op("Lazy", {"x": tensor()}, {"y": tensor()}, lambda self, x: x, **kind, **more)
    cls.delegate_types = {"part": part} if whole else {}
    seen = []

    def kernel(x):
        seen.append((x.is_conj(), x.is_neg(), x.is_contiguous()))
        return x.clone()

    serve(cls, "east", kernel)
    z = torch.complex(*pair(1)).conj()
    op = cls(target="east")
    for lazy in (z, z.imag):
        torch.testing.assert_close(op(lazy), lazy.resolve_conj().resolve_neg())
    assert seen == [(False, False, True)] * 2


def test_several_targets_claim_the_device():
    claim("west", "cpu")
    claim("east", "cpu")
    op = add_op()()
    with pytest.raises(AmbiguousTargetError) as caught:
        op(*pair())
    assert str(caught.value) == (
        f"{op._name}: several targets claim cpu: 'east', 'west'; pass target= to the constructor"
    )
    assert op.serving_target is None


def test_unknown_target(monkeypatch):
    claim("east")
    op = add_op()(target="nowhere")
    with pytest.raises(UnknownTargetError) as caught:
        op(*pair())
    assert str(caught.value) == (
        f"{op._name}: target 'nowhere' is not registered; known targets: 'builtin', 'east'; "
        "a package registers its own by an entry point of the group tileops.backends, see "
        "`tileops doctor`"
    )
    failed = Loading("broken", "broken", 0.1, "ImportError: no")
    monkeypatch.setattr(loading, "_loadings", {"absent": failed})
    with pytest.raises(UnknownTargetError, match=r"; see tileops.backend.load_failures\(\)"):
        add_op()(target="nowhere")(*pair())


def test_detector_that_raises():
    def detect(device):
        raise OSError("driver asleep")

    backend.register_detector(target="east", detect=detect)
    op = add_op()()
    with pytest.raises(BackendError) as caught:
        op(*pair())
    assert str(caught.value) == (
        f"{op._name}: the detector of target 'east' failed on cpu: OSError: driver asleep"
    )
    assert isinstance(caught.value.__cause__, OSError)


def test_detector_that_exits_fails_like_one_that_raises():
    backend.register_detector(target="east", detect=lambda device: sys.exit(3))
    with pytest.raises(BackendError, match="target 'east' failed on cpu: SystemExit: 3"):
        add_op()()(*pair())


def test_target_without_a_builder_for_an_op_with_kernels():
    claim("east", "cpu")
    cls = add_op()
    serve(cls, "west")
    op = cls()
    with pytest.raises(OpNotAvailableError) as caught:
        op(*pair())
    assert str(caught.value) == (
        f"target 'east' has no builder for {cls.__name__}; targets that have one: 'west'; "
        "'east' has builders for no op; there is no fall-back to the op's own body"
    )
    assert op.serving_target is None


def test_the_ops_for_which_a_target_has_builders_are_named():
    claim("east", "cpu")
    for number in range(7):
        backend.register_kernel_builder(
            op=f"Sub{number}FwdOp", target="east", build_kernel=lambda: None
        )
    cls = add_op()
    nearly = f"{cls.__name__[:-5]}Op"
    backend.register_kernel_builder(op=nearly, target="east", build_kernel=lambda: None)
    with pytest.raises(OpNotAvailableError, match=rf"; 'east' has builders for {nearly}, .*, …; "):
        cls()(*pair())


def composite(part, **members):
    stages = {"kind": "composite", "stages": [{"name": "add", "op": part.__name__}]}
    cls = body_op(
        "Both", {"x": tensor()}, {"z": tensor()},
        lambda self, x: self.delegate_for("add", None)(x, x), composition=stages,
    )  # fmt: skip
    cls.delegate_types = {"add": part}
    for name, value in members.items():
        setattr(cls, name, value)
    return cls


def test_pure_composite_without_a_builder_runs_its_composition():
    claim("east", "cpu")
    part = add_op()
    builder = serve(part, "east", lambda x, y: x * 10 + y)
    op = composite(part)()
    assert op(torch.ones(2)).tolist() == [11, 11]
    assert op.serving_target == "east"
    assert op._target_builder is None
    assert op.held_delegates()[0].serving_target == "east"
    assert len(builder.builds) == 1


def test_composite_with_kernels_of_its_own_needs_a_builder():
    claim("east", "cpu")
    part = add_op()
    cls = composite(part, kernel_types=part.kernel_types, interfaces=part.interfaces)
    with pytest.raises(OpNotAvailableError, match="target 'east' has no builder"):
        cls()(torch.ones(2))


def test_composite_with_a_builder_is_served_whole():
    cls = composite(add_op())
    serve(cls, "east", lambda x: x * 7)
    op = cls(target="east")
    assert op(torch.ones(2)).tolist() == [7, 7]
    assert op.last_call.stages == {"add": ()}


def test_injected_objects_exclude_a_builder():
    part = add_op()
    cls = composite(part)
    builder = serve(cls, "east", lambda x: x * 7)
    op = cls(target="east")
    op.delegate_for("add", None, part(target=BUILTIN))
    assert op.composition_only
    assert op(torch.ones(2)).tolist() == [2, 2]
    assert op.serving_target == "east"
    assert builder.builds == []


def test_injected_objects_do_not_excuse_kernels_of_its_own():
    part = add_op()
    cls = composite(part, kernel_types=part.kernel_types, interfaces=part.interfaces)
    serve(cls, "east", lambda x: x)
    op = cls(target="east")
    op.composition_only = True
    with pytest.raises(OpNotAvailableError, match="no builder"):
        op(torch.ones(2))


def optional_op(forward=lambda self, x, w=None: x.clone(), **fields):
    params = {
        "n": {"type": "int", "default": 2},
        "scale": {"dtype": "T", "shape": "[]", "optional": True},
    }
    return body_op(
        "Optional", {"x": tensor(), "w": tensor(optional=True)}, {"y": tensor()}, forward, params
    )


def held(self, n=2, scale=None, *, target=None):
    self.n, self.scale = n, scale
    Op.__init__(self, target=target)


def test_builder_gets_specs_in_order_and_the_parameters_by_name():
    cls = optional_op()
    cls.__init__ = held
    builder = serve(cls, "east", lambda x, w: x + 1)
    scale = torch.tensor(3.0)
    op = cls(5, scale, target="east")
    x = torch.ones(2, 3)
    op(x)
    ((specs, parameters),) = builder.builds
    assert specs == (TensorSpec(CPU, torch.float32, (2, 3)), None)
    assert parameters == {"n": 5, "scale": scale}
    assert parameters["scale"] is op.scale
    assert not any(isinstance(value, torch.Tensor) for value in specs[0])
    op(x, x)
    assert builder.builds[1][0][1] == TensorSpec.of(x)


def test_unlisted_child_is_looked_up_under_its_own_name_and_gives_no_parameters():
    parent = optional_op()
    parent.__init__ = held
    child = type("ChildOfOptional", (parent,), {})
    builder = serve(child, "east", lambda x, w: x + 2)
    op = child(target="east")
    op(torch.ones(2))
    assert builder.builds[0][1] == {}
    with pytest.raises(OpNotAvailableError):
        parent(target="east")(torch.ones(2))


def test_kernel_gets_unwritten_inputs_contiguous_and_written_ones_as_passed():
    cls = body_op(
        "Acc",
        {"acc": tensor(mutated=True), "x": tensor(), "w": tensor(optional=True)},
        {"acc_out": tensor(alias="acc")},
        lambda self, acc, x, w=None: acc,
    )
    builder = serve(cls, "east", lambda acc, x, w: (acc.add_(x), None)[1])
    acc, x = torch.zeros(3, 2).t(), torch.ones(3, 2).t()
    result = cls(target="east")(acc, x)
    (given, arguments) = builder.calls[0]
    assert given[0] is acc
    assert given[1].is_contiguous()
    assert given[2] is None
    assert arguments == {}
    assert result is acc
    assert acc.tolist() == [[1, 1, 1], [1, 1, 1]]


def full_op():
    def forward(self, x, out=None, k: int = 1, mode: str = "a"):
        return x

    return body_op("Full", {"x": tensor()}, {"y": tensor(buffer="out")}, forward)


@pytest.mark.parametrize("bounded", [True, False])
def test_kernel_gets_out_only_when_passed_and_execution_arguments_by_name(bounded):
    cls = full_op() if bounded else direct(full_op())
    builder = serve(
        cls, "east", lambda x, out=None, k=0, mode="": x + k if out is None else out.copy_(x + k)
    )
    op = cls(target="east")
    x, out = torch.ones(2), torch.empty(2)
    assert op(x, k=2).tolist() == [3, 3]
    assert op(x, out, 3, "b") is out
    assert [arguments for _, arguments in builder.calls] == [
        {"k": 2, "mode": "a"},
        {"out": out, "k": 3, "mode": "b"},
    ]
    assert len(builder.builds) == 1


@pytest.mark.parametrize("returned", [None, "out"])
def test_kernel_may_return_none_for_the_caller_s_tensor(returned):
    cls = full_op()

    def run(x, out, k, mode):
        out.copy_(x + k)
        return out if returned else None

    serve(cls, "east", run)
    out = torch.empty(2)
    assert cls(target="east")(torch.ones(2), out) is out


def several(function):
    cls = body_op(
        "Several",
        {"a": tensor(mutated=True), "b": tensor(mutated=True), "x": tensor()},
        {"a_out": tensor(alias="a"), "y": tensor(), "b_out": tensor(alias="b")},
        lambda self, a, b, x: None,
    )
    serve(cls, "east", function)
    return cls(target="east")


def test_lists_and_nones_become_the_declared_tuple():
    a, b, x = (torch.full((2,), float(n)) for n in range(3))
    result = several(lambda a, b, x: [None, x + 1, b])(a, b, x)
    assert type(result) is tuple
    assert result[0] is a
    assert result[1].tolist() == [3, 3]
    assert result[2] is b


def test_result_of_a_kernel_is_checked_like_any_other():
    a, b, x = (torch.ones(2) for _ in range(3))
    for bad in (None, torch.ones(2), (None, None), (None, None, None), (None, torch.ones(3), None)):
        with pytest.raises(ValueError, match="outputs"):
            several(lambda a, b, x, bad=bad: bad)(a, b, x)


def test_kernels_are_built_per_device_dtype_shape_and_presence():
    cls = optional_op()
    cls.__init__ = held
    builder = serve(cls, "east", lambda x, w: x + 1)
    op = cls(target="east")
    x = torch.ones(2, 3)
    for _ in range(2):
        op(x)
        op(torch.zeros(3, 2).t())
        assert len(builder.builds) == 1
    op(x.half())
    op(torch.ones(3, 3))
    op(x, x)
    assert len(builder.builds) == 4
    assert set(op._target_kernels) == {
        (CPU, (torch.float32, (2, 3)), None),
        (CPU, (torch.float16, (2, 3)), None),
        (CPU, (torch.float32, (3, 3)), None),
        (CPU, (torch.float32, (2, 3)), (torch.float32, (2, 3))),
    }


class Speechless:
    def __repr__(self):
        raise OSError("no driver")


NO_KERNELS = (None, 3, "kernel", Speechless(), torch.ones(2))


@pytest.mark.parametrize("value", NO_KERNELS, ids=lambda v: type(v).__name__)
def test_builder_that_returns_no_kernel(value):
    got = "a tensor" if isinstance(value, torch.Tensor) else shown(value)
    cls = add_op()
    build = {"op": cls.__name__, "target": "east", "build_kernel": lambda *s, **p: value}
    backend.register_kernel_builder(**build)
    with pytest.raises(OpNotAvailableError) as caught:
        cls(target="east")(*pair())
    assert str(caught.value) == (
        f"the builder of target 'east' for {cls.__name__} returned {got}, which is not "
        "callable: it returns the kernel, which then gets the tensors"
    )


def test_what_builders_and_kernels_raise_passes_with_a_note():
    cls = add_op()

    def build_kernel(*specs, **parameters):
        raise MemoryError("too large")

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    with pytest.raises(MemoryError, match=r"^too large") as caught:
        cls(target="east")(*pair())
    assert caught.value.__notes__ == [f"in the builder of target 'east' for {cls.__name__}"]

    def fail(x, y):
        raise KeyError("k")

    serve(cls, "west", fail)
    with pytest.raises(KeyError) as caught:
        cls(target="west")(*pair())
    assert caught.value.__notes__ == [f"in the kernel of target 'west' for {cls.__name__}"]


def ramp(**kernels):
    cls = body_op(
        "Ramp", {}, {"y": {"dtype": "float32", "shape": "[n]"}},
        lambda self: torch.ones(self.n), {"n": {"type": "int"}}, {"forall": {}},
        workloads=[{"n": 3, "label": "three"}],
    )  # fmt: skip
    for name, value in kernels.items():
        setattr(cls, name, value)
    return cls


def test_without_any_device_nothing_is_detected_and_nothing_stays_selected():
    asked = claim("east", "cpu")
    op = ramp()(3)
    assert op().tolist() == [1, 1, 1]
    assert asked == []
    assert op.serving_target is None
    assert op.last_call.device is None
    serve(type(op), "west", lambda: torch.zeros(3))
    backend.set_default_target("west")
    assert op().tolist() == [0, 0, 0]
    assert op.serving_target == "west"


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_without_any_device_an_empty_result_is_where_torch_makes_tensors(place):
    op = ramp()(0)
    with torch.device(place):
        made = op()
    assert (tuple(made.shape), made.device.type) == ((0,), place)
    assert op.last_call.device is None


def test_without_any_device_an_explicit_target_serves():
    cls = ramp()
    builder = serve(cls, "east", lambda: torch.zeros(3))
    op = cls(3, target="east")
    assert op().tolist() == [0, 0, 0]
    assert op.serving_target == "east"
    assert builder.builds == [((), {"n": 3})]
    backend.set_default_target("east")
    assert cls(3)().tolist() == [0, 0, 0]


def test_without_any_device_no_implementation_is_available():
    part = add_op()

    def forward(self):
        from toys import AddCall

        return self.kernel_for("add", AddCall(3, 1.0, torch.float32))(3)

    op = ramp(kernel_types=part.kernel_types, interfaces=part.interfaces, forward=forward)(3)
    with pytest.raises(OpNotAvailableError) as caught:
        op()
    assert str(caught.value) == (
        f"{type(op).__name__}, interface 'add': no implementation runs on an unknown device; "
        "targets with a builder for the op: none; this instance has selected None\n"
        "  plain (AddKernel): the device is unknown"
    )
    assert op.serving_target is None
    part = part()
    assert part.serving_target is None


def test_kernel_is_looked_up_once_it_is_built():
    op = add_op()
    builder = serve(op, "east")
    op = op(target="east")
    op(*pair())
    op._build_lock = None
    op(*pair())
    assert len(builder.calls) == 2


def test_builder_runs_with_the_call_s_device_current(monkeypatch):
    log = switches(monkeypatch, devices)

    def build_kernel(*specs, **parameters):
        log.append("build")
        return lambda x, y: x + y

    cls = add_op()
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    cls(target="east")(*pair())
    assert log == [("enter", CPU), "build", ("leave", CPU)]
