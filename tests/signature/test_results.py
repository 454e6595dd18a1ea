"""`out`, what an implementation returned, and roofline formulas."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tileops.errors import ManifestError, SignatureError, SignatureTypeError

PAIR = """
PairFwdOp:
  signature:
    forall: {M: Dim, N: Dim, T: "DType[float16 | float32]"}
    params: {with_sum: {type: bool, default: true}, in_place: {type: bool, default: false}}
    inputs:
      x: {dtype: T, shape: "[M, N]", mutated: in_place}
    outputs:
      y: {dtype: T, shape: "[M, N]", alias: x}
      total: {dtype: float32, shape: "[M]", nullable: with_sum}
"""
BUFFERED = """
MatFwdOp:
  signature:
    forall: {M: Dim, N: Dim, T: "DType[float16 | float32]"}
    params: {quiet: {type: bool, default: false}}
    inputs: {x: {dtype: T, shape: "[M, N]"}}
    outputs:
      d: {dtype: T, shape: "[N, M]", buffer: out, nullable: "not quiet", contiguous: true}
      e: {dtype: T, shape: "[M]"}
"""
SILENT = """
FillFwdOp:
  signature:
    forall: {N: Dim}
    inputs: {x: {dtype: float32, shape: "[N]", mutated: true, write_only: true}}
    outputs: {}
"""


@pytest.fixture
def pair(op_for):
    return op_for(PAIR, with_sum=True, in_place=False)


@pytest.fixture
def matrix(op_for):
    return op_for(BUFFERED, quiet=False)


def rejected(call):
    with pytest.raises(SignatureError) as caught:
        call()
    assert caught.value.phase == "call"
    return caught.value


X = torch.arange(6.0).reshape(2, 3)


def test_a_good_result(pair):
    pair.check_result((X + 1, X.sum(1)), x=X)
    pair.check_result([X + 1, X.sum(1)], x=X)


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (X + 1, SignatureError, "PairFwdOp (call): outputs: expected 2 results, got Tensor"),
        ((X + 1,), SignatureError, "PairFwdOp (call): outputs: expected 2 results, got 1"),
        (None, SignatureError, "PairFwdOp (call): outputs: expected 2 results, got None"),
        ((X + 1, None), SignatureTypeError, "outputs.total: expected a tensor, got None"),
        (
            (X + 1, [0.0]),
            SignatureTypeError,
            "outputs.total: expected a tensor, got a sequence of 1",
        ),
        (
            (X + 1, X.sum(0)),
            SignatureError,
            'outputs.total.shape "[M]": the implementation returned (3,), expected (2,)',
        ),
        (
            (X.half(), X.sum(1)),
            SignatureError,
            'outputs.y.dtype "T": the implementation returned float16, expected float32',
        ),
        (
            (torch.empty(2, 3, device="meta"), X.sum(1)),
            SignatureError,
            "outputs.y.device: the implementation returned meta, expected cpu",
        ),
        (
            ((X + 1).t().contiguous().t(), X.sum(1)),
            SignatureError,
            "outputs.y.contiguous: the implementation returned a tensor of shape (2, 3) "
            "with strides (1, 2), expected a contiguous one",
        ),
        (
            (X, X.sum(1)),
            SignatureError,
            "outputs.y: expected storage of its own, got a tensor that shares it with x",
        ),
    ],
)
def test_results_that_are_rejected(pair, result, error, text):
    fault = rejected(lambda: pair.check_result(result, x=X))
    assert type(fault) is error
    assert text in str(fault)


class Marked(torch.Tensor):
    pass


def of_inference_mode():
    with torch.inference_mode():
        return X + 1


@pytest.mark.parametrize(
    ("y", "target", "text"),
    [
        ((X + 1).as_subclass(Marked), None, "expected a plain tensor, got a Marked"),
        (
            (X + 1).requires_grad_(),
            None,
            "expected a tensor without a gradient, got one that requires grad",
        ),
        (torch._neg_view(X + 1), "east", "expected its values, got a lazily negated tensor"),
        (of_inference_mode(), "east", "expected an ordinary tensor, got one of inference mode"),
        (X, "east", "expected storage of its own, got a tensor that shares it with x"),
        (None, "east", "expected a tensor, got None"),
        (X[:1] + 1, "east", "the implementation returned (1, 3), expected (2, 3)"),
    ],
)
def test_strange_results_and_who_returned_them(pair, y, target, text):
    fault = rejected(lambda: pair.check_result((y, X.sum(1)), target, x=X))
    blamed = f"; the kernel of target {target!r} returned it" if target else ""
    assert fault.fault == text + blamed


def test_absent_output_that_a_target_returns(op_for):
    op = op_for(PAIR, with_sum=False, in_place=False)
    fault = rejected(lambda: op.check_result((X + 1, X.sum(1)), "east", x=X))
    assert fault.fault == (
        "the output is absent, got Tensor; the kernel of target 'east' returned it"
    )


def test_lazily_conjugated_result(op_for):
    op = op_for(PAIR.replace("float16", "complex64"), with_sum=False, in_place=False)
    z = torch.complex(X, X)
    op.check_result((z.clone().conj(), None), x=z)
    fault = rejected(lambda: op.check_result((z.clone().conj(), None), "east", x=z))
    assert fault.fault.startswith("expected its values, got a lazily conjugated tensor; the kernel")


def test_gradients_pass_through_a_composite_only(op_for, plan_for):
    grad = X.clone().requires_grad_()
    assert plan_for(PAIR)._plan.spec.has_boundary
    op = op_for(PAIR, with_sum=False, in_place=False)
    rejected(lambda: op.check_result((grad + 1, None), x=grad))
    whole = PAIR + "  composition: {kind: composite, stages: [{name: part, op: MatFwdOp}]}\n"
    op = op_for(whole, with_sum=False, in_place=False)
    op.check_result((grad + 1, None), x=grad)
    rejected(lambda: op.check_result((grad + 1, None), x=X))


def test_outputs_share_no_storage_with_each_other(op_for, matrix):
    both = torch.zeros(8)
    fault = rejected(lambda: matrix.check_result((both[:6].view(3, 2), both[6:]), x=X))
    assert "outputs.e: expected storage of its own, got a tensor that shares it with d" in str(
        fault
    )


HELD = """
HeldFwdOp:
  signature:
    forall: {N: Dim}
    params: {w: {dtype: float32, shape: "[N]"}}
    inputs: {x: {dtype: float32, shape: "[N]"}}
    outputs: {y: {dtype: float32, shape: "[N]"}}
