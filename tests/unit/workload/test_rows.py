"""Rows: branches, keys, ids, values of cases, and what a roofline formula sees of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tileops._core.lang.nodes import Constant
from tileops._core.signature.actions import Action
from tileops._core.signature.analysis import Analysis
from tileops._core.signature.plan import SolveAxis
from tileops._core.spec.model import OpSpec
from tileops._core.workload.arguments import constructor_value, names_a_dtype
from tileops._core.workload.branch import Branch
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops._core.workload.record import CaseCall
from tileops._core.workload.rows import RowReader, cases_of
from tileops._core.workload.values import NoNames, ValueFault, list_value

Read = Callable[..., OpSpec]

SEGMENTS = """
  forall: {B: Dim, N: Dim, D: Dim, T: "DType[float16]", lens: "Seq[Int]"}
  inputs:
    x:      {dtype: T, shape: "[N, D]"}
    starts: {dtype: int32, shape: "[B + 1]", values: "prefix_sum(lens)",
             requires: ["prefix_offsets(N)"]}
  outputs:
    mean: {dtype: T, shape: "[B, D]"}
"""


def reader_of(spec: OpSpec) -> RowReader:
    return RowReader(Analysis(spec))


def fault_of(spec: OpSpec) -> RowFault:
    with pytest.raises(RowFault) as caught:
        list(cases_of(spec))
    return caught.value


def test_a_row_is_one_case_per_dtype_case(read: Read) -> None:
    cases = list(cases_of(read()))
    assert [case.id for case in cases] == ["tile-64-float16", "tile-64-float32", "one-row-float16"]
    first, _, last = cases
    assert {name: (form.shape, form.dtype) for name, form in first.tensors.items()} == {
        "x": ((64, 512), "float16"),
        "scale": ((64,), "float32"),
    }
    assert first.outputs["y"].shape == (64, 256)
    assert first.values == {"gain": 1.0, "R": 64, "C": 256, "T": "float16"}
    assert list(last.tensors) == ["x"]


def test_bytes_are_the_declared_traffic(read: Read) -> None:
    spec = read()
    analysis = Analysis(spec)
    case = next(cases_of(spec))
    call = CaseCall(analysis, case)
    assert call.derived_bytes() == 64 * 512 * 2 + 64 * 4 + 64 * 256 * 2 == 98_560
    assert call.bytes("scale") == 256
    assert (call.present("scale"), call.present("out")) == (True, False)
    assert call.tensors["y"] == ((64, 256), "float16")
    assert (call.written, call.has_out, call.device, dict(call.stages)) == ((), False, None, {})
    with pytest.raises(KeyError, match="x is no metadata tensor"):
        call.metadata_values("x")


def test_ids_join_dtypes_and_dtype_parameters_in_order(read: Read) -> None:
    spec = read(
        """
  forall: {U: "DType[int8 | uint8]", T: "DType[float16]", N: Dim}
  params:
    b: {type: "float32 | float64", default: float32}
    a: {type: "torch.dtype | None", default: null}
  inputs: {x: {dtype: T, shape: "[N]"}, z: {dtype: U, shape: "[N]"}}
  outputs: {y: {dtype: b, shape: "[N]"}}
""",
        """
