"""What a call checks, and what its record holds."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tileops.errors import OpNotAvailableError, SignatureError, SignatureTypeError

RAGGED = """
RaggedMeanFwdOp:
  signature:
    forall: {B: Dim, N: Dim, D: Dim, T: "DType[float16 | float32]", lens: "Seq[Int]"}
    params:
      groups: {type: int, default: 1}
      cap: {type: "float | None", default: null}
    inputs:
      x: {dtype: T, shape: "[N, D]", contiguous: true}
      starts: {dtype: int32, shape: "[B + 1]", values: "prefix_sum(lens)",
               requires: ["prefix_offsets(N)"]}
      sizes: {dtype: int32, shape: "[B]", device: cpu, optional: true, values: "as_tensor(lens)"}
      weight: {dtype: "promote_int_to_float(T)", shape: "[D // groups]", optional: true}
    outputs:
      mean: {dtype: T, shape: "[B, D]"}
      mask: {dtype: bool, shape: "[N]", nullable: "present(sizes)"}
    let: {half: "N // 2"}
    shape_rules: ["D % groups == 0", "not present(cap) or cap.value > 0", "half >= B"]
"""
COMBOS = """
MixFwdOp:
  signature:
    forall: {N: Dim, A: "DType[float16 | float32]", B: "DType[float16 | float32]"}
    params: {out_dtype: {type: "float16 | float32"}}
    inputs:
      a: {dtype: A, shape: "[N]"}
      b: {dtype: B, shape: "[N]"}
    outputs: {y: {dtype: out_dtype, shape: "[N]"}}
    dtype_combos:
    - {A: float16, B: float16, out_dtype: float32}
    - {A: float32, B: float32, out_dtype: float32}
"""
EFFECTS = """
ScatterFwdOp:
  signature:
    forall: {S: Shape, N: Dim, T: "DType[float32]"}
    params: {in_place: {type: bool, default: false}}
    inputs:
      acc: {dtype: T, shape: "[*S]", mutated: in_place}
      upd: {dtype: T, shape: "[*S]"}
      tmp: {dtype: T, shape: "[N]", mutated: true, write_only: true, optional: true}
    outputs:
      acc_out: {dtype: T, shape: "[*S]", alias: acc}
"""
SPLICES = """
SpliceFwdOp:
  signature:
    forall: {A: Shape, B: Shape, N: Dim, T: "DType[float32]"}
    params: {tail: {type: "tuple[int, ...]"}}
    inputs:
      x: {dtype: T, shape: "[*A, N, *tail]"}
      y: {dtype: T, shape: "[N, *B, *A]"}
      z: {dtype: T, shape: "[*broadcast(A, B)]"}
    outputs: {o: {dtype: T, shape: "[*A, *B]"}}
"""

HELD = """
HeldFwdOp:
  signature:
    forall: {N: Dim, M: Dim}
    params: {ids: {dtype: int32, shape: "[N]", values: "full((N,), 1)"}}
    inputs: {x: {dtype: float32, shape: "[M, 2 * N]"}}
    outputs: {y: {dtype: float32, shape: "[M]"}}
