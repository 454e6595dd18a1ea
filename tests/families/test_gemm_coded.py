"""Products of codes: scales of every kind, packed weights, exact integer sums."""

from __future__ import annotations

import pytest
import torch

from tileops.errors import SignatureError
from tileops.gemm import (
    BmmFP8FwdOp,
    GemmFp8FwdOp,
    GemmInt8W8A8FwdOp,
    GemmW4A16FwdOp,
    reference,
)
from tileops.gemm.kernels import packed, packing

E4M3 = torch.float8_e4m3fn
HALF = [torch.float16, torch.bfloat16]


def codes(*shape, high=256, dtype=torch.uint8):
    low = torch.iinfo(dtype).min
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(low, low + high, shape, generator=generator, dtype=dtype)


def scales(draw, *shape):
    return draw(*shape).abs() * 0.1 + 0.01


@pytest.mark.parametrize("out_dtype", HALF)
@pytest.mark.parametrize("kind", ["tensor", "rows", "tiles"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 7, 128), (3, 200, 300), (2, 130, 256), (5, 1, 64)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_fp8_products(draw, close, out_dtype, kind, m, n, k, has_bias):
    a, b = draw(m, k, dtype=E4M3), draw(n, k, dtype=E4M3)
    blocks = -(-k // 128)
    of_a = (1, 1) if kind == "tensor" else (m, blocks)
    of_b = {"tensor": (1, 1), "rows": (n, blocks), "tiles": (-(-n // 128), blocks)}[kind]
    bias = (draw(n, dtype=out_dtype),) if has_bias else ()
    tensors = a, b, scales(draw, *of_a), scales(draw, *of_b), *bias
    expected = reference.gemm_fp8(*tensors, out_dtype=out_dtype)
    close(GemmFp8FwdOp(out_dtype)(*tensors), expected, 2e-2)


def test_fp8_codes_of_blocks_are_near_the_numbers(draw):
    x, w = draw(9, 300) * 10, draw(130, 300)

    def quantised(values):
        padded = torch.nn.functional.pad(values, (0, 84)).view(len(values), 3, 128)
        scale = padded.abs().amax(2) / 448
        return (padded / scale[..., None]).flatten(1)[:, :300].to(E4M3), scale

    (a, of_a), (b, of_b) = quantised(x), quantised(w)
    product = GemmFp8FwdOp()(a, b, of_a, of_b).float()
    assert torch.cosine_similarity(product.flatten(), (x @ w.T).flatten(), dim=0) > 0.99


@pytest.mark.parametrize("op", [GemmFp8FwdOp, GemmInt8W8A8FwdOp])
def test_a_product_over_nothing_is_the_bias(op):
    dtype = E4M3 if op is GemmFp8FwdOp else torch.int8
    a, b, bias = torch.empty(2, 0), torch.empty(3, 0), torch.tensor([1.0, 2, 3]).bfloat16()
    one = torch.ones(1, 1)
    assert torch.equal(op()(a.to(dtype), b.to(dtype), one, one, bias), bias.expand(2, 3))


@pytest.mark.parametrize(("of_a", "of_b"), [((1, 1), (2, 3)), ((4, 3), (1, 1)), ((4, 2), (2, 2))])
def test_mixed_scales_are_refused(of_a, of_b):
    a, b = torch.zeros(4, 300).to(E4M3), torch.zeros(200, 300).to(E4M3)
    with pytest.raises(SignatureError, match="SA == "):
        GemmFp8FwdOp()(a, b, torch.ones(of_a), torch.ones(of_b))


@pytest.mark.parametrize("out_dtype", HALF)
@pytest.mark.parametrize("trans_b", [False, True])
def test_batched_fp8_products(draw, close, out_dtype, trans_b):
    a, b = draw(3, 5, 70, dtype=E4M3), draw(3, 70, 9, dtype=E4M3)
    if trans_b:
        b = b.mT.contiguous()
    tensors = a, b, torch.tensor(0.25), torch.tensor(3.0)
    params = {"out_dtype": out_dtype, "trans_b": trans_b}
    op = BmmFP8FwdOp(**params)
    close(op(*tensors), reference.bmm_fp8(*tensors, **params), 2e-2)
    assert op.roof_key() == "tensor_core.fp8"


@pytest.mark.parametrize("of_a", [(1, 1), (5, 1)])
@pytest.mark.parametrize("of_b", [(1, 1), (1, 7)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_int8_products(draw, close, of_a, of_b, has_bias):
    a, b = codes(5, 4000, dtype=torch.int8), codes(7, 4000, dtype=torch.int8)
    bias = (draw(7, dtype=torch.bfloat16),) if has_bias else ()
    tensors = a, b, scales(draw, *of_a), scales(draw, *of_b), *bias
    op = GemmInt8W8A8FwdOp()
    close(op(*tensors), reference.gemm_int8_w8a8(*tensors), 1e-2)
    assert op.roof_key() == "tensor_core.int8"


def test_int8_sums_are_exact():
    a = torch.full((1, 30_001), 127, dtype=torch.int8)
    a[0, -1] = 1
    one = torch.ones(1, 1)
    scaled = GemmInt8W8A8FwdOp(torch.float16)(a, a, torch.full((1, 1), 2.0**-16), one)
    assert scaled.item() == torch.tensor((127 * 127 * 30_000 + 1) / 2**16).half().item()


def test_codes_are_packed_in_pairs():
    plain = torch.arange(16, dtype=torch.uint8).view(1, 16)
    assert packing.pack(plain)[0, :2].tolist() == [0x10, 0x32]
    assert packing.repack(packing.pack(plain))[0, :4].tolist() == [0x20, 0x64, 0x31, 0x75]


@pytest.mark.parametrize("shape", [(1, 128), (3, 384), (2, 2, 256), (0, 128)])
def test_packing_is_undone(shape):
    plain = codes(*shape, high=16)
    bytes_ = packing.pack(plain)
    assert torch.equal(packing.unpack(bytes_), plain)
    assert torch.equal(GemmW4A16FwdOp.unrepack(GemmW4A16FwdOp.repack(bytes_)), bytes_)


@pytest.mark.parametrize("band", [1, 1 << 26])
@pytest.mark.parametrize("group_size", [32, 128, 384])
@pytest.mark.parametrize("m", [1, 6])
def test_packed_weights(monkeypatch, draw, close, band, group_size, m):
    monkeypatch.setattr(packed, "UNPACKED_ELEMENTS", band)
    n, k = 10, 384
    tensors = (
        draw(m, k, dtype=torch.float16, scale=k**-0.5),
        codes(n, k // 2),
        scales(draw, n, k // group_size).half(),
        codes(n, k // group_size, high=16),
    )
    expected = reference.gemm_w4a16(*tensors, group_size=group_size)
    op = GemmW4A16FwdOp(group_size)
    close(op(*tensors), expected, 2e-2)
    op(draw(m + 1, k, dtype=torch.float16), *tensors[1:])
    assert len(op.built_entries("gemm_w4a16")) == 1
