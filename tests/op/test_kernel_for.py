from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from toys import AddCall, AddInterface, AddKernel, add_kernel, add_op, pair, switches

from tileops import backend
from tileops._core import devices
from tileops._core.dispatch import toolchain
from tileops._core.op import entries
from tileops.errors import DispatchError, OpNotAvailableError
from tileops.kernels import CallSpec, KernelInterface


def call(n=6, alpha=1.0, dtype=torch.float32, **stated):
    return AddCall(n, alpha, dtype, **{"device": "cpu", **stated})


def by_dtype(**declared):
    """A kernel class whose builds depend on nothing but alpha."""

    def entry_for(cls, spec):
        return spec.alpha, lambda: cls(spec)

    return add_kernel(entry_for=classmethod(entry_for), **declared)


def test_hit_calls_nothing(monkeypatch):
    op = add_op()()
    entry = op.kernel_for("add", call())

    def refuse(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(entries, "choose", refuse)
    monkeypatch.setattr("tileops._core.dispatch.call_spec.device_facts", refuse)
    op._build_lock = None
    assert op.kernel_for("add", call()) is entry


FIELDS = 6, 1.0, torch.float32
CPU = torch.device("cpu")


def counted(made):
    """The class of call specs, which notes what it makes."""

    def make(*fields, **named):
        made.append(fields)
        return AddCall(*fields, **named)

    return make


def test_fields_make_no_call_spec_where_the_entry_is_known():
    op, made = add_op()(), []
    make = counted(made)
    entry = op.kernel_for_fields("add", make, CPU, *FIELDS)
    assert op.kernel_for_fields("add", make, CPU, *FIELDS) is entry
    assert made == [FIELDS]
    assert op.kernel_for("add", call()) is op.kernel_for_fields("add", AddCall, CPU, *FIELDS)
    assert op.kernel_for_fields("add", make, CPU, 7, *FIELDS[1:]) is not entry
    op._initialise_binding()
    assert op.kernel_for_fields("add", make, CPU, *FIELDS) is not entry


def test_fields_on_a_device_that_may_change_are_asked_of_each_time(monkeypatch):
    op, made = add_op({"plain": add_kernel(devices={"cpu", "meta"})})(), []
    make = counted(made)
    for device in (None, "cpu"):
        monkeypatch.setattr(entries, "current_device", lambda: torch.device("meta"))
        first = op.kernel_for_fields("add", make, device, *FIELDS)
        monkeypatch.setattr(entries, "current_device", lambda: CPU)
        assert (op.kernel_for_fields("add", make, device, *FIELDS) is first) is (device == "cpu")
    assert len(made) == 4


def test_fields_of_a_class_that_adds_more_are_asked_of_each_time():
    """Values that are equal need not be the same to it: it may refuse a float."""

    @dataclass(frozen=True)
    class Whole(AddCall):
        def __post_init__(self):
            super().__post_init__()
            if type(self.n) is not int:
                raise TypeError("n is an int")

    op = add_op()()
    entry = op.kernel_for_fields("add", Whole, CPU, *FIELDS)
    assert op.kernel_for_fields("add", Whole, CPU, *FIELDS) is entry
    with pytest.raises(TypeError, match="n is an int"):
        op.kernel_for_fields("add", Whole, CPU, 6.0, *FIELDS[1:])


def test_fields_that_are_refused_are_those_of_the_call_spec():
    op = add_op()()
    with pytest.raises(TypeError, match="AddCall.alpha holds a list, which cannot be a cache key"):
        op.kernel_for_fields("add", AddCall, CPU, 6, [1.0], torch.float32)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dtype'"):
        op.kernel_for_fields("add", AddCall, CPU, 6, 1.0)
    with pytest.raises(OpNotAvailableError, match="has no kernel interface 'sub'"):
        op.kernel_for_fields("sub", AddCall, CPU, *FIELDS)
    assert op._entries_by_call == {}


def test_identity_decides_what_is_shared():
    kernel = by_dtype()
    op = add_op({"plain": kernel})()
    first = op.kernel_for("add", call())
    assert op.kernel_for("add", call(7, dtype=torch.float16)) is first
    assert op.kernel_for("add", call(alpha=2.0)) is not first
    assert kernel.built == 2
    assert set(op.built_entries("add")) == {(kernel, 1.0), (kernel, 2.0)}
    assert len(op._entries_by_call) == 3


def test_entries_are_shared_across_neither_classes_interfaces_nor_instances():
    class Other(KernelInterface):
        request = AddCall

        def forward(self, x, y): ...

    def entry_for(cls, spec):
        return None, lambda: cls(spec)

    kernel = type("Two", (AddKernel, Other), {"entry_for": classmethod(entry_for)})
    cls = add_op({"plain": kernel}, interfaces={"add": AddInterface, "other": Other})
    op = cls()
    entry = op.kernel_for("add", call())
    assert op.kernel_for("other", call()) is not entry
    assert cls().kernel_for("add", call()) is not entry
    small = add_kernel(
        entry_for=classmethod(entry_for),
        refusal=classmethod(lambda cls, spec: None if spec.n < 4 else "too many"),
        preferred_over={"plain"},
    )
    op = add_op({"plain": kernel, "small": small})()
    assert type(op.kernel_for("add", call(3))) is small
    assert type(op.kernel_for("add", call(4))) is kernel


def test_unknown_interface():
    op = add_op()()
    for ask in (op.kernel_for, op.key_for):
        with pytest.raises(OpNotAvailableError) as caught:
            ask("sub", call())
        assert str(caught.value) == (
            f"{type(op).__name__} has no kernel interface 'sub'; declared: 'add'; targets with a "
            "builder for the op: none"
        )
    with pytest.raises(OpNotAvailableError, match="has no kernel interface 'sub'"):
        op.built_entries("sub")


@dataclass(frozen=True)
class OtherCall(CallSpec):
    n: int = 0


@pytest.mark.parametrize("spec", [OtherCall(device="cpu"), None, [3], "add"])
def test_call_spec_of_another_type(spec):
    op = add_op()()
    for ask in (op.kernel_for, op.key_for):
        with pytest.raises(TypeError) as caught:
            ask("add", spec)
        assert str(caught.value) == (
            f"{type(op).__name__}: interface 'add' is asked with AddCall, got {type(spec).__name__}"
        )


@pytest.mark.parametrize("value", [[1], torch.ones(1), {}])
def test_field_that_cannot_be_a_key(value):
    with pytest.raises(TypeError) as caught:
        add_op()().kernel_for("add", call(alpha=value))
    assert str(caught.value) == (
        f"AddCall.alpha holds a {type(value).__name__}, which cannot be a cache key"
    )


def test_stated_facts_are_refused_also_after_the_same_fields_were_served():
    op = add_op()()
    op.kernel_for("add", call())
    with pytest.raises(TypeError) as caught:
        op.kernel_for("add", call(arch=-1, sm_count=0))
    text = "states the device facts arch, sm_count; kernel_for reads them from the device, key_for"
    assert text in str(caught.value)


def test_no_implementation_runs_on_the_device():
    backend.register_kernel_builder(op="Other", target="west", build_kernel=print)
    cls = add_op({"plain": add_kernel(devices={"cuda"})})
    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=print)
    op = cls()
    with pytest.raises(OpNotAvailableError) as caught:
        op(*pair())
    assert str(caught.value) == (
        f"{cls.__name__}, interface 'add': no implementation runs on cpu; targets with a builder "
        "for the op: 'east'; this instance has selected 'builtin'\n"
        "  plain (AddKernel): runs on cuda, not on cpu"
    )