- {N: 1, dtype_cases: [{T: float16, U: int8}], label: a}
- {N: 1, a: bfloat16, dtype_cases: [{T: float16, U: uint8}], label: a}
""",
    )
    assert [case.id for case in cases_of(spec)] == [
        "a-int8-float16-float32", "a-uint8-float16-float32-bfloat16",
    ]  # fmt: skip


def test_a_generator_solves_what_its_tensor_shows(read: Read) -> None:
    spec = read(
        SEGMENTS, "[{N: 12, D: 64, lens: [3, 4, 5], dtype_cases: [{T: float16}], label: r}]"
    )
    reader = reader_of(spec)
    row = spec.workloads[0]
    assert row is not None
    branch = reader.setting(row).branch
    assert branch.used == {"B", "N", "D", "T", "lens"}
    assert dict(branch.solved) == {"B": "starts"}
    assert branch.given == {"N", "D", "T", "lens"}
    case = next(cases_of(spec))
    assert case.values["B"] == 3
    assert case.tensors["starts"].values == [0, 3, 7, 12]
    call = CaseCall(reader.analysis, case)
    assert call.metadata_values("starts") == [0, 3, 7, 12]
    assert "lens" not in call.indices


def test_random_metadata_depends_on_the_op_and_the_tensor_only(read: Read) -> None:
    signature = """
  forall: {N: Dim, M: Dim}
  inputs:
    x: {dtype: float32, shape: "[N]"}
    ids: {dtype: int32, shape: "[M]", values: "sample_indices(4, N)"}
  outputs: {y: {dtype: float32, shape: "[M]"}}
"""
    row, other = "{N: 50, label: a}", "{N: 60, label: b}"
    alone = next(cases_of(read(signature, f"[{row}]")))
    later = list(cases_of(read(signature, f"[{other}, {row}]")))[1]
    assert alone.tensors["ids"].values == later.tensors["ids"].values
    assert len(set(alone.tensors["ids"].values)) == 4


@pytest.mark.parametrize(
    ("rule", "used"),
    [
        ("C > 0", {"R", "C", "K"}),
        ("not flip or K > 0", {"R", "C", "K"}),
        ("present(w) or R > 0", {"R", "C"}),
        ("m > 0", {"R", "C", "K"}),
        ("flip or True", {"R", "C"}),
    ],
)
def test_used_indices_are_those_that_folded_expressions_read(
    read: Read, rule: str, used: set[str]
) -> None:
    on_branch = {"not flip or K > 0": "flip: true, ", "C > 0": "flip: true, "}.get(rule, "")
    spec = read(
        f"""
  forall: {{R: Dim, C: Dim, K: Dim}}
  params: {{flip: {{type: bool, default: false}}}}
  inputs:
    x: {{dtype: float32, shape: "[R, C]"}}
    w: {{dtype: float32, shape: "[K]", optional: true}}
    v: {{dtype: float32, shape: "[K]", optional: flip}}
  outputs: {{y: {{dtype: float32, shape: "[R]"}}}}
  let: {{m: "K + 1"}}
  shape_rules: ["{rule}"]
""",
        f"[{{R: 1, C: 2, {on_branch}label: a}}]",
    )
    row = spec.workloads[0]
    assert row is not None
    assert reader_of(spec).setting(row).branch.used == used


def test_faults_name_the_part_of_the_row(read: Read) -> None:
    fault = fault_of(read(rows="[{R: 4, dtype_cases: [{T: float16}], label: a}]"))
    assert (fault.check, fault.path, fault.message) == (35, "workloads[0]", "misses C")
    assert str(fault) == "workloads[0]: misses C"
    fault = fault_of(read(rows="[{R: 4, C: 0, dtype_cases: [{T: float16}], label: a}]"))
    assert fault.check == 37
    assert fault.message == ('case a-float16: signature.shape_rules[0] "C > 0" does not hold: C=0')
    fault = fault_of(read(rows="[{R: 4, C: 2, gain: -1, dtype_cases: [{T: float16}], label: a}]"))
    assert fault.message.endswith('signature.shape_rules[1] "gain > 0" does not hold: gain=-1')


def test_a_row_that_could_not_be_read_stops_the_cases(read: Read) -> None:
    spec = read()
    assert fault_of(dataclasses.replace(spec, workloads=(None,))).check == 25


def test_inference_from_the_tensors_is_a_check_of_its_own(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = read()
    real = RowReader.steps

    def shifted_by(offset: int) -> Callable[[RowReader, Branch], list[Action]]:
        """The steps, with the one that solves `C` taking something off the length first."""

        def steps(reader: RowReader, branch: Branch) -> list[Action]:
            actions = list(real(reader, branch))
            for place, action in enumerate(actions):
                if isinstance(action.step, SolveAxis) and action.step.index == "C":
                    step = dataclasses.replace(action.step, offset=Constant(offset))
                    actions[place] = dataclasses.replace(action, step=step)
            return actions

        return steps

    monkeypatch.setattr(RowReader, "steps", shifted_by(2))
    assert fault_of(spec).message == "case tile-64-float16: C is 256, the tensors give 255"
    monkeypatch.setattr(RowReader, "steps", shifted_by(1))
    message = "case tile-64-float16: inference from the tensors fails: signature.inputs.x.shape"
    assert fault_of(spec).message.startswith(message)


def test_generators_that_wait_for_each_other(read: Read) -> None:
    spec = read(
        """
  forall: {A: Dim, B: Dim}
  inputs:
    a: {dtype: int32, shape: "[A]", values: "full((B,), 0)"}
    b: {dtype: int32, shape: "[B]", values: "full((A,), 0)"}
  outputs: {y: {dtype: float32, shape: "[A]"}}
