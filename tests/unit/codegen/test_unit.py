"""The source unit as a whole: safe, deterministic, free of torch while it is made."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tileops._core.codegen as package
from tileops._core.codegen.guards import Guards
from tileops._core.codegen.names import PREFIXES, Names, spell
from tileops._core.codegen.unit import generate
from tileops._core.signature.plan import Guard

EMITTER_LINES = 40
SOURCES = sorted(Path(package.__file__).parent.glob("*.py"))
RUNTIME = Path(package.__file__).parents[1] / "runtime" / "names.py"

STORES = """
StoreFwdOp:
  signature:
    forall: {R: Dim, T: "DType[float16 | bfloat16 | float32]"}
    params:
      mode: {type: "'a' | 'b' | 'c'"}
      store: {type: "RowStore | None"}
      flag: {type: "bool | None"}
    inputs:
      y: {dtype: T, shape: "[R]"}
      x: {dtype: T, shape: "[R]", optional: true}
    outputs: {z: {dtype: T, shape: "[R]"}}
    shape_rules:
    - "mode != 'c' or present(x)"
    - "present(store) or not present(flag) or R > 0"
adts:
  RowStore:
    sum:
      dense: {python: a.Dense, fields: {cols: Dim}}
      tiled:
        python: a.Tiled
        fields: {order: {type: "'row' | 'col'", python: a.Order}, even: Bool}
"""


def exported():
    tree = ast.parse(RUNTIME.read_text(encoding="utf-8"))
    [names] = [n.value for n in tree.body if isinstance(n, ast.Assign)]
    return ast.literal_eval(names)


def test_no_helper_can_be_hidden_by_a_name_of_a_spec():
    assert not [n for n in exported() for p in PREFIXES if n.startswith(f"{p}_")]
    locals_of_their_own = {"known", "ok", "expected", "count", "reason", "device", "outputs"}
    assert not [n for n in locals_of_their_own for p in PREFIXES if n.startswith(f"{p}_")]


def test_names_of_different_kinds_never_meet():
    spelled = {spell(prefix, name) for prefix in PREFIXES for name in ("x", "dim_x", "x_dim")}
    assert len(spelled) == 3 * len(PREFIXES)


def test_emitters_are_short():
    long = [
        f"{path.name}: {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > EMITTER_LINES
    ]
    assert not long


@pytest.mark.parametrize(
    "literal", ['""" ) ; import os # {}', "\u2028", "\u00e9", "{x}", "%s", "#", "'); x('"]
)
def test_no_text_of_a_spec_becomes_code(plan_for, literal):
    quote = '"' if "'" in literal else "'"
    spec = {
        "SampleFwdOp": {
            "signature": {
                "forall": {"N": "Dim"},
                "params": {"mode": {"type": f"{quote}{literal}{quote} | 'other'"}},
                "inputs": {"x": {"dtype": "float32", "shape": "[N]"}},
                "outputs": {"y": {"dtype": "float32", "shape": "[N]"}},
                "shape_rules": [f"N > 0 or mode == {quote}{literal}{quote}"],
            }
        }
    }
    text = generate(plan_for(spec))
    tree = ast.parse(text)
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    expected = "check_construction check effect_branch check_result roofline"
    assert functions == expected.split()


def test_the_text_depends_on_the_spec_alone():
    """Neither the order of sets nor the time or the process shows."""
    script = (
        "import sys; from pathlib import Path; import importlib.util as u\n"
        "s = u.spec_from_file_location('c', sys.argv[1]); m = u.module_from_spec(s)\n"
        "s.loader.exec_module(m); t = u.spec_from_file_location('t', sys.argv[2])\n"
        "n = u.module_from_spec(t); t.loader.exec_module(n)\n"
        "from tileops._core.codegen.unit import generate\n"
        "print(generate(m.plan(n.STORES))); print('torch' in sys.modules)"
    )
    here = Path(__file__)
    texts = set()
    for seed in ("0", "1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", script, str(here.with_name("conftest.py")), str(here)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        texts.add(ran.stdout)
    [text] = texts
    assert text.rstrip().endswith("False")


STORE = (
    ("dense", ()),
    *(
        ("tiled", (("order", order), ("even", even)))
        for order in ("col", "row")
        for even in (False, True)
    ),
)


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (({},), None),
        ((), "False"),
        (({"x": {True}},), "has_x"),
        (({"x": {False}},), "not has_x"),
        (({"mode": {"a"}},), "param_mode == 'a'"),
        (({"mode": {"c", "a"}},), "param_mode in ('a', 'c')"),
        (({"flag": {None}},), "param_flag is None"),
        (({"flag": {True, False}},), "param_flag is not None"),
        (({"flag": {True}},), "param_flag is True"),
        (({"flag": {None, False}},), "param_flag in (None, False)"),
        (
            ({"x": {True}, "mode": {"a"}}, {"flag": {None}}),
            "(has_x and param_mode == 'a') or param_flag is None",
        ),
        (({"store": {None}},), "param_store is None"),
        (({"store": set(STORE)},), "param_store is not None and (param_store.kind == 'dense' or "
                                   "param_store.kind == 'tiled')"),
        (({"store": {STORE[0]}},), "param_store is not None and param_store.kind == 'dense'"),
        (({"store": {None, STORE[1], STORE[3]}},),
         "param_store is None or (param_store.kind == 'tiled' and not param_store.even)"),
        (({"store": {None, STORE[2]}},),
         "param_store is None or (param_store.kind == 'tiled' and "
         "param_store.order.value == 'col' and param_store.even)"),
        (({"store": {None, STORE[1], STORE[4]}},),
         "param_store is None or (param_store.kind == 'tiled' and "
         "((param_store.order.value == 'col' and not param_store.even) or "
         "(param_store.order.value == 'row' and param_store.even)))"),
    ],
)  # fmt: skip
def test_guards(plan_for, clauses, expected):
    guards = Guards(Names(plan_for(STORES)))
    frozen = tuple({name: frozenset(v) for name, v in clause.items()} for clause in clauses)
    assert guards.text(Guard(frozen)) == expected


def test_guards_that_leave_nothing_out(plan_for):
    guards = Guards(Names(plan_for(STORES)))
    only = lambda name, *values: Guard(({name: frozenset(values)},))  # noqa: E731
    assert guards.cover([only("x", True), only("x", False)])
    assert guards.cover([only("mode", "a"), only("mode", "b", "c")])
    assert guards.cover([Guard(({},))])
    assert not guards.cover([only("mode", "a"), only("mode", "b")])
    assert not guards.cover([only("x", True), only("mode", "a")])
