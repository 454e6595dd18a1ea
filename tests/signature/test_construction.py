"""What a construction checks: parameters, algebraic values, construction-time tensors."""

from __future__ import annotations

import copy
import enum
import pickle
from dataclasses import dataclass

import pytest
import torch

from tileops.errors import ManifestError, SignatureError, SignatureTypeError


class Order(enum.Enum):
    ROW = "row"
    COL = "col"


@dataclass(frozen=True)
class Dense:
    cols: int
    kind: str = "dense"


@dataclass(frozen=True)
class Tiled:
    tile: int
    order: Order = Order.ROW
    padded: bool = False
    kind: str = "tiled"


@dataclass
class Loose:
    """May change, unlike the others."""

    cols: int
    kind: str = "loose"


class Odd(Dense):
    """Reading one attribute fails."""

    def __init__(self, name: str) -> None:
        super().__init__(3)
        object.__setattr__(self, "unreadable", name)

    def __getattribute__(self, name: str) -> object:
        if name == object.__getattribute__(self, "__dict__").get("unreadable"):
            raise OSError(name)
        return object.__getattribute__(self, name)


class Unshown:
    def __repr__(self) -> str:
        return str(1 // 0)


STORE = f"""
StoreFwdOp:
  signature:
    forall: {{R: Dim, T: "DType[float32]"}}
    params:
      store: {{type: RowStore}}
      mode: {{type: "'fast' | 'exact' | None", default: null}}
      out_dtype: {{type: "float16 | float32 | None", default: null}}
      sizes: {{type: "list[int] | tuple[int, ...]", default: [1]}}
    inputs: {{x: {{dtype: T, shape: "Rows[store, R]"}}}}
    outputs: {{y: {{dtype: "coalesce_dtype(out_dtype, T)", shape: "[R]"}}}}
    types:
      Rows:
        params: {{store: RowStore, R: Dim}}
        match: store
        cases:
        - {{when: {{dense: _}}, is: "[R, store.cols]"}}
        - {{when: {{loose: _}}, is: "[R, store.cols]"}}
        - {{when: {{tiled: {{padded: true}}}}, is: "[R, store.tile, 2]"}}
        - {{when: {{tiled: {{padded: false}}}}, is: "[R, store.tile]"}}
    shape_rules: ["sum(sizes) > 0", "not present(mode) or mode.value == 'fast'"]
adts:
  RowStore:
    sum:
      dense: {{python: {__name__}.Dense, fields: {{cols: Dim}}}}
      tiled:
        python: {__name__}.Tiled
        fields:
          tile: Dim
          order: {{type: "'row' | 'col'", python: {__name__}.Order}}
          padded: Bool
        invariant: "tile > 0 and (order == 'row' or not padded)"
      loose: {{python: {__name__}.Loose, fields: {{cols: Dim}}, invariant: "cols > 0"}}
"""
HELD = """
RopeFwdOp:
  signature:
    forall: {N: Dim, P: Dim, T: "DType[float16 | float32]"}
    params:
      factors: {dtype: T, shape: "[2 * P]"}
      cap: {type: int, default: 8}
      table: {dtype: int32, shape: "[P]", optional: true, contiguous: true, device: cpu}
      extra: {dtype: int32, shape: "[P]", optional: "cap > 4 and wide"}
      wide: {type: bool, default: false}
    inputs: {x: {dtype: T, shape: "[N, P]"}}
    outputs: {y: {dtype: T, shape: "[N, P]"}}
    let: {half: "P // 2"}
    shape_rules: ["half > 0", "P <= cap", "not wide or present(table)"]
""".replace("cap > 4 and wide", "wide")


@pytest.fixture
def store(plan_for, construct):
    plan = plan_for(STORE)
    defaults = {"mode": None, "out_dtype": None, "sizes": [1]}
    return lambda **values: construct(plan, **{"store": Dense(3), **defaults, **values})


def test_an_algebraic_value_that_changes_later_changes_nothing(store):
    loose, fixed = Loose(3), Dense(3)
    op = store(store=loose)
    loose.cols = loose.kind = -1
    kept = op.check(x=torch.zeros(2, 3)).indices["store"]
    assert (kept.kind, kept.cols) == ("loose", 3)
    assert store(store=fixed)._construction_indices.parameters["store"] is fixed


MISSING = """
LostFwdOp:
  signature:
    params: {{store: {{type: RowStore}}}}
    inputs: {{x: {{dtype: float32, shape: "[]"}}}}
    outputs: {{y: {{dtype: float32, shape: "[]"}}}}
adts:
  RowStore: {{sum: {{dense: {{python: "{python}", fields: {{cols: {field}}}}}}}}}
"""


@pytest.mark.parametrize(
    ("python", "field", "text"),
    [
        ("no_such_pack.Dense", "Dim", "no_such_pack.Dense cannot be resolved: ImportError"),
        (f"{__name__}.Lost", "Dim", f"{__name__}.Lost cannot be resolved: ImportError"),
        (f"{__name__}.MISSING", "Dim", f"{__name__}.MISSING cannot be resolved: ImportError"),
        (
            f"{__name__}.test_classes_that_cannot_be_used",
            "Dim",
            "test_classes_that_cannot_be_used is not a class",
        ),
        (
            f"{__name__}.Dense",
            f"{{type: \"'row' | 'col'\", python: {__name__}.Lost}}",
            f"{__name__}.Lost cannot be resolved: ImportError",
        ),
    ],
)
def test_classes_that_cannot_be_used(op_for, python, field, text):
    with pytest.raises(ManifestError) as caught:
        op_for(MISSING.format(python=python, field=field), store=Dense("row"))
    assert str(caught.value).startswith("LostFwdOp params.store.type: ")
    assert text in str(caught.value)


@pytest.fixture
def rope(plan_for, construct):
    plan = plan_for(HELD)
    defaults = {"cap": 8, "table": None, "extra": None, "wide": False}
    return lambda **values: construct(plan, **{"factors": torch.ones(8), **defaults, **values})


def test_values_are_converted_for_expressions_and_kept_on_the_instance(store):
    class Mode(enum.Enum):
        FAST = "fast"

    op = store(mode=Mode.FAST, out_dtype=torch.float16, sizes=(1, 2))
    assert op._construction_indices.parameters["mode"] == "fast"
    assert op._construction_indices.parameters["out_dtype"] == "float16"
    assert op.mode is Mode.FAST
    record = op.check(x=torch.empty(2, 3))
    assert record.tensors["y"] == ((2,), "float16")


def test_a_parameter_that_is_not_stored(plan_for, construct, first_line):
    plan = plan_for(STORE)
    assert first_line(lambda: construct(plan)) == (
        "StoreFwdOp (construction): params.store: "
        "not stored: assign self.store before super().__init__()"
    )
    with pytest.raises(SignatureTypeError):
        construct(plan)


@pytest.mark.parametrize(
    ("values", "error", "fault"),
    [
        ({"mode": "slow"}, SignatureError, "expected one of 'exact', 'fast' or None, got 'slow'"),
        ({"mode": 3}, SignatureTypeError, "expected one of 'exact', 'fast' or None, got 3 (int)"),
        ({"out_dtype": torch.int8}, SignatureError, "got int8"),
        ({"out_dtype": "float16"}, SignatureTypeError, "got 'float16' (str)"),
        ({"sizes": [1.5]}, SignatureTypeError, "got [1.5] (list)"),
        ({"sizes": 3}, SignatureTypeError, "got 3 (int)"),
        ({"store": 3}, SignatureTypeError, "expected a RowStore, got 3 (int)"),
        (
            {"store": Dense(3, kind="tiled")},
            SignatureError,
            "a Dense has the kind 'dense', got one with 'tiled'",
        ),
        (
            {"store": Tiled(4, "row")},
            SignatureError,
            f"expected a {__name__}.Order for tiled.order, got 'row'",
        ),
        ({"store": object.__new__(Dense)}, SignatureError, "dense needs a field cols, got a value"),
        ({"store": Odd("kind")}, SignatureError, "has the kind 'dense', got one with None"),
        ({"store": Odd("cols")}, SignatureError, "cols of dense cannot be read: OSError: cols"),
        ({"sizes": Unshown()}, SignatureTypeError, "a value whose text fails with ZeroDivisionErr"),
        ({"sizes": torch.ones(3)}, SignatureTypeError, "got a tensor of shape (3,) float32"),
        ({"store": Dense(-1)}, SignatureError, "expected Dim for dense.cols, got -1"),
        ({"store": Tiled(4, Order.ROW, 1)}, SignatureError, "expected Bool for tiled.padded"),
    ],
)
def test_values_that_no_type_admits(store, values, error, fault):
    with pytest.raises(error) as caught:
        store(**values)
    assert type(caught.value) is error
    assert fault in str(caught.value)
    assert caught.value.declaration.startswith(f"params.{next(iter(values))}.type")
    assert caught.value.phase == "construction"


def test_an_invariant(store, first_line):
    assert first_line(lambda: store(store=Tiled(4, Order.COL, padded=True))) == (
        "StoreFwdOp (construction): adts.RowStore.tiled.invariant "
        "\"tile > 0 and (order == 'row' or not padded)\" does not hold: "
        "store.tile=4, store.order='col', store.padded=True"
    )
    with pytest.raises(SignatureError) as caught:
        store(store=Tiled(4, Order.COL, padded=True))
    assert type(caught.value) is SignatureError
    assert caught.value.declaration.startswith("adts.RowStore.tiled.invariant")


def test_an_invariant_that_cannot_be_evaluated(op_for, first_line):
    text = STORE.replace("tile > 0 and (", "12 // tile > 0 and (")
    given = {"mode": None, "out_dtype": None, "sizes": [1]}
    assert first_line(lambda: op_for(text, store=Tiled(0), **given)) == (
        "StoreFwdOp (construction): adts.RowStore.tiled.invariant "
        "\"12 // tile > 0 and (order == 'row' or not padded)\": 12 // tile divides by 0 "
        "(store.tile=0, store.order='row', store.padded=False)"
    )


def test_the_branch_of_an_algebraic_value(store):
    x = torch.empty(2, 4)
    assert store(store=Tiled(4)).check(x=x).branch_key[0] == (
        "tiled",
        (("order", "row"), ("padded", False)),
    )
    with pytest.raises(SignatureError, match="expected 3 axes"):
        store(store=Tiled(4, padded=True)).check(x=x)
    with pytest.raises(SignatureError, match="axis 1 has length 4, expected 3"):
        store().check(x=x)


def test_refinements_that_construction_decides(store):
    with pytest.raises(SignatureError, match=r'"sum\(sizes\) > 0" does not hold: sizes=\[\]'):
        store(sizes=[])
    with pytest.raises(SignatureError, match="does not hold: mode='exact', mode is present"):
        store(mode="exact")


def test_construction_time_tensors_solve_indices(rope):
    op = rope()
    assert dict(op._construction_indices) == {"T": "float32", "P": 4, "half": 2}
    assert op._construction_indices == {"T": "float32", "P": 4, "half": 2}
    with pytest.raises(TypeError):
        op._construction_indices["P"] = 5
    with pytest.raises(SignatureError) as caught:
        op.check(x=torch.empty(3, 5))
    assert "expected 4, where P=4 comes from params.factors axis 0" in str(caught.value)
    assert (
        "bound so far: T=float32 from params.factors dtype; P=4 from params.factors axis 0; "
        in (str(caught.value))
    )


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"factors": None}, SignatureTypeError, "params.factors: required, got None"),
        ({"factors": [1.0]}, SignatureTypeError, "params.factors: expected a tensor, got [1.0]"),
        ({"factors": torch.ones(7)}, SignatureError, "no integer P >= 0 satisfies"),
        ({"factors": torch.ones(8, 1)}, SignatureError, "expected 1 axis, got shape (8, 1)"),
        ({"factors": torch.ones(8).int()}, SignatureError, "int32 is not in T = float16 | float32"),
        ({"table": torch.ones(4)}, SignatureError, "expected int32, got float32"),
        ({"table": torch.ones(3).int()}, SignatureError, "axis 0 has length 3, expected 4"),
        (
            {"table": torch.ones(8).int()[::2]},
            SignatureError,
            'params.table.contiguous "true": expected a contiguous tensor, '
            "got shape (4,) with strides (2,)",
        ),
        (
            {"table": torch.ones(4, device="meta").int()},
            SignatureError,
            'params.table.device "cpu": expected cpu, got meta',
        ),
        (
            {"extra": torch.ones(4).int()},
            SignatureError,
            'params.extra.optional "wide": extra was passed (shape (4,)) but wide=False',
        ),
        (
            {"wide": True, "table": torch.ones(4).int()},
            SignatureError,
            'params.extra.optional "wide": extra was not passed but wide=True',
        ),
        (
            {"wide": True, "extra": torch.ones(4).int()},
            SignatureError,
            "does not hold: wide=True, table is absent",
        ),
        ({"factors": torch.ones(2)}, SignatureError, '"half > 0" does not hold: half=0'),
        ({"cap": 3}, SignatureError, '"P <= cap" does not hold: P=4, cap=3'),
    ],
)
def test_construction_time_tensors_that_are_rejected(rope, values, error, text):
    with pytest.raises(error) as caught:
        rope(**values)
    assert type(caught.value) is error
    assert text in str(caught.value)
    assert "RopeFwdOp (construction): " in str(caught.value)


