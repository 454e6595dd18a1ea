from __future__ import annotations

import copy
import pickle
import threading
from contextlib import suppress

import pytest
import torch
from toys import (
    AddCall,
    AddInterface,
    AddKernel,
    add_kernel,
    add_op,
    body_op,
    define,
    pair,
    spec,
    tensor,
)

from tileops import Op, backend
from tileops._core import instances
from tileops._core.op import construct
from tileops._core.op.state import _UNRESOLVED
from tileops._core.targets import loading
from tileops.elementwise import AddFwdOp
from tileops.errors import SignatureError, SignatureTypeError
from tileops.norm import RMSNormFwdOp

STEPS = ["load", "check", "install", "register", "create"]


@pytest.fixture
def probe(monkeypatch):
    """Notes the five steps as they run; `probe.failing` makes one raise."""

    class Probe(list):
        failing = None

        def watch(self, owner, name, step):
            known = getattr(owner, name)

            def watched(*args, **kwargs):
                if self.failing == step:
                    raise OSError(step)
                self.append(step)
                return known(*args, **kwargs)

            monkeypatch.setattr(owner, name, watched)

    found = Probe()
    cls = add_op()
    found.cls = cls
    found.watch(loading, "ensure_loaded", "load")
    found.watch(cls, "_check_construction", "check")
    found.watch(cls, "_install_table", "install")
    found.watch(instances, "register", "register")
    found.watch(cls, "_create_tables", "create")
    return found


def test_steps_run_in_order(probe):
    probe.cls()
    assert probe == STEPS


@pytest.mark.parametrize("step", STEPS[:4])
def test_failing_step_leaves_an_instance_that_cannot_be_called(probe, step):
    probe.failing = step
    op = probe.cls.__new__(probe.cls)
    with pytest.raises(OSError, match=step):
        op.__init__(2.0)
    assert probe == STEPS[: STEPS.index(step)]
    with pytest.raises(RuntimeError) as caught:
        op(*torch.ones(2, 3))
    assert str(caught.value) == (
        f"{probe.cls.__name__} was not wholly constructed: its constructor must call "
        "super().__init__"
    )