"""


@pytest.fixture
def ragged(op_for):
    return op_for(RAGGED, groups=1, cap=None)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_record(ragged):
    x, starts = torch.empty(12, 4), ints(0, 3, 7, 12)
    record = ragged.check(x=x, starts=starts, weight=torch.empty(4))
    assert dict(record.indices) == {
        "groups": 1, "cap": None, "T": "float32", "N": 12, "D": 4, "B": 3, "half": 6,
    }  # fmt: skip
    assert record.device == torch.device("cpu")
    assert dict(record.tensors) == {
        "x": ((12, 4), "float32"),
        "starts": ((4,), "int32"),
        "weight": ((4,), "float32"),
        "mean": ((3, 4), "float32"),
    }
    assert record.traffic == (
        ("x", 1, 0), ("starts", 1, 0), ("sizes", 0, 0), ("weight", 1, 0), ("mean", 0, 1),
        ("mask", 0, 0),
    )  # fmt: skip
    assert (record.written, record.has_out) == ((), False)
    assert record.metadata["starts"] is starts
    assert set(record.metadata) == {"starts"}
    assert record.metadata_values("starts") == [0, 3, 7, 12]
    assert record.present("weight")
    assert not record.present("mask")
    assert record.shape("mean") == (3, 4)
    assert record.bytes("x") == 12 * 4 * 4
    assert record.derived_bytes() == 4 * (12 * 4 + 4 + 4 + 3 * 4)


def test_record_is_frozen_and_takes_stages_once(ragged):
    record = ragged.check(x=torch.empty(12, 4), starts=ints(0, 12))
    with pytest.raises(AttributeError, match="a record is frozen"):
        record.device = None
    with pytest.raises(TypeError):
        record.indices["N"] = 3
    assert dict(record.stages) == {}
    record.file_stages({"gate": (record,), "up": ()})
    assert record.stages["gate"] == (record,)
    with pytest.raises(RuntimeError, match="set once"):
        record.file_stages({})
    other = record.with_stages({})
    assert (other.facts, dict(other.stages)) == (record.facts, {})


def test_contents_are_read_late_and_only_where_there_are_any(ragged):
    starts = ints(0, 12)
    record = ragged.check(x=torch.empty(12, 4), starts=starts)
    starts[1] = 11
    assert record.metadata_values("starts") == [0, 11]
    with pytest.raises(KeyError, match="x is no metadata tensor of this call; known: starts"):
        record.metadata_values("x")
    with pytest.raises(KeyError):
        record.metadata_values("sizes")
    meta = ragged.check(
        x=torch.empty(12, 4, device="meta"), starts=torch.empty(4, device="meta").int()
    )
    assert meta.device == torch.device("meta")
    with pytest.raises(OpNotAvailableError, match="starts is a meta tensor"):
        meta.metadata_values("starts")


class NoOperation(TorchDispatchMode):
    """No operation of torch runs on a tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)


def test_no_check_runs_an_operation(op_for):
    """So that none reads what a tensor holds, or waits for a device."""
    x, starts, mean = torch.empty(12, 4), ints(0, 3, 7, 12), torch.empty(3, 4)
    held = ints(1, 2)
    with NoOperation():
        op = op_for(RAGGED, groups=1, cap=None)
        record = op.check(x=x, starts=starts)
        op.check_result((mean, None), x=x, starts=starts)
        assert op.plan.output_shapes(op, {"x": (12, 4), "starts": (4,)}) == {"mean": (3, 4)}
        assert op_for(HELD, ids=held).check(x=x).tensors["ids"] == ((2,), "int32")
    assert record.metadata_values("starts") == [0, 3, 7, 12]


def test_calls_of_a_branch_share_what_follows_from_it(ragged):
    one = ragged.check(x=torch.empty(12, 4), starts=ints(0, 12))
    two = ragged.check(x=torch.empty(20, 4), starts=ints(0, 12))
    other = ragged.check(x=torch.empty(20, 4), starts=ints(0, 12), sizes=ints(12))
    assert one.traffic is two.traffic
    assert one.branch_key == two.branch_key != other.branch_key
    assert other.tensors["mask"] == ((20,), "bool")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"x": "rows"}, SignatureTypeError, "inputs.x: expected a tensor, got 'rows' (str)"),
        ({"starts": None}, SignatureTypeError, "inputs.starts: required, got None"),
        ({"sizes": 3}, SignatureTypeError, "inputs.sizes: expected a tensor, got 3 (int)"),
        (
            {"x": torch.empty(4, 12).t()},
            SignatureError,
            'inputs.x.contiguous "true": expected a contiguous tensor, '
            "got shape (12, 4) with strides (1, 12)",
        ),
        (
            {"sizes": torch.empty(3, device="meta").int()},
            SignatureError,
            'inputs.sizes.device "cpu": expected cpu, got meta',
        ),
        (
            {"starts": torch.empty(4, device="meta").int()},
            SignatureError,
            "inputs: expected one device, got cpu (x), meta (starts)",
        ),
        ({"starts": ints(0, 1).long()}, SignatureError, "expected int32, got int64"),
        (
            {"weight": torch.empty(4).half()},
            SignatureError,
            'inputs.weight.dtype "promote_int_to_float(T)": expected float32, got float16, '
            "where T=float32 comes from inputs.x dtype",
        ),
        ({"x": torch.empty(12)}, SignatureError, "expected 2 axes, got shape (12,)"),
        (
            {"starts": torch.empty(0).int()},
            SignatureError,
            'inputs.starts.shape "[B + 1]": axis 0 has length 0, which no integer B >= 0 satisfies',
        ),
        (
            {"weight": torch.empty(5)},
            SignatureError,
            'inputs.weight.shape "[D // groups]": axis 0 has length 5, expected 4, '
            "where D=4 comes from inputs.x axis 1, groups=1 from params.groups",
        ),
        (
            {"x": torch.empty(2, 4)},
            SignatureError,
            'shape_rules[2] "half >= B" does not hold: half=1, B=3',
        ),
    ],
)
def test_calls_that_are_rejected(ragged, change, error, text):
    given = {"x": torch.empty(12, 4), "starts": ints(0, 3, 7, 12)} | change
    with pytest.raises(error) as caught:
        ragged.check(**given)
    assert type(caught.value) is error
    assert text in str(caught.value)
    assert caught.value.phase == "call"