def test_solved_values_survive_copies(rope):
    solved = rope()._construction_indices
    for copied in (copy.deepcopy(solved), pickle.loads(pickle.dumps(solved))):
        assert copied == solved
        assert copied.parameters == solved.parameters
    assert repr(solved) == repr(dict(solved))


CONDITIONAL = """
HeldFwdOp:
  signature:
    forall: {N: Dim}
    params:
      wide: {type: bool}
      extra: {dtype: int32, shape: "[2]", optional: wide, contiguous: true, device: cpu}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
"""


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (torch.ones(4).int()[::2], 'params.extra.contiguous "true": expected a contiguous tensor'),
        (torch.ones(2).int().to("meta"), 'params.extra.device "cpu": expected cpu, got meta'),
        (None, 'params.extra.optional "wide": extra was not passed but wide=True'),
    ],
)
def test_a_conditional_tensor_that_is_due_is_judged_by_its_form(op_for, extra, text):
    with pytest.raises(SignatureError) as caught:
        op_for(CONDITIONAL, wide=True, extra=extra)
    assert text in str(caught.value)


HOPELESS = """
HopelessFwdOp:
  signature:
    forall: {N: Dim}
    params:
      cap: {type: "int | None", default: null}
      flag: {type: bool, default: true}
    inputs:
      x: {dtype: float32, shape: "[N]"}
      w: {dtype: float32, shape: "[N]", optional: true}
    outputs: {y: {dtype: float32, shape: "[cap.value if present(cap) else 2]", buffer: out}}
    shape_rules: ["RULE"]
"""


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("present(w) and present(cap)", "cap is absent"),
        ("present(cap) and (present(w) or present(out))", "cap is absent"),
        ("not (present(w) or not present(cap))", "cap is absent"),
        ("(flag or present(w)) and (present(cap) or not flag)", "flag=True, cap is absent"),
    ],
)
def test_a_restriction_that_no_call_can_meet_is_told_at_construction(op_for, rule, facts):
    """What is left of it once parameters are known is false: there is no call to wait for."""
    with pytest.raises(SignatureError) as caught:
        op_for(HOPELESS.replace("RULE", rule), cap=None, flag=True)
    assert caught.value.phase == "construction"
    assert str(caught.value).splitlines()[0].endswith(f'"{rule}" does not hold: {facts}')