CALL = AddCall(3, 1.0, torch.float32, device="cpu")
WITHOUT_THE_BASE = {
    "call": lambda op: op(*torch.ones(2, 3)),
    "explain": lambda op: op.explain(*torch.ones(2, 3)),
    "kernel_for": lambda op: op.kernel_for("add", CALL),
    "key_for": lambda op: op.key_for("add", CALL),
    "delegate_for": lambda op: op.delegate_for("part", None),
    "held as a sub-op": lambda op: composite().delegate_for("part", None, op),
    "request_tune": lambda op: op.request_tune(),
    "iter_kernels": lambda op: list(op.iter_kernels()),
    "kernel_config": lambda op: op.kernel_config(),
    "built_entries": lambda op: op.built_entries("add"),
    "held_delegates": lambda op: op.held_delegates(),
    "infer_output_shapes": lambda op: op._infer_output_shapes((3,), (3,)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
}


def composite():
    part = add_op()
    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    cls = body_op("Whole", {"x": tensor()}, {"z": tensor()}, lambda self, x: x, composition=stages)
    cls.delegate_types = {"part": part}
    return cls()


@pytest.mark.parametrize("use", WITHOUT_THE_BASE)
def test_constructor_that_forgets_the_base(use):
    def init(self):
        self.alpha = 1.0

    op = add_op(__init__=init)()
    with pytest.raises(RuntimeError) as caught:
        WITHOUT_THE_BASE[use](op)
    assert str(caught.value) == (
        f"{type(op).__name__} was not wholly constructed: its constructor must call "
        "super().__init__"
    )


def test_what_an_instance_without_the_base_says_of_itself():
    op = add_op(__init__=lambda self: None)()
    assert op.serving_target is None
    for ask in (lambda: op.last_call, op.eval_roofline, op.eval_roofline_read_bytes):
        with pytest.raises(RuntimeError, match=f"{op._name} has completed no call"):
            ask()
    op.alpha = 2.0
    del op.alpha


def test_every_field_exists_with_its_initial_value():
    op = add_op()(2.0)
    assert op.target is None
    assert op._construction_indices == {}
    assert set(op._installed_kernel_types) == {"plain"}
    assert op._keys_by_interface == {"add": ("plain",)}
    assert op._preferred_over == {"plain": frozenset()}
    assert op._instance_key.startswith(f"{type(op).__name__}#")
    assert op._target_builder is _UNRESOLVED
    assert op._serving_target is None
    for name in ("_entries_by_call", "_built_entries", "_target_kernels", "_placed_tensors"):
        assert vars(op)[name] == {}
    for name in ("_delegates", "_delegate_stages", "_effect_branches"):
        assert vars(op)[name] == {}
    for lock in (op._bind_lock, op._build_lock):
        with lock, lock:
            pass
        assert isinstance(lock, type(threading.RLock()))
    assert op._last_call is None
    assert (op.composition_only, op._tune_requested, op._tune_warned) == (False, False, False)
    assert op.dtype is None


def test_parameters_stay_as_given_and_defaults_are_the_spec_s():
    params = {
        "sizes": {"type": "list[int] | tuple[int, ...]"},
        "mode": {"type": "'fast' | 'exact'", "default": "fast"},
    }
    cls = body_op("Keep", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1, params)
    sizes = torch.Size([1, 2])
    op = cls(sizes)
    assert op.sizes == (1, 2)
    assert op.mode == "fast"


LISTED = {
    "sizes": {"type": "list[int] | tuple[int, ...]"},
    "options": {"type": "dict | None", "default": None},
}


def listed():
    """An op whose output has the parameter `sizes` as its shape, checked and computed."""
    return body_op(
        "Listed",
        {"x": tensor()},
        {"y": tensor(shape="[*sizes]")},
        lambda self, x: torch.zeros(tuple(self.sizes)),
        LISTED,
    )


def test_what_the_caller_changes_later_changes_nothing():
    sizes, inner = [1, 2], {"deep": [3]}
    options = {"inner": inner, "plain": 1}
    op, x = listed()(sizes, options), torch.ones(3)
    revived = [copy.copy(op), copy.deepcopy(op)]
    sizes[0], options["plain"], inner["deep"][0] = 7, 2, 4
    for each in (op, *revived):
        assert each(x).shape == (1, 2)
        assert each.sizes == each.last_call.indices["sizes"] == (1, 2)
        assert each.options == {"inner": {"deep": [3]}, "plain": 1}
    x = torch.ones(4)
    assert op(x).shape == (1, 2)


def test_containers_that_hold_themselves_are_kept_as_such():
    options: dict = {"list": []}
    options["list"].append(options)
    options["pair"] = (options["list"], {1})
    kept = listed()([2], options).options
    assert kept is not options
    assert kept["list"][0] is kept
    assert kept["pair"][0] is kept["list"]
    assert kept["pair"][1] is not options["pair"][1]


def test_parameter_that_is_no_attribute_of_its_own_stays():
    def init(self, sizes, options=None, *, target=None):
        self.hidden, self.options = sizes, options
        Op.__init__(self, target=target)

    cls = listed()
    cls.__init__ = init
    cls.sizes = property(lambda self: self.hidden)
    assert cls([2])(torch.ones(1)).shape == (2,)


def test_parameter_settled_before_the_base_is_the_one_that_is_checked():
    def init(self, alpha=1.0, *, target=None):
        self.alpha = "wrong"
        self.alpha = float(alpha)
        Op.__init__(self, target=target)
        self.doubled = 2 * self.alpha

    op = add_op(__init__=init)("3")
    assert (op.alpha, op.doubled) == (3.0, 6.0)


FIXED = "cannot be {} after construction; construct another op instead"


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    ("name", "value"), [("alpha", 2.0), ("alpha", "wrong"), ("target", "east")]
)
def test_what_construction_checked_cannot_be_assigned(called, name, value):
    cls = add_op()
    for op in (cls(3.0), type("Unlisted", (cls,), {})(3.0)):
        if called:
            op(*pair())
        before = getattr(op, name)
        with pytest.raises(AttributeError) as caught:
            setattr(op, name, value)
        assert str(caught.value) == f"{op._name}: {name} {FIXED.format('assigned')}"
        with pytest.raises(AttributeError) as caught:
            delattr(op, name)
        assert str(caught.value) == f"{op._name}: {name} {FIXED.format('deleted')}"
        assert getattr(op, name) is before
        setattr(op, name, before)
        op.remark = "attributes of one's own may change"
        del op.remark
        x, y = pair()
        assert torch.equal(op(x, y), 3 * x + y)


