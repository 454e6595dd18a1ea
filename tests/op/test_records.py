from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace

import pytest
import torch
from toys import add_kernel, add_op, body_op, composite, define, pair, spec, tensor

from tileops import backend
from tileops._core import devices
from tileops._core.runtime.record import SignatureCall
from tileops.errors import OpNotAvailableError, SignatureError


def test_last_call_before_after_and_after_a_failure():
    op = add_op()()
    for ask in (lambda: op.last_call, op.eval_roofline, op.eval_roofline_read_bytes):
        with pytest.raises(
            RuntimeError, match=f"^{type(op).__name__} has completed no call; call it first$"
        ):
            ask()
    op(*pair(4))
    record = op.last_call
    with pytest.raises(ValueError, match=r"inputs.y"):
        op(torch.ones(2), torch.ones(3))
    assert op.last_call is record
    op(*pair(5))
    assert op.last_call is not record


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
def test_record_is_copied_and_pickled(way):
    part = add_op()
    stages = {"kind": "composite", "stages": [{"name": "add", "op": part.__name__}]}
    cls = body_op(
        "Kept",
        {"x": tensor(), "ids": {"dtype": "int32", "shape": "[2]", "values": "full((2,), 0)"}},
        {"z": tensor()},
        lambda self, x, ids: self.delegate_for("add", None)(x, x),
        composition=stages,
    )
    cls.delegate_types = {"add": part}
    op = cls()
    op(torch.ones(3), torch.tensor([4, 5], dtype=torch.int32))
    record, new = op.last_call, way(op.last_call)
    assert new is not record
    for field in ("indices", "branch_key", "device", "tensors", "traffic", "written", "has_out"):
        assert getattr(new, field) == getattr(record, field)
    assert new.metadata_values("ids") == [4, 5]
    (inner,) = new.stages["add"]
    assert inner.shape("z") == (3,)
    with pytest.raises(AttributeError, match="a record is frozen"):
        new.facts = None


def test_fields_of_a_record():
    op = add_op()(2.0)
    op(*pair(6))
    record = op.last_call
    assert dict(record.indices) == {"alpha": 2.0, "S": (6,), "T": "float32"}
    assert record.device == torch.device("cpu")
    described = ((6,), "float32")
    assert dict(record.tensors) == {"x": described, "y": described, "z": described}
    assert [tuple(t) for t in record.traffic] == [("x", 1, 0), ("y", 1, 0), ("z", 0, 1)]
    assert (record.written, record.has_out) == ((), False)
    assert (record.metadata, record.stages) == ({}, {})
    assert (record.shape("z"), record.bytes("z"), record.present("z")) == ((6,), 24, True)
    assert record.derived_bytes() == 72


def test_record_is_frozen():
    op = add_op()()
    op(*pair())
    for name in ("device", "stages", "anything"):
        with pytest.raises(AttributeError):
            setattr(op.last_call, name, None)


def test_record_of_a_buffer_lists_the_output_not_out():
    op = body_op(
        "Buffer", {"x": tensor()}, {"y": tensor(buffer="out")},
        lambda self, x, out=None: out.copy_(x),
    )()  # fmt: skip
    op(torch.ones(2), torch.empty(2))
    assert op.last_call.has_out
    assert op.last_call.present("out")
    assert set(op.last_call.tensors) == {"x", "y"}


def test_record_keeps_no_tensor_but_metadata():
    import gc
    import weakref

    op = add_op()()
    x, y = pair()
    held = weakref.ref(x)
    op(x, y)
    del x
    gc.collect()
    assert held() is None


def metadata_op():
    return body_op(
        "Offsets",
        {
            "x": tensor(shape="[N]"),
            "starts": {"dtype": "int32", "shape": "[B + 1]", "values": "prefix_sum(lens)"},
        },
        {"y": tensor(shape="[N]")},
        lambda self, x, starts: x + 1,
        None,
        {"forall": {"N": "Dim", "B": "Dim", "T": "DType[float32]", "lens": "Seq[Int]"}},
        workloads=[{"N": 3, "lens": [1, 2], "dtype_cases": [{"T": "float32"}], "label": "row"}],
    )


def test_metadata_is_copied_when_asked():
    op = metadata_op()()
    starts = torch.tensor([0, 1, 3], dtype=torch.int32)
    op(torch.ones(3), starts)
    record = op.last_call
    assert record.metadata["starts"] is starts
    assert record.metadata_values("starts") == [0, 1, 3]
    starts[1] = 2
    assert record.metadata_values("starts") == [0, 2, 3]
    with pytest.raises(KeyError, match="x is no metadata tensor of this call; known: starts"):
        record.metadata_values("x")