"""


def test_outputs_share_no_storage_with_construction_time_tensors(op_for):
    w, x = torch.ones(3), torch.zeros(3)
    op = op_for(HELD, w=w)
    op.check_result(w + 1, x=x)
    fault = rejected(lambda: op.check_result(w.view(3), x=x))
    assert "outputs.y: expected storage of its own, got a tensor that shares it with w" in str(
        fault
    )


OFFERED = """
OfferedFwdOp:
  signature:
    forall: {N: Dim}
    params: {quiet: {type: bool}}
    inputs:
      x: {dtype: float32, shape: "[N]"}
      acc: {dtype: float32, shape: "[N]", optional: true, mutated: true}
    outputs: {y: {dtype: float32, shape: "[N]", alias: acc, nullable: "not quiet"}}
"""


def test_an_alias_of_an_input_that_is_not_passed_is_new(op_for):
    x, acc = torch.zeros(3), torch.ones(3)
    op = op_for(OFFERED, quiet=False)
    assert op.check(x=x).allocated == {"y"}
    op.check_result(x + 1, x=x)
    assert op.check(x=x, acc=acc).allocated == frozenset()
    op.check_result(acc, x=x, acc=acc)
    rejected(lambda: op.check_result(x + 1, x=x, acc=acc))
    quiet = op_for(OFFERED, quiet=True)
    quiet.check_result(None, x=x, acc=acc)
    rejected(lambda: quiet.check_result(acc, x=x, acc=acc))


def test_an_absent_output_is_none(op_for):
    op = op_for(PAIR, with_sum=False, in_place=False)
    op.check_result((X + 1, None), x=X)
    fault = rejected(lambda: op.check_result((X + 1, X.sum(1)), x=X))
    assert 'outputs.total.nullable "with_sum": the output is absent, got Tensor' in str(fault)


def test_an_alias_is_the_very_tensor(op_for):
    op, x = op_for(PAIR, with_sum=True, in_place=True), X.clone()
    op.check_result((x, x.sum(1)), x=x)
    fault = rejected(lambda: op.check_result((x.view(2, 3), x.sum(1)), x=x))
    assert 'outputs.y.alias "x": expected the passed tensor x itself' in str(fault)


def test_nothing_is_returned_where_nothing_is_declared(op_for):
    op = op_for(SILENT)
    op.check_result(None, x=torch.zeros(3))
    fault = rejected(lambda: op.check_result(X, x=torch.zeros(3)))
    assert "FillFwdOp (call): outputs: nothing is declared, got Tensor" in str(fault)


def test_out_is_the_very_tensor(matrix):
    out = torch.empty(3, 2)
    matrix.check_result((out, X.sum(1)), x=X, out=out)
    fault = rejected(lambda: matrix.check_result((X.t().contiguous(), X.sum(1)), x=X, out=out))
    assert 'outputs.d.buffer "out": expected the passed tensor out itself' in str(fault)


@pytest.mark.parametrize(
    ("out", "error", "text"),
    [
        ([1.0], SignatureTypeError, "expected a tensor, got [1.0] (list)"),
        (
            torch.empty(2, 3),
            SignatureError,
            "expected shape (3, 2) float32, got (2, 3) float32",
        ),
        (
            torch.empty(3, 2).half(),
            SignatureError,
            "expected shape (3, 2) float32, got (3, 2) float16",
        ),
        (torch.empty(3, 2, device="meta"), SignatureError, "expected device cpu, got meta"),
        (
            torch.empty(2, 3).t(),
            SignatureError,
            "expected a contiguous tensor, got strides (1, 3)",
        ),
        (X.view(3, 2), SignatureError, "shares storage with x"),
    ],
)
def test_buffers_that_are_rejected(matrix, out, error, text):
    fault = rejected(lambda: matrix.check(x=X, out=out))
    assert type(fault) is error
    assert f'MatFwdOp (call): outputs.d.buffer "out": {text}' in str(fault)


def test_a_buffer_may_not_repeat_its_items(op_for):
    loose = BUFFERED.replace(", contiguous: true", "")
    out = torch.empty(3, 1).expand(3, 2)
    fault = rejected(lambda: op_for(loose, quiet=False).check(x=X, out=out))
    assert "overlaps itself, got shape (3, 2) with strides (1, 0)" in str(fault)


def test_a_buffer_for_an_absent_output(op_for):
    op = op_for(BUFFERED, quiet=True)
    op.check_result((None, X.sum(1)), x=X)
    fault = rejected(lambda: op.check(x=X, out=torch.empty(3, 2)))
    assert 'outputs.d.buffer "out": out was passed but the output is absent' in str(fault)


def test_empty_tensors_share_nothing(pair):
    x = torch.empty(0, 3)
    pair.check_result((x, torch.empty(0)), x=x)


# Roofline


def test_formulas(row_scale):
    x, scale = torch.empty(64, 512).half(), torch.empty(64)
    record = row_scale.check(x=x, scale=scale)
    assert row_scale.plan.eval_roofline(record) == (3 * 64 * 256, 98560)
    assert row_scale.plan.eval_roofline(row_scale.check(x=x))[0] == 2 * 64 * 256


def with_roofline(text, **fields):
    return f"{text}  roofline: {{{', '.join(f'{k}: {v!r}' for k, v in fields.items())}}}\n"


def test_a_formula_for_bytes(op_for):
    op = op_for(with_roofline(PAIR, flops="M * N", bytes="bytes(x) * (2 if present(total) else 1)"),
                with_sum=True, in_place=False)  # fmt: skip
    assert op.plan.eval_roofline(op.check(x=X)) == (6, 48)


@pytest.mark.parametrize(
    ("flops", "text"),
    [
        ("M - 5", 'roofline.flops "M - 5": expected an int >= 0, got -3'),
        ("8 // (M - 2)", 'roofline.flops "8 // (M - 2)": integer division or modulo by zero'),
    ],
)
def test_formulas_that_give_no_count(op_for, flops, text):
    op = op_for(with_roofline(PAIR, flops=flops), with_sum=True, in_place=False)
    fault = rejected(lambda: op.plan.eval_roofline(op.check(x=X)))
    assert text in str(fault)
    assert "x: (2, 3) float32" in str(fault)


class Plain:
    """Of which an instance is no function."""


PLAIN = Plain()


def counted(call):
    return call.indices["M"], call.derived_bytes()


def miscounted(call):
    return 1.5, call.bytes("x")


def not_a_pair(call):
    return call.indices["M"]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (miscounted, "expected an int >= 0, got 1.5"),
        (not_a_pair, "expected two ints >= 0, got 2"),
    ],
)
def test_functions_that_give_no_counts(op_for, function, text):
    func = f"{__name__}.{function.__name__}"
    op = op_for(with_roofline(PAIR, func=func), with_sum=True, in_place=False)
    fault = rejected(lambda: op.plan.eval_roofline(op.check(x=X)))
    assert f'roofline.func "{func}": {text}' in str(fault)


def test_a_spec_without_a_roofline(op_for, monkeypatch):
    op = op_for(PAIR, with_sum=True, in_place=False)
    record = op.check(x=X)
    plan = op.plan
    bare = dataclasses.replace(plan._plan, spec=dataclasses.replace(plan._plan.spec, roofline=None))
    monkeypatch.setattr(plan, "_plan", bare)
    monkeypatch.setattr(plan, "_functions", None)
    with pytest.raises(RuntimeError, match=f"{bare.spec.name}: the spec has no roofline"):
        plan.eval_roofline(record)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lost", "cannot be resolved: ImportError"),
        ("PLAIN", "is not callable"),
        ("test_functions_that_cannot_be_used", "does not take the call alone"),
    ],
)
def test_functions_that_cannot_be_used(op_for, name, text):
    func = f"{__name__}.{name}"
    op = op_for(with_roofline(PAIR, func=func), with_sum=True, in_place=False)
    record = op.check(x=X)
    with pytest.raises(ManifestError, match=f"roofline.func: {func} {text}"):
        op.plan.eval_roofline(record)


def test_a_function_of_the_record(op_for):
    func = f"{__name__}.counted"
    op = op_for(with_roofline(PAIR, func=func), with_sum=True, in_place=False)
    assert op.plan.eval_roofline(op.check(x=X)) == (2, 24 + 24 + 8)