def test_parameter_assigned_after_the_base_is_refused_in_the_constructor():
    def init(self, alpha=1.0, *, target=None):
        self.alpha = alpha
        Op.__init__(self, target=target)
        self.doubled = 2 * alpha
        self.doubled = self.alpha * 2
        self.alpha = alpha + 1

    with pytest.raises(AttributeError, match="alpha cannot be assigned after construction"):
        add_op(__init__=init)(1.0)


def test_body_cannot_assign_a_parameter():
    def forward(self, x, y):
        self.alpha = 5.0

    op = add_op(forward=forward)(1.0)
    with pytest.raises(AttributeError, match="alpha cannot be assigned after construction"):
        op(*pair())
    assert op.serving_target is None


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda op: op])
def test_copies_are_as_fixed_as_what_they_are_copies_of(way):
    with pytest.raises(AttributeError, match="alpha cannot be assigned"):
        way(add_op()(1.0)).alpha = 2.0


def test_constructor_that_fails_leaves_what_it_assigned_free():
    def init(self, alpha=1.0):
        self.alpha = alpha
        with suppress(TypeError):
            Op.__init__(self, target=3)
        self.alpha = 2.0
        Op.__init__(self)

    assert add_op(__init__=init)().alpha == 2.0


def test_construction_time_tensor_cannot_be_deleted(holding):
    op = holding(torch.ones(2))
    with pytest.raises(AttributeError, match="scale cannot be deleted after construction"):
        del op.scale
    assert op(torch.ones(1, 2)).tolist() == [[1, 1]]


def test_base_runs_once():
    op = add_op()(1.0)
    with pytest.raises(RuntimeError, match=rf"{type(op).__name__}: Op.__init__ ran twice"):
        op.__init__(1.0)


@pytest.mark.parametrize("target", [3, "", b"east", True])
def test_target_is_a_name(target):
    with pytest.raises(TypeError, match="target must be None, 'builtin' or the name of a target"):
        add_op()(target=target)


def test_target_is_not_looked_up_at_construction():
    assert add_op()(target="unknown").target == "unknown"
    assert add_op()(target=backend.BUILTIN).target == "builtin"


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1.0, 2.0), {}, "too many positional arguments\n  expected (alpha=1.0, *, target=None)"),
        ((), {"beta": 1.0}, "got an unexpected keyword argument 'beta'"),
        ((1.0,), {"alpha": 1.0}, "multiple values for argument 'alpha'"),
    ],
)
def test_arguments_that_do_not_bind(args, kwargs, text):
    cls = add_op()
    with pytest.raises(SignatureTypeError) as caught:
        cls(*args, **kwargs)
    error = caught.value
    assert (error.op, error.phase) == (cls.__name__, "construction")
    assert text in str(error)