def test_an_expression_that_cannot_be_evaluated(op_for):
    op = op_for(RAGGED, groups=0, cap=None)
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(12, 4), starts=ints(0, 12))
    assert 'shape_rules[0] "D % groups == 0": D % groups divides by 0 (D=4, groups=0)' in str(
        caught.value
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(12, 4), starts=ints(0, 12), weight=torch.empty(4))
    assert 'inputs.weight.shape "[D // groups]": D // groups divides by 0 (D=4, groups=0)' in str(
        caught.value
    )


STRIDED = """
StridedFwdOp:
  signature:
    forall: {{S: Shape}}
    params: {{dims: {{type: "tuple[int, ...]"}}, step: {{type: int}}}}
    inputs: {{x: {{dtype: float32, shape: "[*S]"}}}}
    outputs: {{y: {{dtype: float32, shape: "[*S]"}}}}
    shape_rules: ["{rule}"]
"""


@pytest.mark.parametrize("rule", ["len(dims[::step]) > 0", "len(S[1::step]) >= 0"])
def test_a_slice_with_the_step_0(op_for, rule):
    text = STRIDED.format(rule=rule)
    op_for(text, dims=(1, 2), step=-1).check(x=torch.empty(2, 3))
    with pytest.raises(SignatureError, match="slice step cannot be zero") as caught:
        op_for(text, dims=(1, 2), step=0).check(x=torch.empty(2, 3))
    assert caught.value.declaration == f'shape_rules[0] "{rule}"'


COMPARED = """
ComparedFwdOp:
  signature:
    forall: {{R: Dim, C: Dim}}
    params:
      several: {{type: "list[int]"}}
      pair: {{type: "tuple[int, ...]"}}
      either: {{type: "int | tuple[int, int]"}}
    inputs: {{x: {{dtype: float32, shape: "[R, C]"}}}}
    outputs: {{y: {{dtype: float32, shape: "[R]"}}}}
    shape_rules: ["{rule}"]
"""


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("several in (pair, (9, 9))", True),
        ("(1, 2) in (pair, several)", False),
        ("all(s in (pair,) for s in (several,))", True),
        ("all(s == pair for s in (several,))", True),
        ("((R, C), several) == (pair, pair)", True),
        ("either == (3, 4)", False),
        ("(R, C) != either", True),
        ("either in (pair[0], 7)", True),
        ("either in ((3, 4), (5, 6))", False),
    ],
)
def test_sequences_are_compared_item_by_item_whatever_holds_them(op_for, rule, holds):
    def call():
        op = op_for(COMPARED.format(rule=rule), several=[3, 4], pair=(3, 4), either=3)
        op.check(x=torch.empty(3, 4))

    if holds:
        call()
    else:
        with pytest.raises(SignatureError, match="does not hold"):
            call()


GIVEN_FALSE = """
GivenFwdOp:
  signature:
    forall: {R: Dim}
    params: {flag: {type: "bool | None", default: null}}
    inputs:
      x: {dtype: float32, shape: "[R, 2 if present(flag) else 1]"}
      z: {dtype: float32, shape: "[R]", optional: "present(flag)"}
    outputs: {y: {dtype: float32, shape: "[R]", nullable: "not present(flag) or flag.value"}}
    shape_rules: ["not present(flag) or flag.value == (R > 2)"]
"""


