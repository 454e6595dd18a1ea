"""Checks on symbolic sizes: what becomes an assertion, and that nothing is specialised."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from tileops._core.runtime import symbolic
from tileops.errors import SignatureError


class Traced:
    """Makes fake tensors whose lengths are all symbolic, with the given hints."""

    def __init__(self):
        self.shapes = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.shapes)

    def __call__(self, *shape, dtype=torch.float32):
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(shape))
        return self.mode.from_tensor(torch.empty(shape, dtype=dtype), symbolic_context=context)

    @property
    def guards(self):
        """The conditions under which a trace stays valid."""
        return sorted(str(guard.expr) for guard in self.shapes.guards)


@pytest.fixture
def traced():
    return Traced()


def wrap(*rules, inputs='x: {dtype: T, shape: "[*S]"}', outputs="[*S]", lets="", params=""):
    listed = ", ".join(f'"{rule}"' for rule in rules)
    return f"""
RuleFwdOp:
  signature:
    forall: {{S: Shape, M: Dim, N: Dim, T: "DType[float32 | float16]"}}
    params: {{{params}}}
    inputs:
      {inputs}
    outputs: {{y: {{dtype: T, shape: "{outputs}"}}}}
    let: {{{lets}}}
    shape_rules: [{listed}]
"""


MATRIX = 'x: {dtype: T, shape: "[M, N]"}'


def test_a_dynamic_call_adds_only_what_the_signature_needs(row_scale, traced):
    x = traced(64, 512)
    rows, columns = x.shape
    record = row_scale.check(x=x)
    assert [str(size) for size in record.shape("y")] == [str(rows), str(columns // 2)]
    assert all(isinstance(size, torch.SymInt) for size in record.shape("y"))
    assert traced.guards == [f"Eq(Mod({columns}, 2), 0)"]


def test_equal_axes_become_an_assertion(row_scale, traced):
    x, scale = traced(64, 512), traced(64)
    with pytest.raises(SignatureError) as caught:
        row_scale.check(x=x, scale=traced(32))
    symbol, other = str(x.shape[0]), str(scale.shape[0])
    assert f"expected {symbol}, where R={symbol} comes from inputs.x axis 0" in str(caught.value)
    row_scale.check(x=x, scale=scale)
    assert {f"Eq({symbol}, {other})", f"Eq({other}, {symbol})"} & set(traced.guards)


def test_an_inexact_division_is_found_while_tracing(row_scale, traced):
    with pytest.raises(SignatureError, match="which no integer C >= 0 satisfies"):
        row_scale.check(x=traced(64, 7))


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("M > 0 and N % M == 0", (4, 8), (5, 8)),
        ("M == 7 or N == 8", (4, 8), (5, 9)),
        ("not (M == 4 and N == 8)", (5, 8), (4, 8)),
        ("2 < M <= N", (4, 8), (9, 8)),
        ("2 < M // 2 <= N", (8, 8), (4, 8)),
        ("(M if N > 8 else N) == 8", (4, 8), (4, 9)),
        ("M % 2 == 0 if N > 8 else M == 5", (5, 8), (5, 9)),
        ("M in (4, 5, N)", (4, 8), (6, 8)),
        ("M not in (4, N)", (5, 8), (4, 8)),
        ("max((M, N)) == 8 and min((M, N)) == 4", (4, 8), (5, 8)),
        ("sum((M, N)) == 12 and prod((M, N)) == 32", (4, 8), (4, 9)),
        ("ceil_div(N, M) == 2", (4, 8), (4, 9)),
        ("all(n > 3 for n in (M, N))", (4, 8), (4, 3)),
        ("conv.out(N, 3, 2, 0, 1) == 3", (4, 8), (4, 10)),
        ("pool.out(N, 3, 2, 0, 1, True) == 4", (4, 8), (4, 11)),
    ],
)
def test_rules_on_symbolic_sizes_agree_with_plain_ones(op_for, traced, rule, good, bad):
    op = op_for(wrap(rule, inputs=MATRIX, outputs="[M, N]"))
    for make in (torch.empty, traced):
        op.check(x=make(*good))
        with pytest.raises(SignatureError) as caught:
            op.check(x=make(*bad))
        assert f'shape_rules[0] "{rule}" does not hold: ' in str(caught.value)


def test_a_plain_operand_still_stops_a_connective(op_for, traced):
    op = op_for(wrap("len(S) == 0 or S[-1] % 2 == 0", "len(S) < 2 or S[0] > 1"))
    op.check(x=torch.empty(()))
    op.check(x=traced())
    for make in (torch.empty, traced):
        op.check(x=make(3, 4))
        with pytest.raises(SignatureError, match="does not hold"):
            op.check(x=make(3, 5))


def test_sequences_are_equal_item_by_item(op_for, traced):
    inputs = 'x: {dtype: T, shape: "[*S]"}\n      z: {dtype: T, shape: "[M, N]"}'
    op = op_for(wrap("S == (M, N)", "S[:-1] != (7,)", inputs=inputs))
    for make in (torch.empty, traced):
        op.check(x=make(4, 8), z=make(4, 8))
        for shape in ((4, 9), (4, 8, 2)):
            with pytest.raises(SignatureError, match=r"does not hold: S="):
                op.check(x=make(*shape), z=make(4, 8))


def test_runs_of_axes(op_for, traced):
    inputs = 'x: {dtype: T, shape: "[*S, N]"}\n      z: {dtype: T, shape: "[*S]"}'
    op = op_for(wrap(inputs=inputs))
    x = traced(4, 5, 6)
    record = op.check(x=x, z=traced(4, 5))
    assert len(record.shape("y")) == 2
    with pytest.raises(SignatureError, match="expected"):
        op.check(x=x, z=traced(4, 6))


def test_the_domain_of_a_primitive(op_for, traced):
    op = op_for(wrap(inputs=MATRIX, outputs="[half]", lets='half: "ceil_div(N, M - 4)"'))
    assert op.check(x=torch.empty(6, 8)).shape("y") == (4,)
    op.check(x=traced(6, 8))
    for make in (torch.empty, traced):
        with pytest.raises(SignatureError, match=r"let\.half .*: ceil_div needs b > 0, got b="):
            op.check(x=make(3, 8))


def test_a_zero_divisor(op_for, traced):
    op = op_for(wrap("N % (M - 4) == 0", inputs=MATRIX, outputs="[M]"))
    for make in (torch.empty, traced):
        op.check(x=make(6, 8))
        with pytest.raises(SignatureError, match=r'shape_rules\[0\] "N % \(M - 4\) == 0": '):
            op.check(x=make(4, 8))


def test_a_negative_axis(op_for, traced):
    op = op_for(wrap(inputs=MATRIX, outputs="[N - M]"))
    for make in (torch.empty, traced):
        op.check(x=make(4, 8))
        with pytest.raises(SignatureError) as caught:
            op.check(x=make(8, 4))
        assert 'outputs.y.shape "[N - M]": the length would be negative: N - M is ' in str(
            caught.value
        )


def test_broadcast_sizes(op_for, traced):
    inputs = 'x: {dtype: T, shape: "[*S]"}\n      z: {dtype: T, shape: "[M, N]"}'
    op = op_for(wrap(inputs=inputs, outputs="[*broadcast(S, (M, N))]"))
    assert op.check(x=torch.empty(8), z=torch.empty(4, 8)).shape("y") == (4, 8)
    assert len(op.check(x=traced(8), z=traced(4, 8)).shape("y")) == 2
    for make in (torch.empty, traced):
        with pytest.raises(SignatureError, match=r"outputs\.y\.shape .*: broadcast: sizes"):
            op.check(x=make(7), z=make(4, 8))


def test_a_symbolic_buffer_and_a_written_input(op_for, traced):
    text = """