def test_absent_device_without_an_accelerator():
    with pytest.raises(OpNotAvailableError, match="runs on an unknown device"):
        add_op()().kernel_for("add", call(device=None))


def test_absent_device_is_the_accelerator_s_current_one(monkeypatch):
    monkeypatch.setattr(entries, "current_device", lambda: torch.device("cpu"))
    op = add_op()()
    entry = op.kernel_for("add", call(device=None))
    assert op.kernel_for("add", call()) is entry
    assert op.key_for("add", call(device=None)) == "plain"


def test_no_implementation_serves_the_call():
    refuse = classmethod(lambda cls, spec: f"n must be below 4, got {spec.n}")
    kernels = {
        "small": add_kernel(refusal=refuse),
        "tile": add_kernel(devices={"cuda"}),
    }
    op = add_op(kernels)()
    with pytest.raises(DispatchError) as caught:
        op.kernel_for("add", call())
    assert str(caught.value).splitlines() == [
        f"{type(op).__name__}, interface 'add': no implementation serves the call",
        "  small (AddKernel): n must be below 4, got 6",
        "  tile (AddKernel): runs on cuda, not on cpu",
        "  call: device=device(type='cpu'), n=6, alpha=1.0, dtype=torch.float32",
    ]
    assert caught.value.candidates[0] == ("small", "AddKernel", "n must be below 4, got 6")


