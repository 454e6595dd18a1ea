"""What the life of an op promises, on the ops of the library and where no other test says it."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields, is_dataclass

import pytest
import torch
from toys import AddCall, add_kernel, add_op, body_op, pair, tensor

import tileops
from tileops import Op, backend, ops
from tileops._core.spec.registry import lookup
from tileops.elementwise import AlibiFwdOp, SiluFwdOp
from tileops.errors import SignatureError
from tileops.gemm import GemmFwdOp
from tileops.kernels import Kernel
from tileops.norm import RMSNormFwdOp
from tileops.pool import AvgPool2dFwdOp
from tileops.reduction import ProdFwdOp, SumFwdOp
from tileops.rope import LongRoPEFwdOp, RoPEFwdOp


def test_constructors_take_parameters_target_and_what_is_injected():
    """No shape or dtype that tensors carry, no tuning flag, no configuration."""
    listed = [lookup(name) for name in tileops.list_ops(status="implemented")]
    specs = [spec for spec in listed if spec.in_tree]
    assert len(specs) > 100
    for spec in specs:
        cls, signature = getattr(ops, spec.name), spec.signature
        taken = inspect.signature(cls.__init__).parameters
        admitted = {"self", "target", *signature.params, *cls.injected_parameters}
        assert set(taken) == admitted, spec.name
        assert taken["target"].kind is inspect.Parameter.KEYWORD_ONLY, spec.name


def test_family_bases_assign_what_their_leaves_pass():
    rope = RoPEFwdOp(input_layout="1d", base=500.0)
    assert RoPEFwdOp.__mro__[1] is not Op
    assert (rope.input_layout, rope.base) == ("1d", 500.0)
    total = SumFwdOp([0], True)
    assert SumFwdOp.__mro__[1] is not Op
    assert (total.dim, total.keepdim) == ((0,), True)


def test_op_without_inputs_takes_its_extent_and_dtype():
    op = AlibiFwdOp(seq_len=3, num_heads=2, out_dtype=torch.float16, device="cpu")
    assert (tuple(op().shape), op().dtype) == ((2, 3, 3), torch.float16)


def test_accumulation_dtype_is_a_parameter_where_the_spec_says_so():
    assert Op.dtype is None
    op = ProdFwdOp(0, dtype=torch.float32)
    assert op.dtype is torch.float32
    assert op(torch.full((2,), 3.0).half()).dtype is torch.float32
    assert ProdFwdOp(0).dtype is None


def test_construction_reads_shape_and_dtype_of_a_construction_time_tensor():
    factors = torch.ones(4)
    op = LongRoPEFwdOp(rescale_factors=factors)
    assert op.rescale_factors is factors
    with pytest.raises(SignatureError, match=r"params.rescale_factors") as caught:
        LongRoPEFwdOp(rescale_factors=torch.ones(2, 2))
    assert caught.value.phase == "construction"
    with pytest.raises(SignatureError, match=r"params.rescale_factors"):
        LongRoPEFwdOp(rescale_factors=torch.ones(4, dtype=torch.int32))


def test_parameter_stays_as_given_where_others_derive_from_it():
    op = AvgPool2dFwdOp(3)
    assert op.kernel_size == 3
    assert tuple(op(torch.ones(1, 1, 6, 6)).shape) == (1, 1, 2, 2)


def test_construction_selects_and_builds_nothing():
    asked, built, kernel = [], [], add_kernel()
    cls = add_op({"plain": kernel})
    backend.register_detector(target="east", detect=asked.append)
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *s, **p: built.append(s)
    )
    op = cls(2.0, target="east")
    assert (asked, built, kernel.built, op.serving_target) == ([], [], 0, None)


def test_constructing_the_first_op_loads_the_backends(packages):
    source = "from tileops import backend\n"
    source += "backend.register_detector(target='first', detect=lambda device: False)\n"
    packages(pkg_first=source)
    assert "pkg_first" not in sys.modules
    add_op()()
    assert "pkg_first" in sys.modules


def test_injected_parameters_are_neither_read_nor_stored():
    def init(self, alpha=1.0, *, experts=None, target=None):
        self.alpha = alpha
        Op.__init__(self, target=target)

    op = add_op(__init__=init, injected_parameters=("experts",))(experts=object())
    assert not hasattr(op, "experts")
    assert op.injected_parameters == ("experts",)
    op(*pair())


def test_registering_a_kernel_type_builds_nothing():
    cls, added = add_op(), add_kernel(preferred_over={"plain"})
    backend.register_kernel_type(cls.__name__, "fast", added)
    op = cls()
    assert added.built == 0
    assert op.key_for("add", AddCall(6, 1.0, torch.float32, device="cpu")) == "fast"
    assert added.built == 0
    op(*pair())
    assert added.built == 1


def test_one_kernel_type_makes_an_entry_for_each_identity():
    on_chip = RMSNormFwdOp.kernel_types["on_chip"]
    request = RMSNormFwdOp.interfaces["rms_norm"].request

    def identity(n, dtype):
        return on_chip.entry_for(request(n, 1e-6, True, dtype, device="cpu"))[0]

    assert identity(4096, torch.float16) == identity(4096, torch.float16)
    assert identity(4096, torch.float16) != identity(8192, torch.bfloat16)
    op = RMSNormFwdOp([8])
    x = torch.ones(2, 8)
    for value in (x, x[:1], x.half()):
        op(value)
    kinds = {kernel_type for kernel_type, _ in op.built_entries("rms_norm")}
    assert kinds == {RMSNormFwdOp.kernel_types["portable"]}
    assert len(op.built_entries("rms_norm")) == 2


CALLS = [
    (SiluFwdOp, lambda: (torch.ones(3),)),
    (GemmFwdOp, lambda: (torch.ones(2, 3), torch.ones(4, 3))),
    (lambda: RMSNormFwdOp([4]), lambda: (torch.ones(2, 4),)),
    (lambda: SumFwdOp([0]), lambda: (torch.ones(2, 4),)),
    (RoPEFwdOp, lambda: (torch.ones(2, 4),)),
    (lambda: AvgPool2dFwdOp(2), lambda: (torch.ones(1, 1, 4, 4),)),
]


@pytest.mark.parametrize(("make", "arguments"), CALLS)
def test_entries_are_held_by_the_base_alone(make, arguments):
    op = make()
    op(*arguments())
    assert any(op.built_entries(name) for name in op.interfaces)
    caches = {"_entries_by_call", "_built_entries", "_target_kernels"}
    assert not [name for name, value in vars(op).items() if name not in caches and holds(value)]


def holds(value):
    """Whether a kernel lies in a value."""
    if isinstance(value, dict):
        return any(map(holds, value.values()))
    if isinstance(value, (tuple, list, set, frozenset)):
        return any(map(holds, value))
    if is_dataclass(value) and not isinstance(value, type):
        return any(holds(getattr(value, item.name)) for item in fields(value))
    return isinstance(value, Kernel)


GENERATED = {
    "_parameter_names", "_spec", "_signature", "_check_construction", "_infer_output_shapes",
    "_call_parameters", "_call_entry", "_call_boundary", "_abc_impl", "_replaced_members",
    "_fixed_names",
}  # fmt: skip


def test_ops_write_their_body_and_override_nothing_of_the_base():
    base = {name for owner in Op.__mro__ for name in vars(owner) if name[:1] == "_" != name[1:2]}
    for name in tileops.list_ops(status="implemented"):
        cls = getattr(ops, name, None)
        if cls is None:
            continue
        owners = cls.__mro__[: cls.__mro__.index(Op)]
        own = {member for owner in owners for member in vars(owner)}
        assert own & base <= GENERATED, name
        assert "forward" in own


def ramp(**members):
    cls = body_op(
        "Ramp", {}, {"y": {"dtype": "float32", "shape": "[n]"}},
        lambda self: torch.ones(self.n), {"n": {"type": "int"}}, {"forall": {}},
        workloads=[{"n": 3, "label": "three"}],
    )  # fmt: skip
    for name, value in members.items():
        setattr(cls, name, value)
    return cls


def test_current_device_of_the_accelerator_comes_last(monkeypatch):
    from tileops._core.runtime import placement

    monkeypatch.setattr(placement, "current_device", lambda: torch.device("cpu"))
    op = ramp()(3)
    op()
    assert op.last_call.device == torch.device("cpu")
    assert op.serving_target == "builtin"


def test_body_without_a_boundary_gets_every_argument_by_name():
    part, seen = add_op(), []
    cls = body_op(
        "Named", {"x": tensor(), "w": tensor(optional=True)}, {"z": tensor()},
        lambda self, x, w=None: x + 1,
        composition={"kind": "composite", "stages": [{"name": "a", "op": part.__name__}]},
    )  # fmt: skip
    op = cls()
    op.forward = lambda **named: seen.append(named) or named["x"] + 1
    x = torch.ones(2)
    op(x)
    op(w=x, x=x)
    assert seen == [{"x": x, "w": None}, {"x": x, "w": x}]


WRONG = {
    "two devices": (lambda x: (x, torch.empty(2, device="meta"), None), {}),
    "a strided tensor that is written and declared contiguous": (
        lambda x: (torch.ones(4)[::2], x, None), {"mutated": True, "contiguous": True},
    ),
    "another shape": (lambda x: (x, torch.ones(3), None), {}),
    "a buffer of another dtype": (lambda x: (x, x, torch.ones(2).half()), {}),
    "a buffer that is an input": (lambda x: (x, torch.ones(2), x), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_target_is_reached_by_no_call_that_the_signature_rejects(case):
    make, declared = WRONG[case]

    def forward(self, a, b, out=None):
        return a + b

    def forward_without(self, a, b):
        return a + b

    buffer = {} if declared else {"buffer": "out"}
    cls = body_op(
        "Refused", {"a": tensor(**declared), "b": tensor()}, {"y": tensor(**buffer)},
        forward_without if declared else forward,
        composition={"kind": "composite", "stages": [{"name": "a", "op": add_op().__name__}]},
    )  # fmt: skip
    built = []
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *s, **p: built.append(s) or sum
    )
    op = cls(target="east")
    arguments = make(torch.ones(2))
    with pytest.raises(SignatureError):
        op(*arguments[: 2 if declared else 3])
    assert built == []
    assert op.serving_target is None
