"""Work in pieces gives what work on the whole gives, bit for bit."""

from __future__ import annotations

from math import log

import pytest
import torch

from tileops._kernels import pieces
from tileops.elementwise import DivFwdOp, SiluAndMulBwdOp, SiluAndMulFwdOp
from tileops.norm import AdaLayerNormFwdOp, AdaLayerNormZeroFwdOp
from tileops.reduction import LogSumExpFwdOp, ProdFwdOp
from tileops.sampling import TopKMaskFwdOp

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("shape", "axis"), [((1, 7), 0), ((10, 3), 0), ((7, 64), 0), ((3, 50), 1)])
def test_every_row_is_written_once(monkeypatch, draw, dtype, shape, axis) -> None:
    monkeypatch.setattr(pieces, "PIECE", 24 // torch.get_num_threads())
    x, y = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype)
    seen = []

    def exchange(sums, differences, operands):
        a, b = operands
        seen.append(a.shape[axis])
        assert {each.dtype for each in (sums, differences, a, b)} == {torch.float32}
        total = a + b
        torch.sub(a, b, out=differences)
        sums.copy_(total)

    outputs = [torch.full(shape, torch.nan, dtype=dtype) for _ in range(2)]
    pieces.by_rows(exchange, outputs, [x, y], axis)
    for output, expected in zip(outputs, (x + y, x - y), strict=True):
        assert torch.equal(output, expected)
    assert sum(seen) == shape[axis]
    assert max(seen) * x.numel() // shape[axis] <= max(2 * 24, x.numel() // shape[axis])
    assert len({*seen[:-1]}) <= 1


def test_operands_take_turns_in_memory_for_one_more_than_results(draw) -> None:
    tensors = [draw(4, 6, dtype=torch.float16) for _ in range(4)]
    output, places = torch.empty_like(tensors[0]), []

    def add(output, operands):
        for number, operand in enumerate(operands):
            places.append(operand.data_ptr())
            assert torch.equal(operand, tensors[number].float())
        output.copy_(operand)
        places.append(output.data_ptr())

    pieces.by_rows(add, [output], tensors)
    assert torch.equal(output, tensors[-1])
    first, second = places[:2]
    assert first != second and places == [first, second] * 2 + [first]


def test_what_needs_no_conversion_is_not_cut(monkeypatch, draw) -> None:
    monkeypatch.setattr(pieces, "PIECE", 8)
    x, y = draw(9, 40), draw(9, 40)
    output, calls = torch.empty_like(x), []

    def add(output, operands):
        calls.append((output, *operands))
        torch.add(*calls[0][1:], out=output)

    pieces.by_rows(add, [output], [x, y])
    assert torch.equal(output, x + y)
    ((written, first, second),) = calls
    assert written is output and first is x and second is y


def test_operands_are_only_read(draw) -> None:
    x, y, gate = draw(5, 8), draw(5, 8), draw(5, 8)
    calls = (
        (SiluAndMulFwdOp(), (x,)),
        (SiluAndMulBwdOp(), (x[:, :4], y)),
        (AdaLayerNormZeroFwdOp(), (x, y, x, gate)),
        (LogSumExpFwdOp(dim=(0, 1)), (x,)),
    )
    before = [each.clone() for each in (x, y, gate)]
    for op, inputs in calls:
        op(*inputs)
    for kept, now in zip(before, (x, y, gate), strict=True):
        assert torch.equal(kept, now)


@pytest.mark.parametrize("dtype", HALVES)
def test_pieces_change_no_result(monkeypatch, draw, dtype) -> None:
    x, y, z, gate = (draw(9, 40, dtype=dtype) for _ in range(4))
    calls = (
        (SiluAndMulFwdOp(), (x,)),
        (AdaLayerNormFwdOp(), (x, y, z)),
        (AdaLayerNormZeroFwdOp(), (x, y, z, gate)),
        (DivFwdOp(rounding_mode="trunc"), (x, y[0])),
        (DivFwdOp(rounding_mode="floor"), (x[0, 0], y[0, 0])),
        (DivFwdOp(rounding_mode="floor"), (x[:2].T, y[0, :2])),
        (DivFwdOp(rounding_mode="trunc"), (x, y[:, :1])),
        (DivFwdOp(rounding_mode="trunc"), (x[0], y)),
        (DivFwdOp(rounding_mode="trunc"), (x, y)),
        (SiluAndMulBwdOp(), (x[:, :20], y)),
        (LogSumExpFwdOp(dim=0), (x,)),
        (LogSumExpFwdOp(dim=-1, keepdim=True), (x,)),
        (LogSumExpFwdOp(dim=(0, 2)), (x.view(9, 8, 5),)),
        (LogSumExpFwdOp(dim=(0, 1)), (x,)),
    )
    whole = [op(*inputs) for op, inputs in calls]
    monkeypatch.setattr(pieces, "PIECE", 64)
    for (op, inputs), expected in zip(calls, whole, strict=True):
        assert torch.equal(op(*inputs), expected), op


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_logarithms_keep_infinities(dtype) -> None:
    inf = torch.inf
    x = torch.tensor([[1.0, inf], [-inf, -inf], [-inf, 2.0], [torch.nan, 1.0]], dtype=dtype)
    for dim, given in ((1, x), (0, x.T.contiguous())):
        expected = torch.tensor([inf, -inf, 2.0, torch.nan], dtype=dtype)
        found = LogSumExpFwdOp(dim=dim)(given)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(LogSumExpFwdOp(dim=1)(x[:, :0]), torch.full((4,), -inf, dtype=dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_products_and_sums_pass_the_range_of_the_dtype(monkeypatch, dtype) -> None:
    monkeypatch.setattr(pieces, "PIECE", 8)
    x = torch.tensor([2.0**15, 2.0**-15] * 8, dtype=dtype)
    x = torch.cat((x[::2], x[1::2])).repeat(2, 1)
    for dim in (1, 0):
        given = x if dim else x.T.contiguous()
        assert torch.equal(ProdFwdOp(dim=dim)(given), torch.ones(2, dtype=dtype))
    assert ProdFwdOp(dim=0)(x[0]).item() == 1
    assert ProdFwdOp(dim=0)(x[0, :0]).item() == 1
    equal = torch.full((3, 1 << 17), 2.0, dtype=dtype)
    expected = torch.full((), 2 + log(3 << 17)).to(dtype)
    assert LogSumExpFwdOp(dim=(0, 1))(equal).item() == expected.item()


def test_the_largest_k_decides_how_many_logits_are_ordered(draw) -> None:
    logits = draw(3, 9)
    k = torch.tensor([1, 4, 20], dtype=torch.int32)
    masked = TopKMaskFwdOp()(logits, k)
    assert masked.isfinite().sum(1).tolist() == [1, 4, 9]
    for row, wanted in zip(range(3), (1, 4, 9), strict=True):
        kept = masked[row][masked[row].isfinite()].sort(descending=True).values
        assert torch.equal(kept, logits[row].sort(descending=True).values[:wanted])