def test_several_implementations_serve_the_call():
    op = add_op({"a": add_kernel(), "b": add_kernel(), "c": add_kernel(devices={"cuda"})})()
    with pytest.raises(DispatchError) as caught:
        op.kernel_for("add", call())
    lines = str(caught.value).splitlines()
    assert lines[0].endswith(
        "'a', 'b' serve the call and none is preferred; preferred_over on one of them settles it"
    )
    assert lines[1:3] == ["  a (AddKernel): accepted", "  b (AddKernel): accepted"]


def test_several_implementations_of_which_packages_added_some():
    cls = add_op({"a": add_kernel(), "c": add_kernel(devices={"cuda"})})
    for key in ("b", "d"):
        devices = {"cpu"} if key == "b" else {"cuda"}
        backend.register_kernel_type(cls.__name__, key, add_kernel(devices=devices))
    with pytest.raises(DispatchError, match=r"settles it; kernel types were added: 'b' by abc\n"):
        cls().kernel_for("add", call())


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        (None, "entry_for returned None, expected an identity and a callable"),
        ((1, 2, 3), "entry_for returned (1, 2, 3), expected"),
        ((1, 2), "entry_for returned (1, 2), expected"),
        (([], len), "entry_for returned the identity [], which cannot be hashed"),
    ],
)
def test_entry_for_of_the_wrong_form(pair, text):
    kernel = add_kernel(entry_for=classmethod(lambda cls, spec: pair))
    with pytest.raises(TypeError) as caught:
        add_op({"plain": kernel})().kernel_for("add", call())
    assert str(caught.value).startswith(f"AddKernel.{text}")


@pytest.mark.parametrize("entry", [None, 5])
def test_factory_that_returns_nothing_to_call(entry):
    kernel = add_kernel(entry_for=classmethod(lambda cls, spec: ("id", lambda: entry)))
    op = add_op({"plain": kernel})()
    with pytest.raises(TypeError) as caught:
        op.kernel_for("add", call())
    assert str(caught.value) == (
        f"AddKernel.entry_for: the factory returned {entry}, which is not callable, for the "
        "identity 'id'"
    )
    assert op._entries_by_call == {}
    assert not op.built_entries("add")


@dataclass
class Several:
    """An entry of more than one kernel."""

    parts: list

    def __call__(self, x, y):
        return self.parts[0](x, y)


@pytest.mark.parametrize("whole", [True, False])
def test_kernel_whose_constructor_leaves_out_that_of_kernel(whole):
    def __init__(self, call):
        self.call = call

    kernel = add_kernel(__init__=__init__)

    def entry_for(cls, call):
        return "id", lambda: cls(call) if whole else Several([cls(call)])

    kernel.entry_for = classmethod(entry_for)
    op = add_op({"plain": kernel})()
    with pytest.raises(TypeError, match=r"AddKernel.__init__ does not call super.*") as caught:
        op.kernel_for("add", call())
    (note,) = caught.value.__notes__
    assert note.endswith("built AddKernel (key 'plain') for its interface 'add'")
    assert caught.value.__context__ is None
    assert not op.built_entries("add")


def test_what_a_factory_raises_passes_with_a_note():
    def factory():
        raise OSError("no compiler")

    kernel = add_kernel(entry_for=classmethod(lambda cls, spec: ("id", factory)))
    op = add_op({"plain": kernel})()
    with pytest.raises(OSError, match="no compiler") as caught:
        op.kernel_for("add", call())
    assert caught.value.__notes__ == [
        f"while {type(op).__name__} built AddKernel (key 'plain') for its interface 'add'"
    ]
    assert op._entries_by_call == {}


def broken(cls, call):
    raise OSError("no driver")


@pytest.mark.parametrize(
    ("member", "doing"),
    [
        ("refusal", "selected an implementation for"),
        ("entry_for", "built AddKernel (key 'plain') for"),
    ],
)
def test_what_an_implementation_raises_passes_with_a_note(member, doing):
    op = add_op({"plain": add_kernel(**{member: classmethod(broken)})})()
    with pytest.raises(OSError, match="no driver") as caught:
        op.kernel_for("add", call())
    assert caught.value.__notes__ == [f"while {type(op).__name__} {doing} its interface 'add'"]


def test_key_for_builds_nothing_and_takes_stated_facts():
    kernels = {
        "plain": add_kernel(general=True),
        "hopper": add_kernel(devices={"cuda"}, supported_archs={90}),
    }
    op = add_op(kernels)()
    assert op.key_for("add", call()) == "plain"
    assert op.key_for("add", call(device=None, arch=90)) == "hopper"
    assert op.key_for("add", call(device=None, arch=80)) == "plain"
    assert op.key_for("add", call(device="cuda:3", arch=90)) == "hopper"
    assert not op._built_entries
    with pytest.raises(OpNotAvailableError):
        op.key_for("add", call(device=None))