def test_type_error_of_a_constructor_passes_unchanged():
    def init(self, alpha=1.0, *, target=None):
        raise TypeError("mine")

    with pytest.raises(TypeError) as caught:
        add_op(__init__=init)(1.0)
    assert type(caught.value) is TypeError
    assert str(caught.value) == "mine"


PARAMS = {
    "n": {"type": "int", "default": 2},
    "mode": {"type": "'fast' | 'exact'", "default": "fast"},
    "out_dtype": {"type": "float16 | float32", "default": "float32"},
}


@pytest.fixture(scope="module")
def parametrised():
    return body_op(
        "Params",
        {"x": tensor()},
        {"y": tensor(dtype="out_dtype")},
        lambda self, x: x.to(self.out_dtype),
        PARAMS,
        {"shape_rules": ["n > 0"]},
    )


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"n": "two"}, SignatureTypeError, "params.n.type"),
        ({"n": True}, SignatureTypeError, "params.n.type"),
        ({"mode": "slow"}, SignatureError, "'slow'"),
        ({"mode": 3}, SignatureTypeError, "params.mode.type"),
        ({"out_dtype": torch.int32}, SignatureError, "int32"),
        ({"out_dtype": "float32"}, SignatureTypeError, "params.out_dtype.type"),
        ({"n": 0}, SignatureError, 'shape_rules[0] "n > 0" does not hold: n=0'),
    ],
)
def test_parameter_that_does_not_fit(parametrised, given, kind, text):
    with pytest.raises(kind) as caught:
        parametrised(**{"n": 2, "mode": "fast", "out_dtype": torch.float32, **given})
    assert type(caught.value) is kind
    assert caught.value.phase == "construction"
    assert text in str(caught.value)


def test_parameter_that_is_not_stored():
    def init(self, alpha=1.0, *, target=None):
        Op.__init__(self, target=target)

    with pytest.raises(SignatureTypeError, match="alpha") as caught:
        add_op(__init__=init)(1.0)
    assert caught.value.phase == "construction"


def test_table_is_installed_with_what_backends_added():
    cls = add_op()
    before = cls()
    added = add_kernel(preferred_over={"plain"})
    backend.register_kernel_type(cls.__name__, "fast", added)
    after = cls()
    assert list(before._installed_kernel_types) == ["plain"]
    assert list(after._installed_kernel_types) == ["plain", "fast"]
    x = torch.ones(2)
    assert before(x, x) is not None
    assert added.launched == 0
    after(x, x)
    assert added.launched == 1


def test_contract_faults_belong_to_construction():
    cls = add_op({"plain": AddKernel, "other": type("Stray", (AddKernel.__mro__[1],), {})})
    with pytest.raises(ValueError, match=f"{cls.__name__}: the kernel types 'other'"):
        cls()


@pytest.mark.parametrize("name", ["kernel_types", "interfaces", "delegate_types"])
@pytest.mark.parametrize("declared", [None, [AddKernel], {AddKernel}])
def test_declaration_of_a_class_that_is_no_mapping(name, declared):
    cls = add_op(**{name: declared})
    with pytest.raises(TypeError) as caught:
        cls()
    assert str(caught.value) == (
        f"{cls.__name__}: {name} must be a mapping, got a {type(declared).__name__}"
    )


def test_table_follows_what_the_class_declares_now():
    kernels = {"plain": add_kernel()}
    cls = add_op(kernels)
    cls()
    kernels["fast"] = add_kernel(preferred_over={"plain"})
    assert list(cls()._installed_kernel_types) == ["plain"]
    cls.kernel_types = kernels
    assert list(cls()._installed_kernel_types) == ["plain", "fast"]


def test_table_is_shared_until_the_registry_changes(monkeypatch):
    cls = add_op()
    assert cls()._installed_kernel_types is cls()._installed_kernel_types
    first = cls()
    backend.register_kernel_builder(op="Other", target="east", build_kernel=print)
    assert cls()._installed_kernel_types is not first._installed_kernel_types


