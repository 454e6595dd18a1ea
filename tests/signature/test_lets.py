"""Lets of an algebraic kind: matched, read, checked and told by their own names."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pytest
import torch

from tileops.errors import SignatureError


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
    kind: str = "tiled"


CHOSEN = f"""
ChosenFwdOp:
  signature:
    forall: {{R: Dim}}
    params:
      own: {{type: Lay}}
      given: {{type: "Lay | None", default: null}}
      flag: {{type: bool, default: false}}
    inputs:
      x: {{dtype: float32, shape: "Rows[q, R]"}}
      z: {{dtype: float32, shape: "Some[some, R]"}}
      w: {{dtype: float32, shape: "[R]", optional: "same.kind == 'tiled' and same.order == 'col'"}}
    outputs:
      y: {{dtype: float32, shape: "[R, width]"}}
    let:
      width: "same.cols if same.kind == 'dense' else q.tile"
      same: q
      q: "given.value if present(given) and flag else own"
      some: "q if flag else None"
    types:
      Rows:
        params: {{l: Lay, R: Dim}}
        match: l
        cases:
        - {{when: {{dense: _}}, is: "[R, l.cols]"}}
        - {{when: {{tiled: {{order: row}}}}, is: "[R, l.tile]"}}
        - {{when: {{tiled: {{order: col}}}}, is: "[l.tile, R]"}}
      Some:
        params: {{l: "Maybe[Lay]", R: Dim}}
        match: l
        cases:
        - {{when: null, is: "[R]"}}
        - {{when: {{dense: _}}, is: "[R, l.value.cols]"}}
        - {{when: {{tiled: _}}, is: "[R, l.value.tile, 1]"}}
    shape_rules:
    - "not present(some) or some.value.kind == 'dense' or present(given)"
    - "q.kind == 'dense' or q.tile > 1"
  roofline: {{flops: "R * width + (1 if q.kind == 'tiled' and q.order == 'col' else 0)"}}
adts:
  Lay:
    sum:
      dense: {{python: "{__name__}.Dense", fields: {{cols: Dim}}}}
      tiled:
        python: "{__name__}.Tiled"
        fields: {{tile: Dim, order: {{type: "'row' | 'col'", python: "{__name__}.Order"}}}}
"""


def passed(x, z, w=None):
    shapes = {"x": x, "z": z, "w": w}
    return {name: None if s is None else torch.empty(s) for name, s in shapes.items()}


@pytest.mark.parametrize(
    ("values", "tensors", "shape", "flops"),
    [
        ({"own": Dense(3)}, passed((4, 3), (4,)), (4, 3), 12),
        ({"own": Dense(3), "flag": True}, passed((4, 3), (4, 3)), (4, 3), 12),
        ({"own": Dense(3), "given": Tiled(2)}, passed((4, 3), (4,)), (4, 3), 12),
        (
            {"own": Dense(3), "given": Tiled(2), "flag": True},
            passed((4, 2), (4, 2, 1)),
            (4, 2),
            8,
        ),
        (
            {"own": Dense(3), "given": Tiled(2, Order.COL), "flag": True},
            passed((2, 4), (4, 2, 1), (4,)),
            (4, 2),
            9,
        ),
        ({"own": Tiled(2, Order.COL)}, passed((2, 4), (4,), (4,)), (4, 2), 9),
    ],
)
def test_what_a_let_names_decides(op_for, values, tensors, shape, flops):
    op = op_for(CHOSEN, **{"given": None, "flag": False, **values})
    record = op.check(**tensors)
    assert record.shape("y") == shape
    named = values["given"] if values.get("given") and values.get("flag") else values["own"]
    assert record.indices["q"] is record.indices["same"] is named
    assert op.plan.eval_roofline(record)[0] == flops


@pytest.mark.parametrize(
    ("values", "tensors", "text"),
    [
        (
            {"own": Tiled(1)},
            passed((4, 1), (4,)),
            "(construction): shape_rules[1] \"q.kind == 'dense' or q.tile > 1\" does not hold: "
            "q.tile=1",
        ),
        (
            {"own": Tiled(2), "flag": True},
            passed((4, 2), (4, 2, 1)),
            "(construction): shape_rules[0] \"not present(some) or some.value.kind == 'dense' or "
            'present(given)" does not hold: flag=True, '
            "own=Tiled(tile=2, order=<Order.ROW: 'row'>, kind='tiled'), given is absent",
        ),
        (
            {"own": Dense(3)},
            passed((4, 2), (4,)),
            '(call): inputs.x.shape "Rows[q, R]": axis 1 has length 2, expected 3, '
            "where q=Dense(cols=3, kind='dense') comes from let.q",
        ),
        (
            {"own": Tiled(2, Order.COL)},
            passed((2, 4), (4,)),
            "(call): inputs.w.optional \"same.kind == 'tiled' and same.order == 'col'\": "
            "w was not passed but same.order='col'",
        ),
    ],
)
def test_errors_speak_of_the_let(op_for, values, tensors, text):
    with pytest.raises(SignatureError) as caught:
        op_for(CHOSEN, **{"given": None, "flag": False, **values}).check(**tensors)
    assert str(caught.value).splitlines()[0] == f"ChosenFwdOp {text}"


def test_the_source_gives_a_let_its_value_under_its_declaration(plan_for):
    lines = plan_for(CHOSEN).source().splitlines()
    place = next(i for i, line in enumerate(lines) if "let_q = param_own" in line)
    assert 'let.q "given.value if present(given) and flag else own"' in lines[place - 1]
    assert any("let_same = let_q" in line for line in lines)


NUMBERED = """
NumberedFwdOp:
  signature:
    forall: {N: Dim}
    params: {k: {type: int}, a: {type: Lay}, b: {type: Lay}}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
    let: {q: "a if k > 3 else b"}
    shape_rules: ["q.kind == 'dense' or N > 4"]
""" + CHOSEN[CHOSEN.index("adts:") :]


def test_a_number_may_choose_where_no_branch_needs_to_know(op_for):
    values = {"a": Dense(3), "b": Tiled(2)}
    op_for(NUMBERED, k=4, **values).check(x=torch.empty(2))
    op = op_for(NUMBERED, k=3, **values)
    op.check(x=torch.empty(5))
    with pytest.raises(SignatureError, match=r"does not hold: q=Tiled\(tile=2.*N=2"):
        op.check(x=torch.empty(2))