def test_a_flag_that_is_given_as_false_is_present(op_for):
    x, z = torch.empty(2, 2), torch.empty(2)
    record = op_for(GIVEN_FALSE, flag=False).check(x=x, z=z)
    assert "y" not in record.tensors
    assert "y" in op_for(GIVEN_FALSE, flag=None).check(x=torch.empty(2, 1)).tensors
    with pytest.raises(SignatureError, match="z was not passed but"):
        op_for(GIVEN_FALSE, flag=False).check(x=x)
    with pytest.raises(SignatureError, match=r"expected 2, where|length 1"):
        op_for(GIVEN_FALSE, flag=False).check(x=torch.empty(2, 1), z=z)
    with pytest.raises(SignatureError, match=r"shape_rules\[0\].*does not hold"):
        op_for(GIVEN_FALSE, flag=True).check(x=x, z=z)
    with pytest.raises(SignatureError, match=r"shape_rules\[0\].*does not hold"):
        op_for(GIVEN_FALSE, flag=False).check(x=torch.empty(3, 2), z=torch.empty(3))


CASES = """
CasesFwdOp:
  signature:
    forall: {S: Dim, H: Dim, N: Dim}
    params:
      layout: {type: "'flat' | 'heads' | 'turned'", default: flat}
      doubled: {type: bool, default: false}
    inputs:
      x: {dtype: float32, shape: "Rows[layout, S, H]"}
      z: {dtype: float32, shape: "[S, 2 * N if doubled else N]"}
    outputs: {y: {dtype: float32, shape: "[S]"}}
    types:
      Rows:
        params: {layout: "'flat' | 'heads' | 'turned'", S: Dim, H: Dim}
        match: layout
        cases:
        - {when: flat, is: "[S, 4]"}
        - {when: heads, is: "[S, H, 4]"}
        - {when: turned, is: "[H, S, 4]"}
"""


@pytest.mark.parametrize(
    ("params", "shapes", "fault"),
    [
        (
            {},
            ((2, 3, 4), (2, 5)),
            "expected 2 axes, got shape (2, 3, 4), where layout='flat' comes from params.layout; "
            "that many are expected with layout='heads', layout='turned'",
        ),
        (
            {"layout": "heads"},
            ((2, 3, 4, 4), (2, 5)),
            "expected 3 axes, got shape (2, 3, 4, 4), where layout='heads' comes from "
            "params.layout\n",
        ),
        (
            {"layout": "turned"},
            ((3, 2, 7), (2, 5)),
            "axis 2 has length 7, expected 4, where layout='turned' comes from params.layout\n",
        ),
        (
            {"doubled": True},
            ((2, 4), (2, 5)),
            "axis 1 has length 5, which no integer N >= 0 satisfies, where doubled=True comes "
            "from params.doubled\n",
        ),
    ],
)
def test_a_parameter_that_decides_of_a_shape_is_named(op_for, params, shapes, fault) -> None:
    x, z = map(torch.empty, shapes)
    op = op_for(CASES, **{"layout": "flat", "doubled": False} | params)
    with pytest.raises(SignatureError) as caught:
        op.check(x=x, z=z)
    assert fault in str(caught.value)


MADE = """
MadeFwdOp:
  signature:
    forall: {N: Dim}
    params: {k: {type: int}, cap: {type: "int | None"}}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[per_axis(q, 0, 2, N)]"}}
    let: {q: "k if k > 3 else None"}
    shape_rules: ["present(q) == present(cap)"]
  roofline: {flops: "7 if present(q) else N"}
"""


@pytest.mark.parametrize(("k", "cap"), [(1, None), (1, 2), (5, None), (5, 2)])
def test_a_let_is_present_where_its_choice_gives_something(op_for, k, cap):
    if (k > 3) is (cap is not None):
        op = op_for(MADE, k=k, cap=cap)
        record = op.check(x=torch.empty(4))
        assert record.shape("y") == ((5,) if k > 3 else (4,))
        assert op.plan.eval_roofline(record)[0] == (7 if k > 3 else 4)
        return
    with pytest.raises(SignatureError, match="does not hold"):
        op_for(MADE, k=k, cap=cap)


DIVIDED = """
DividedFwdOp:
  signature:
    forall: {{C: Dim}}
    params: {{flip: {{type: bool}}, gain: {{type: float}}}}
    inputs: {{x: {{dtype: float32, shape: "[C]"}}}}
    outputs: {{y: {{dtype: float32, shape: "[C]"}}}}
    shape_rules: ["{rule}"]
"""