def test_a_restriction_that_a_call_may_meet_waits_for_it(op_for):
    rule, ones = "present(w) and present(cap)", torch.ones(3)
    op = op_for(HOPELESS.replace("RULE", rule), cap=3, flag=True)
    assert op.check(x=ones, w=ones).shape("y") == (3,)
    with pytest.raises(SignatureError) as caught:
        op.check(x=ones)
    assert f'"{rule}" does not hold: w is absent, cap is present' in str(caught.value)


PRESENCES = """
EarlyFwdOp:
  signature:
    forall: {R: Dim}
    params:
      flag: {type: bool}
      held: {dtype: float32, shape: "[R]", optional: "present(due)"}
    inputs:
      x: {dtype: float32, shape: "[R]"}
      due: {dtype: float32, shape: "[R]", optional: flag}
    outputs:
      y: {dtype: float32, shape: "[R]"}
      z: {dtype: float32, shape: "[R]", nullable: "present(due)"}
    shape_rules: ["present(RULE) or flag"]
"""


@pytest.mark.parametrize("name", ["due", "z", "held"])
def test_construction_asks_what_decides_a_presence_that_only_a_call_has(op_for, name):
    spec, ones = PRESENCES.replace("RULE", name), torch.ones(3)
    assert op_for(spec, flag=True, held=ones).check(x=ones, due=ones).present("z")
    with pytest.raises(
        SignatureError, match='params.held.optional "present\\(due\\)": held was not'
    ):
        op_for(spec, flag=True, held=None)
    with pytest.raises(SignatureError, match=r"shape_rules\[0\].*does not hold") as caught:
        op_for(spec, flag=False, held=None)
    assert caught.value.phase == "construction"