""",
        "[{label: none}]",
    )
    reader = reader_of(spec)
    row = spec.workloads[0]
    assert row is not None
    setting = reader.setting(row)
    assert [fault.message for fault in reader.key_faults(setting)] == ["misses A, B"]
    with pytest.raises(RowFault, match="the arguments of a's generator never become known"):
        reader.instantiate(setting, {})


def test_a_parameter_of_unreadable_type_has_no_value(read: Read) -> None:
    spec = read(rows="[{R: 1, C: 2, gain: 2.0, dtype_cases: [{T: float16}], label: a}]")
    gain = spec.signature.params["gain"]
    unread = dataclasses.replace(gain, type=dataclasses.replace(gain.type, node=None))  # type: ignore
    params = {**spec.signature.params, "gain": unread}
    signature = dataclasses.replace(spec.signature, params=params)
    fault = fault_of(dataclasses.replace(spec, signature=signature))
    assert fault.path == "workloads[0].gain"
    assert fault.message == "the type of gain could not be read"


def test_lists_of_lengths() -> None:
    assert list_value([1, 2]) == [1, 2]
    assert list_value("repeat(2 * 3, 8 // 4)") == [6, 6]
    assert list_value("balanced_sizes(7, 4 - 1)") == [3, 2, 2]
    for wrong in ("repeat(a, 2)", "repeat(2, 5 % 3)", "len((1, 2))", "repeat(value=1, count=2)", 3):
        with pytest.raises(ValueFault):
            list_value(wrong)


def test_a_scope_without_names_has_none() -> None:
    scope = NoNames()
    for read in (scope.value, scope.present, scope.bytes):
        with pytest.raises(KeyError):
            read("x")


def test_dtypes_are_told_from_strings(read: Read) -> None:
    spec = read(
        """
  params:
    a: {type: "str | torch.dtype", default: float16}
    b: {type: "torch.dtype | str", default: float16}
    c: {type: "torch.dtype | str", default: gelu}
  outputs: {y: {dtype: float32, shape: "[]"}}
""",
        "[{label: a}]",
    )
    params = spec.signature.params
    assert [names_a_dtype(params[name], params[name].default) for name in "abc"] == [  # type: ignore
        False, True, False,
    ]  # fmt: skip
    assert constructor_value(spec, params["a"], "float16") == "float16"  # type: ignore[arg-type]


def test_every_case_of_the_tree_can_be_made() -> None:
    from tileops._core.spec.registry import manifest

    known = manifest()
    made: list[Case] = []
    for name in known.names:
        spec = known.lookup(name)
        assert spec is not None
        if spec.in_tree:
            made += cases_of(spec)
    assert len(made) > 100