AccFwdOp:
  signature:
    forall: {M: Dim, T: "DType[float32]"}
    inputs: {x: {dtype: T, shape: "[M]", mutated: true, contiguous: true}}
    outputs: {y: {dtype: T, shape: "[M]", buffer: out}}
"""
    op = op_for(text)
    op.check(x=traced(8), out=traced(8))
    with pytest.raises(SignatureError, match="expected shape"):
        op.check(x=traced(8), out=traced(9))


def test_one_graph_for_every_size(row_scale):
    plan, seen = row_scale.plan, []

    @torch.library.custom_op("tileops_test::row_scale", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x[:, : x.shape[1] // 2].clone()

    @operator.register_fake
    def _(x):
        seen.append(x.shape)
        record = plan.check(row_scale, {"x": x, "scale": None})
        return torch.empty(record.shape("y"), device=record.device, dtype=x.dtype)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(operator, fullgraph=True, dynamic=True, backend="eager")
    for rows, columns in ((3, 4), (5, 8), (9, 2)):
        assert compiled(torch.zeros(rows, columns)).shape == (rows, columns // 2)
    assert len({id(shape) for shape in seen}) == len(seen)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_rejected_call_ends_a_trace_with_our_text(row_scale):
    plan = row_scale.plan

    @torch.library.custom_op("tileops_test::row_scale_odd", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @operator.register_fake
    def _(x):
        record = plan.check(row_scale, {"x": x, "scale": None})
        return torch.empty(record.shape("y"))

    torch._dynamo.reset()
    with pytest.raises(Exception, match="which no integer C >= 0 satisfies"):
        torch.compile(operator, fullgraph=True, dynamic=True, backend="eager")(torch.zeros(3, 5))


# The helpers by themselves


def test_connectives_on_plain_values():
    def never():
        raise AssertionError("evaluated")

    assert symbolic.sym_and(True, lambda: 3 > 2) is True
    assert symbolic.sym_and(False, never) is False
    assert symbolic.sym_or(True, never) is True
    assert symbolic.sym_or(False, lambda: False, lambda: True) is True
    assert symbolic.sym_not(False) is True
    assert symbolic.sym_if(True, lambda: 1, never) == 1
    assert symbolic.same_items([1, 2], (1, 2)) is True
    assert symbolic.same_items((1,), (1, 2)) is False
    assert symbolic.contains((1, 2), 2) is True
    assert symbolic.contains((), 2) is False
    assert symbolic.contains(([1, 2], 3), (1, 2)) is True
    assert symbolic.same_items(([1],), ((1,),)) is True
    assert symbolic.same_items((1,), 1) is False


def test_a_symbolic_truth_is_never_made_a_python_one(traced):
    [a, b] = traced(4, 8).shape
    for value in (
        symbolic.sym_and(a > 3, lambda: b > 3),
        symbolic.sym_or(a > 5, lambda: b > 3),
        symbolic.sym_not(a > 3),
        symbolic.sym_if(a > 3, lambda: b > 3, lambda: False),
        symbolic.same_items((a, 2), (b, 2)),
        symbolic.contains((a, 3), b),
        symbolic.contains(((3, 4), [5, 6]), (a, b)),
        symbolic.same_items(((a, b), (1,)), ([b, a], [1])),
    ):
        assert isinstance(value, torch.SymBool)
    assert isinstance(symbolic.sym_if(a > 3, lambda: a, lambda: 5), torch.SymInt)
    assert isinstance(symbolic.sym_if(a > 3, lambda: 4, lambda: 5), torch.SymInt)
    assert traced.guards == []


def test_plain_operands_decide_symbolic_connectives(traced):
    [a] = traced(4).shape
    assert symbolic.sym_and(a > 3, lambda: False) is False
    assert symbolic.sym_or(a > 3, lambda: True) is True
    assert symbolic.same_items((a, 2), (a, 3)) is False
    assert symbolic.contains((a, 3), 3) is True
    assert traced.guards == []


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("columns", [2, 4])
def test_symbolic_truths_are_compared(traced, rows, columns):
    """Compared as they are, torch fails once it evaluates the outcome."""
    a, b = traced(rows, columns).shape
    left, right = a > 3, b > 3
    for found, expected in (
        (symbolic.equal(left, right), rows == columns),
        (symbolic.equal(left, True), rows == 4),
        (symbolic.equal(False, right), columns == 2),
        (symbolic.same_items((left, 1), (right, 1)), rows == columns),
        (symbolic.contains((left, False), right), rows == columns or columns == 2),
    ):
        assert isinstance(found, torch.SymBool)
        assert bool(found) is expected
    assert symbolic.equal(True, True) is True


@pytest.mark.parametrize("sizes", [(4, 3, 2), (5, 3, 2), (4, 5, 2), (5, 5, 2), (5, 4, 3)])
def test_compound_truths_are_compared_and_chosen(traced, sizes):
    """Each stands beside its own negation, which torch cannot always bring into one form."""
    a, b, c = traced(*sizes).shape
    even, either = a % 2 == 0, symbolic.sym_or(b == 3, lambda: c == 3)
    plain_even, plain_either = sizes[0] % 2 == 0, 3 in sizes[1:]
    for found, expected in (
        (symbolic.equal(even, either), plain_even == plain_either),
        (
            symbolic.sym_if(either, lambda: even, lambda: b > 4),
            plain_even if plain_either else sizes[1] > 4,
        ),
        (symbolic.sym_if(even, lambda: either, lambda: False), plain_even and plain_either),
        (symbolic.sym_if(even, lambda: True, lambda: either), plain_even or plain_either),
    ):
        assert isinstance(found, torch.SymBool)
        assert bool(found) is expected


@pytest.mark.parametrize("sizes", [(4, 3), (3, 3), (4, 9), (9, 1)])
def test_a_choice_by_what_another_gave_is_decided_by_a_guard(traced, sizes):
    """Torch cannot nest choices so."""
    a, b = traced(*sizes).shape
    rows, columns = sizes
    less = symbolic.sym_if(a > 3, lambda: a - 3, lambda: b)
    plain = rows - 3 if rows > 3 else columns
    for found, expected in (
        (symbolic.sym_if(less > 2, lambda: b + 1, lambda: a), columns + 1 if plain > 2 else rows),
        (symbolic.sym_if(less == b, lambda: b > 2, lambda: a > 2),
         columns > 2 if plain == columns else rows > 2),
        (symbolic.equal(less > 2, b > 2), (plain > 2) == (columns > 2)),
    ):  # fmt: skip
        assert type(expected)(found) == expected
    assert any("Piecewise" in guard for guard in traced.guards)


def test_a_choice_by_another_serves_every_size_of_a_compiled_call(op_for):
    op = op_for(
        wrap(inputs=MATRIX, outputs="[k]", lets='half: "M // 2 if M > 3 else N", '
             'k: "N if half > 2 else M + half"')
    )  # fmt: skip

    @torch.library.custom_op("tileops_test::nested_choices", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(op.check(x=x).shape("y"))

    @operator.register_fake
    def _(x):
        return x.new_empty(op.check(x=x).shape("y"))

    torch._dynamo.reset()
    compiled = torch.compile(operator, fullgraph=True, dynamic=True, backend="eager")
    for rows, columns in ((4, 3), (8, 5), (3, 7), (2, 2), (6, 4)):
        half = rows // 2 if rows > 3 else columns
        wanted = columns if half > 2 else rows + half
        assert compiled(torch.zeros(rows, columns)).shape == (wanted,)


def test_compared_truths_are_guards_of_a_compiled_call(op_for):
    op = op_for(
        wrap(
            "(M % 2 == 0) == (N == 3 or N == 5)",
            "N > 2 if M > 3 else N > 1",
            inputs=MATRIX,
            outputs="[M, N]",
        )
    )

    @torch.library.custom_op("tileops_test::compared_truths", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @operator.register_fake
    def _(x):
        return x.new_empty(op.check(x=x).shape("y"))

    torch._dynamo.reset()
    compiled = torch.compile(operator, fullgraph=True, dynamic=True, backend="eager")
    for shape in ((4, 3), (6, 5), (7, 4), (3, 2)):
        assert compiled(torch.zeros(shape)).shape == shape
    with pytest.raises(Exception, match="does not hold"):
        compiled(torch.zeros(4, 4))


def test_a_rule_that_compares_truths_holds_or_fails_as_on_plain_sizes(op_for, traced):
    op = op_for(
        wrap(
            "(M == 4) == (N == 3)",
            "square != flag",
            inputs=MATRIX,
            outputs="[M, N]",
            lets='square: "M == N"',
            params="flag: {type: bool, default: true}",
        ),
        flag=True,
    )
    for shape in ((4, 3), (5, 7)):
        op.check(x=torch.empty(shape))
        op.check(x=traced(*shape))
    for shape in ((4, 5), (5, 5)):
        for x in (torch.empty(shape), traced(*shape)):
            with pytest.raises(SignatureError, match="does not hold"):
                op.check(x=x)