def test_op_without_kernels_reads_the_class_s_empty_tables():
    op = body_op("Plain", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1)()
    assert "_installed_kernel_types" not in vars(op)
    for mapping in (op._installed_kernel_types, op._keys_by_interface, op._preferred_over):
        assert mapping == {}
        with pytest.raises(TypeError):
            mapping["a"] = 1


def test_kernel_type_added_to_an_op_without_interfaces():
    cls = body_op("Plain", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1)
    backend.register_kernel_type(cls.__name__, "fast", AddKernel)
    with pytest.raises(ValueError, match="implement no interface of the op; it declares none"):
        cls()


def test_construction_asks_no_device(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a device was asked")

    cls = add_op()
    for name in ("current_accelerator", "current_device_index", "is_available", "device_count"):
        monkeypatch.setattr(torch.accelerator, name, refuse)
    monkeypatch.setattr(torch.cuda, "is_available", refuse)
    cls(2.0)


HELD = {"scale": {"dtype": "T", "shape": "[C]"}}


@pytest.fixture(scope="module")
def holding():
    def init(self, scale, *, target=None):
        self.scale = scale
        Op.__init__(self, target=target)

    declared = spec(
        {"x": tensor(shape="[*S, C]")},
        {"y": tensor(shape="[*S, C]")},
        HELD,
        {"forall": {"S": "Shape", "C": "Dim", "T": "DType[float16 | float32]"}},
        workloads=[{"S": [2], "C": 3, "dtype_cases": [{"T": "float32"}], "label": "row"}],
    )
    return define("Held", declared, __init__=init, forward=lambda self, x: x * self.scale)


def test_construction_time_tensor_fixes_its_indices_once(holding):
    op = holding(torch.arange(3.0))
    assert op._construction_indices == {"C": 3, "T": "float32"}
    assert op(torch.ones(2, 3)).tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(SignatureError, match=r"inputs.x.shape"):
        op(torch.ones(2, 4))


@pytest.mark.parametrize(
    ("scale", "kind"),
    [
        (None, SignatureTypeError),
        ([1.0], SignatureTypeError),
        (torch.ones(2, 2), SignatureError),
        (torch.ones(2, dtype=torch.int32), SignatureError),
    ],
)
def test_construction_time_tensor_that_does_not_fit(holding, scale, kind):
    with pytest.raises(kind, match=r"params.scale") as caught:
        holding(scale)
    assert caught.value.phase == "construction"


def test_rebinding_a_construction_time_tensor_drops_its_copies(holding):
    op = holding(torch.ones(2))
    x = torch.ones(1, 2)
    op(x)
    op.scale = torch.full((2,), 3.0)
    assert op(x).tolist() == [[3, 3]]
    assert all(copy.tolist() == [3, 3] for copy in op._placed_tensors.get("scale", {}).values())


def test_meta_call_places_one_copy_per_device(holding):
    op = holding(torch.ones(2))
    host = op.scale
    op.scale.fill_(2.0)
    assert op(torch.ones(1, 2, device="meta")).is_meta
    assert op.scale.is_meta
    moved = op.scale
    assert op(torch.ones(1, 2)).tolist() == [[2, 2]]
    assert op.scale.data_ptr() == host.data_ptr()
    op(torch.ones(1, 2, device="meta"))
    assert op.scale is moved


def test_implementation_table_is_kept_by_class():
    cls = add_op()
    assert construct.implementation_table(cls) is construct.implementation_table(cls)
    assert AddInterface in cls.interfaces.values()


def test_an_op_is_shown_with_its_parameters():
    assert repr(RMSNormFwdOp([64])) == "RMSNormFwdOp(normalized_shape=(64,), eps=None)"
    assert repr(AddFwdOp()) == "AddFwdOp(alpha=1)"
    assert repr(object.__new__(RMSNormFwdOp)) == "RMSNormFwdOp()", "a constructor may show itself"