@pytest.mark.parametrize(
    ("rule", "flip", "fails"),
    [
        # Operands are read in order, but one that a branch discards is never evaluated.
        ("3 // C > 0 or gain > 0", True, True),
        ("gain > 0 or 3 // C > 0", True, False),
        ("3 // C > 0 or flip", False, True),
        ("3 // C > 0 or flip", True, False),
        ("3 // C > 0 and not flip", False, True),
    ],
)
def test_a_refinement_that_divides_by_0(op_for, rule, flip, fails):
    op = op_for(DIVIDED.format(rule=rule), flip=flip, gain=1.0)
    for _ in range(2):
        op.check(x=torch.empty(2))
        if not fails:
            op.check(x=torch.empty(0))
            continue
        with pytest.raises(SignatureError) as caught:
            op.check(x=torch.empty(0))
        assert caught.value.declaration == f'shape_rules[0] "{rule}"'
        assert caught.value.fault.startswith("3 // C divides by 0 (C=0")


def test_combinations(op_for):
    half, full = torch.empty(3).half(), torch.empty(3)
    op = op_for(COMBOS, out_dtype=torch.float32)
    assert op.check(a=half, b=half).tensors["y"] == ((3,), "float32")
    with pytest.raises(SignatureError) as caught:
        op.check(a=half, b=full)
    assert (
        "MixFwdOp (call): dtype_combos: A=float16, B=float32, out_dtype=float32 is none of the "
        "combinations of (A, B, out_dtype): float16, float16, float32; float32, float32, float32"
    ) in str(caught.value)


def test_written_inputs(op_for):
    given = {"acc": torch.zeros(3, 1).expand(3, 2), "upd": torch.zeros(3, 2)}
    out_of_place, in_place = op_for(EFFECTS, in_place=False), op_for(EFFECTS, in_place=True)
    record = out_of_place.check(**given)
    assert record.written == ()
    assert record.traffic == (("acc", 1, 0), ("upd", 1, 0), ("tmp", 0, 0), ("acc_out", 0, 1))
    with pytest.raises(SignatureError) as caught:
        in_place.check(**given)
    assert (
        'inputs.acc.mutated "in_place": is written but overlaps itself, '
        "got shape (3, 2) with strides (1, 0)"
    ) in str(caught.value)
    record = in_place.check(**given | {"acc": torch.zeros(3, 2), "tmp": torch.zeros(4)})
    assert record.written == ("acc", "tmp")
    assert record.traffic == (("acc", 1, 1), ("upd", 1, 0), ("tmp", 0, 1), ("acc_out", 0, 0))
    assert record.allocated == frozenset()
    with pytest.raises(SignatureError, match=r'inputs.tmp.mutated "true": is written but overlaps'):
        out_of_place.check(**given, tmp=torch.zeros(1).expand(4))


def test_the_effect_branch_is_known_before_the_check(op_for):
    op = op_for(EFFECTS, in_place=True)
    branch = op.plan.effect_branch(op, {"tmp": True})
    assert (branch.writes, branch.has_out, branch.emits) == (("acc", "tmp"), False, ("acc_out",))
    assert op.plan.effect_branch(op, {"tmp": False}).writes == ("acc",)
    assert {b.writes for b in op.plan.effects} == {(), ("acc",), ("tmp",), ("acc", "tmp")}


def test_runs_of_axes(op_for):
    op = op_for(SPLICES, tail=(5,))
    record = op.check(x=torch.empty(2, 3, 4, 5), y=torch.empty(4, 1, 2, 3), z=torch.empty(2, 3))
    assert (record.indices["A"], record.indices["B"]) == ((2, 3), (1,))
    assert record.shape("o") == (2, 3, 1)
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(2, 3, 4, 5), y=torch.empty(4, 1, 2, 2), z=torch.empty(2, 3))
    assert (
        'inputs.y.shape "[N, *B, *A]": axes 2 to 3 have lengths (2, 2), expected (2, 3), '
        "where A=(2, 3) comes from inputs.x axes 0 to 1"
    ) in str(caught.value)
    with pytest.raises(SignatureError, match=r"expected at least 3 axes, got shape \(4, 1\)"):
        op.check(x=torch.empty(2, 3, 4, 5), y=torch.empty(4, 1), z=torch.empty(2, 3))
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(2, 3, 4, 5), y=torch.empty(4, 7, 2, 3), z=torch.empty(2, 3))
    assert (
        'inputs.z.shape "[*broadcast(A, B)]": broadcast: sizes 3 and 7 do not agree '
        "(A=(2, 3), B=(7,))"
    ) in str(caught.value)
