"""Expressions as Python text: precedence, names, and where symbolic forms are needed."""

from __future__ import annotations

import ast
import random
from types import SimpleNamespace

import pytest

from tileops._core.codegen.lower import Lowering, primitive
from tileops._core.codegen.names import Names
from tileops._core.lang import evaluate as language
from tileops._core.lang.nodes import (
    Arithmetic,
    Attribute,
    Compare,
    Conditional,
    Constant,
    Logical,
    Name,
    Negate,
    Not,
)
from tileops._core.lang.parser import parse_expression

SPEC = """
SampleFwdOp:
  signature:
    forall: {M: Dim, N: Dim, S: Shape, T: "DType[float16 | float32]"}
    params:
      k: {type: int}
      pad: {type: "int | 'same'"}
      axes: {type: "list[int] | tuple[int, ...]"}
      cap: {type: "float | None"}
      flag: {type: bool}
    inputs:
      x: {dtype: T, shape: "[M, N]"}
      y: {dtype: T, shape: "[*S]", optional: true}
    outputs:
      z: {dtype: T, shape: "[M]", nullable: flag}
    let: {half: "N // 2", twice: "2 * k"}
    shape_rules: ["k > 0", "half > 0", "twice > 0", "not present(y) or len(S) > 0"]
"""


@pytest.fixture
def names(plan_for):
    return lambda traced: Names(plan_for(SPEC), traced=traced)


def lowered(names, text, traced=False):
    return Lowering(names(traced)).text(parse_expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(M + 1) * N - 2", "(dim_M + 1) * dim_N - 2"),
        ("-(M + N) // 2 % 3", "-(dim_M + dim_N) // 2 % 3"),
        ("M - (N - 1)", "dim_M - (dim_N - 1)"),
        ("half + twice", "let_half + let_twice"),
        ("S[0] + S[-1] + len(S[1:-1])", "shape_S[0] + shape_S[-1] + len(shape_S[1:-1])"),
        ("0 < M <= N", "0 < dim_M <= dim_N"),
        ("not M > 1 and N > 2 or k == 3", "not dim_M > 1 and dim_N > 2 or param_k == 3"),
        ("M if k > 1 else N", "dim_M if param_k > 1 else dim_N"),
        ("pad == 'same'", "param_pad == 'same'"),
        ("pad != 'same' and pad > 0", "param_pad != 'same' and param_pad > 0"),
        ("T in ('float16', 'float32')", "dtype_T in ('float16', 'float32')"),
        ("present(y) == flag", "has_y == param_flag"),
        ("present(cap)", "param_cap is not None"),
        ("present(z)", "param_flag"),
        ("not present(cap) or cap.value > 0.5", "not param_cap is not None or param_cap > 0.5"),
        ("all(a > 0 for a in axes)", "all_of([item_a > 0 for item_a in param_axes])"),
        ("max((M, N))", "max_of((dim_M, dim_N))"),
        ("pool.out(M, k, 1, 0, 1, True)", "pool_out(dim_M, param_k, 1, 0, 1, True)"),
        ("max(S, default=1)", "max_of(shape_S, default=1)"),
        ("S == (M, N)", "same_items(shape_S, (dim_M, dim_N))"),
        ("S < (M, N)", "tuple(shape_S) < tuple((dim_M, dim_N))"),
        ("flag == True", "param_flag"),
        ("(M > 1) == False", "not dim_M > 1"),
        ("k < inf", "param_k < 1e309"),
    ],
)
def test_plain_forms(names, text, expected):
    assert lowered(names, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M == N", "dim_M == dim_N"),
        ("M > 1 and N > 2", "sym_and(dim_M > 1, lambda: dim_N > 2)"),
        ("k > 1 and M > 2", "param_k > 1 and dim_M > 2"),
        ("len(S) == 0 or S[0] > 1", "len(shape_S) == 0 or shape_S[0] > 1"),
        ("M > 1 or k > 2 or flag", "sym_or(dim_M > 1, lambda: param_k > 2, lambda: param_flag)"),
        ("not M > 1", "sym_not(dim_M > 1)"),
        ("not flag", "not param_flag"),
        ("half if M > 1 else k", "sym_if(dim_M > 1, lambda: let_half, lambda: param_k)"),
        ("M if flag else twice", "dim_M if param_flag else let_twice"),
        ("0 < M <= N", "sym_and(0 < dim_M, lambda: dim_M <= dim_N)"),
        ("M in (1, N)", "contains((1, dim_N), dim_M)"),
        ("M not in (1, 2)", "sym_not(contains((1, 2), dim_M))"),
        ("(M > 1) == flag", "equal(dim_M > 1, param_flag)"),
        ("flag != (M > 1)", "sym_not(equal(param_flag, dim_M > 1))"),
        ("(1 if M > 1 else 2) == N",
         "sym_if(dim_M > 1, lambda: 1, lambda: 2) == dim_N"),
        ("(M > 1 if flag else N > 1) == (not M > 2)",
         "equal(dim_M > 1 if param_flag else dim_N > 1, sym_not(dim_M > 2))"),
        ("(M, N)[k] == 1", "(dim_M, dim_N)[param_k] == 1"),
        ("(M > 1, N > 1)[k] == (N > 1, flag)[k]",
         "equal((dim_M > 1, dim_N > 1)[param_k], (dim_N > 1, param_flag)[param_k])"),
        ("True == (M > 1)", "equal(True, dim_M > 1)"),
        ("all(n > 1 for n in S) == (M in (1, 2)) == flag",
         "sym_and(equal(all_of([item_n > 1 for item_n in shape_S]), contains((1, 2), dim_M)), "
         "lambda: equal(contains((1, 2), dim_M), param_flag))"),
        ("k in (1, 2)", "param_k in (1, 2)"),
        ("N % M == 0", "dim_N % nonzero(dim_M) == 0"),
        ("N // k", "dim_N // param_k"),
        ("all(n > 1 and n < 9 for n in S)",
         "all_of([sym_and(item_n > 1, lambda: item_n < 9) for item_n in shape_S])"),
        ("all(a > 1 and a < 9 for a in axes)",
         "all_of([item_a > 1 and item_a < 9 for item_a in param_axes])"),
    ],
)  # fmt: skip
def test_symbolic_forms_only_where_a_size_takes_part(names, text, expected):
    assert lowered(names, text, traced=True) == expected