def test_ten_thousand_call_specs_leave_the_tables_bounded():
    kernel = by_dtype()
    op = add_op({"plain": kernel})()
    for n in range(10_000):
        op.kernel_for("add", call(n))
    assert len(op._entries_by_call) == entries.MOST_CALL_SPECS
    assert kernel.built == 1
    op.kernel_for("add", call(0))
    assert kernel.built == 1
    for n in range(entries.MOST_CALL_SPECS):
        op.kernel_for_fields("add", AddCall, CPU, n, *FIELDS[1:])
    assert len(op._entries_by_call) == entries.MOST_CALL_SPECS
    assert kernel.built == 1


def test_building_and_tuning_run_on_the_call_s_device(monkeypatch):
    log = switches(monkeypatch, devices)

    class Noting(AddKernel):
        def __init__(self, spec):
            super().__init__(spec)
            log.append("build")

        def request_tune(self):
            log.append("tune")

    op = add_op({"plain": Noting})()
    op.request_tune()
    op.kernel_for("add", call())
    cpu = torch.device("cpu")
    assert log == [("enter", cpu), "build", "tune", ("leave", cpu)]


class Switch:
    """Stands for an accelerator of two devices, of which the first is current."""

    current = 0

    @contextmanager
    def to(self, index):
        before, self.current = self.current, index
        try:
            yield
        finally:
            self.current = before


@pytest.fixture
def accelerator(monkeypatch):
    switch = Switch()
    monkeypatch.setattr(devices, "accelerator_type", lambda: "cuda")
    monkeypatch.setattr(torch.accelerator, "device_index", switch.to)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: switch.current)
    return switch


def test_each_of_two_devices_is_current_while_its_entry_is_built(accelerator):
    class Noting(AddKernel):
        devices = frozenset({"cpu", "cuda"})
        made = []

        def __init__(self, spec):
            super().__init__(spec)
            self.made.append((spec.device, accelerator.current))

    op = add_op({"plain": Noting})()
    for device in ("cuda:1", "cuda:0", "cuda:1", "cpu"):
        op.kernel_for("add", call(device=device))
        assert accelerator.current == 0
    one, zero = torch.device("cuda", 1), torch.device("cuda", 0)
    assert Noting.made == [(one, 1), (zero, 0), (torch.device("cpu"), 0)]


def test_device_is_current_again_after_a_factory_that_raises(accelerator):
    def factory():
        raise OSError(f"no memory on {accelerator.current}")

    kernel = add_kernel(
        devices={"cuda"}, entry_for=classmethod(lambda cls, spec: (spec.device, factory))
    )
    op = add_op({"plain": kernel})()
    with pytest.raises(OSError, match="no memory on 1"):
        op.kernel_for("add", call(device="cuda:1"))
    assert accelerator.current == 0
    assert not op.built_entries("add")


def test_portable_implementation_standing_in_for_tilelang_is_said_once(monkeypatch):
    monkeypatch.setattr(toolchain, "has_tilelang", lambda: False)
    monkeypatch.setattr(toolchain, "_warned", False)
    kernels = {
        "plain": add_kernel(devices={"cpu", "cuda"}, general=True),
        "tile": add_kernel(devices={"cuda"}, make_program=lambda self, config: None),
    }
    cls = add_op(kernels)
    with pytest.warns(RuntimeWarning, match=r"'add' on CUDA.*tileops\[cuda\]") as caught:
        cls().kernel_for("add", call(device="cuda:0"))
    assert cls.__name__ in str(caught[0].message)
    cls().kernel_for("add", call(device="cuda:0"))
    assert len(caught) == 1


def test_nothing_is_said_where_no_tilelang_kernel_would_serve(monkeypatch):
    monkeypatch.setattr(toolchain, "_warned", False)
    kernels = {
        "plain": add_kernel(devices={"cpu", "cuda"}, general=True),
        "tile": add_kernel(devices={"cuda"}, supported_archs={90}),
    }
    add_op(kernels)().kernel_for("add", call(device="cuda:0"))


def test_mappings_are_read_only():
    op = add_op()()
    op(*pair())
    for mapping in (op.built_entries("add"), op._installed_kernel_types, op._keys_by_interface):
        with pytest.raises(TypeError):
            mapping["x"] = 1