def test_metadata_of_a_captured_call_belongs_to_its_caller(monkeypatch):
    starts = torch.tensor([0, 1, 3], dtype=torch.int32)
    op = metadata_op()()
    op(torch.ones(3), starts)
    monkeypatch.setattr(devices, "accelerator_type", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    facts = replace(op.last_call.facts, device=torch.device("cuda"))
    record = SignatureCall(facts, {"starts": starts})
    assert record.metadata_values("starts") == [0, 1, 3]
    del op, starts
    with pytest.raises(KeyError, match="starts is no metadata tensor of this call; known: none"):
        record.metadata_values("starts")


def test_metadata_of_a_meta_call_has_no_values():
    op = metadata_op()()
    op(torch.empty(3, device="meta"), torch.empty(3, dtype=torch.int32, device="meta"))
    with pytest.raises(OpNotAvailableError, match="starts is a meta tensor"):
        op.last_call.metadata_values("starts")


def with_roofline(**roofline):
    return body_op(
        "Roof", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + 1, roofline=roofline
    )


def test_roofline_and_read_bytes():
    op = with_roofline(flops="3 * prod(S)")()
    op(torch.ones(2, 5))
    assert op.eval_roofline() == (30, 80)
    assert op.eval_roofline_read_bytes() == 40
    assert op.roof_key() == "cuda_core.fp32"
    assert op.roofline_data_terms() == {}


def test_roofline_of_the_wrong_form():
    op = with_roofline(flops="prod(S) - 100")()
    op(torch.ones(2))
    with pytest.raises(ValueError, match=r"roofline.flops"):
        op.eval_roofline()


def rows_over_length(call):
    return 8 // call.tensors["x"][0][0], 0


@pytest.mark.parametrize(
    "roofline",
    [{"flops": "8 // prod(S)"}, {"func": f"{__name__}.rows_over_length"}],
    ids=["formula", "function"],
)
def test_a_roofline_that_an_empty_call_divides_by_zero(roofline):
    op = with_roofline(**roofline)()
    op(torch.ones(0))
    with pytest.raises(SignatureError, match=r"roofline\.(flops|func).* by zero"):
        op.eval_roofline()


def stage_count(call):
    return len(call.stages["part"]), sum(record.derived_bytes() for record in call.stages["part"])


def test_roofline_that_needs_stages_refuses_to_guess():
    part = add_op()
    stages = {"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]}
    cls = define(
        "Staged",
        spec(
            {"x": tensor()}, {"z": tensor()}, composition=stages,
            roofline={"func": f"{__name__}.stage_count"},
        ),
        delegate_types={"part": part},
        forward=lambda self, x: self.delegate_for("part", None)(x, x),
    )  # fmt: skip
    import sys

    sys.modules.setdefault(__name__, sys.modules[stage_count.__module__])
    op = cls()
    op(torch.ones(2))
    assert op.eval_roofline() == (1, 24)
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda x: lambda x: x + x
    )
    op = cls(target="east")
    op(torch.ones(2))
    assert op.last_call.stages == {"part": ()}
    with pytest.raises(RuntimeError) as caught:
        op.eval_roofline()
    assert str(caught.value) == (
        f"{cls.__name__}: the roofline needs the stage 'part', of which there is no record: target "
        "'east' serves the op as a whole"
    )
    op._reset_binding()  # As the undo of an op that holds it does; the record stays what it was.
    with pytest.raises(RuntimeError, match="target 'east' serves the op as a whole"):
        op.eval_roofline()
    kept = pickle.loads(pickle.dumps(op.last_call)).stages["part"]
    assert (kept, kept.target) == ((), "east")
    op(torch.ones(2))
    op(torch.ones(2, device="meta"))  # No kernel of a target runs on meta tensors.
    assert op.eval_roofline() == (1, 24)


@dataclass
class Entry:
    """An entry of several kernels, one of them twice, one out of sight."""

    first: object
    rest: tuple
    name: str = "entry"

    def __call__(self, x, y):
        return self.first(x, y)


def test_enumeration_walks_declared_places_once():
    class Several(add_kernel().__mro__[1]):
        @classmethod
        def entry_for(cls, call):
            def build():
                one, two, hidden = cls(call), cls(call), cls(call)
                one.attribute = hidden
                entry = Entry(one, ([two, one], Entry(two, ())))
                Several.made = [one, two]
                return entry

            return "id", build

    op = add_op({"plain": Several})()
    assert list(op.iter_kernels()) == []
    assert op.built_entries("add") == {}
    op(*pair())
    assert list(op.iter_kernels()) == Several.made


def test_enumeration_goes_into_sub_ops_and_not_into_targets():
    part = add_op()
    op = composite(part)()
    op(torch.ones(2))
    (kernel,) = op.iter_kernels()
    assert op.held_delegates()[0].built_entries("add").values() is not None
    assert kernel in list(op.held_delegates()[0].iter_kernels())
    served = add_op()
    backend.register_kernel_builder(
        op=served.__name__, target="east", build_kernel=lambda *s, **p: lambda x, y: x + y
    )
    op = served(target="east")
    op(*pair())
    assert list(op.iter_kernels()) == []
    assert list(op.built_entries("add")) == list(op._target_kernels)


def test_kernel_config():
    configured = add_kernel(default_config={"tile": 64})
    op = add_op({"plain": configured})()
    assert op.kernel_config() is None
    op(*pair())
    assert op.kernel_config() == {"tile": 64}
    op.config = {}
    assert op.kernel_config() == {"tile": 64}
    op.config = {"mode": "own"}
    assert op.kernel_config() == {"mode": "own"}
    plain = add_op()()
    plain(*pair())
    assert plain.kernel_config() is None