def test_the_presence_of_an_output_is_on_record(names):
    lowering = Lowering(names(False), of_record=True)
    assert lowering.text(parse_expression("present(z)")) == "has_z"
    assert lowering.text(parse_expression("bytes(x)")) == "record.bytes('x')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M == 1", "dim_M != 1"),
        ("k in (1, 2)", "param_k not in (1, 2)"),
        ("M > 1", "not dim_M > 1"),
        ("not flag", "param_flag"),
        ("M > 1 and flag", "not (dim_M > 1 and param_flag)"),
        ("flag", "not param_flag"),
    ],
)
def test_opposites(names, text, expected):
    assert Lowering(names(False)).negated(parse_expression(text)) == expected


def test_primitives_keep_out_of_the_way_of_builtins():
    assert [primitive(c) for c in ("sum", "all", "pool.out", "broadcast")] == [
        "sum_of", "all_of", "pool_out", "broadcast",
    ]  # fmt: skip


def test_no_constant_is_spliced(names):
    hostile = "'); import os; ('"
    text = Lowering(names(False)).text(Compare(Name("pad"), ("==",), (Constant(hostile),)))
    [statement] = ast.parse(text).body
    assert isinstance(statement.value.comparators[0], ast.Constant)
    assert statement.value.comparators[0].value == hostile


@pytest.mark.parametrize("attr", ["a.b", "x()", "__class__ ", "1"])
def test_no_attribute_is_spliced(names, attr):
    with pytest.raises(ValueError, match="not a name"):
        Lowering(names(False)).text(Attribute(Name("k"), attr))


def drawn_integer(rng, depth):
    """A random integer expression over M, N and k."""
    if depth == 0 or rng.random() < 0.3:
        leaves = [Name("M"), Name("N"), Name("k"), Constant(0), Constant(2), Constant(-3)]
        return rng.choice(leaves)
    kind = rng.randrange(4)
    if kind == 0:
        return Negate(drawn_integer(rng, depth - 1))
    if kind == 1:
        arms = drawn_integer(rng, depth - 1), drawn_integer(rng, depth - 1)
        return Conditional(drawn_truth(rng, depth - 1), *arms)
    operands = drawn_integer(rng, depth - 1), drawn_integer(rng, depth - 1)
    return Arithmetic(rng.choice(["+", "-", "*", "//", "%"]), *operands)


def drawn_truth(rng, depth):
    """A random truth over comparisons of such integers."""
    if depth == 0 or rng.random() < 0.4:
        count = rng.choice([1, 1, 2])
        ops = tuple(rng.choice(["==", "!=", "<", "<=", ">", ">="]) for _ in range(count))
        first, *rest = (drawn_integer(rng, min(depth, 2)) for _ in range(count + 1))
        return Compare(first, ops, tuple(rest))
    if rng.random() < 0.3:
        return Not(drawn_truth(rng, depth - 1))
    operands = tuple(drawn_truth(rng, depth - 1) for _ in range(rng.choice([2, 3])))
    return Logical(rng.choice(["and", "or"]), operands)


class _Scope(SimpleNamespace):
    def value(self, name):
        return getattr(self, name)


@pytest.mark.parametrize("traced", [False, True])
def test_the_text_means_what_the_expression_means(names, helpers, traced):
    """Printed Python, in either form, gives what the language's own evaluation gives."""
    known, rng = names(traced), random.Random(7)
    for _ in range(400):
        expr = rng.choice([drawn_integer, drawn_truth])(rng, 4)
        m, n = rng.randint(-3, 9), rng.randint(-3, 9)
        text = Lowering(known).text(expr)
        code = compile(text, "<test>", "eval")
        values = {**helpers, "dim_M": m, "dim_N": n, "param_k": 5}
        try:
            expected = language.evaluate(expr, _Scope(M=m, N=n, k=5))
        except language.EvaluationFault:
            with pytest.raises(ZeroDivisionError):
                eval(code, values)
        else:
            found = eval(code, values)
            assert (type(found), found) == (type(expected), expected), text


@pytest.fixture
def helpers():
    """Plain stand-ins for the symbolic helpers, so that no torch is needed."""

    def sym_and(first, *later):
        return first and all(operand() for operand in later)

    def sym_or(first, *later):
        return first or any(operand() for operand in later)

    return {
        "sym_and": sym_and,
        "sym_or": sym_or,
        "sym_not": lambda value: not value,
        "sym_if": lambda test, then, orelse: then() if test else orelse(),
        "nonzero": lambda value: value,
    }
