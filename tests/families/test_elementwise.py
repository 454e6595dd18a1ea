"""Pointwise ops of three tensors, gates, generated tensors, dropout."""

from __future__ import annotations

import math

import pytest
import torch

from tileops._core.spec.names import reference_name
from tileops._kernels.philox import philox
from tileops.elementwise import (
    AlibiFwdOp,
    DropoutFwdOp,
    GeluAndMulBwdOp,
    GeluAndMulFwdOp,
    GeluTanhAndMulBwdOp,
    GeluTanhAndMulFwdOp,
    LerpTensorFwdOp,
    SiluAndMulBwdOp,
    SiluAndMulFwdOp,
    SinusoidalFwdOp,
    WhereFwdOp,
    reference,
)
from tileops.elementwise.kernels import DropoutPortableKernel
from tileops.errors import OpNotAvailableError, SignatureError, SignatureTypeError

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
NAN = math.nan
GATES = {
    "silu_and_mul": SiluAndMulFwdOp,
    "gelu_and_mul": GeluAndMulFwdOp,
    "gelu_tanh_and_mul": GeluTanhAndMulFwdOp,
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_chooses_bit_for_bit(draw, close, dtype):
    condition = torch.tensor([[True], [False], [True]])
    a, b = draw(3, 5, dtype=dtype), torch.tensor(NAN, dtype=dtype)
    close(WhereFwdOp()(condition, a, b), reference.where(condition, a, b))
    close(WhereFwdOp()(condition[0, 0], a.T[:, 1:], b), a.T[:, 1:].contiguous(), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("shape", [(1, 2), (3, 14), (5, 2050)])
def test_gate_is_the_left_half(draw, close, dtype, name, shape):
    op, expected = GATES[name](), getattr(reference, name)
    x = draw(*shape, dtype=dtype)
    close(op(x), expected(x))
    wide = draw(*shape[::-1], dtype=dtype).T
    close(op(wide), expected(wide))


def test_gated_product_is_rounded_once(draw):
    x = draw(64, 512, dtype=torch.float16)
    exact = (torch.nn.functional.silu(x[:, :256].float()) * x[:, 256:].float()).half()
    assert torch.equal(SiluAndMulFwdOp()(x), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [SiluAndMulBwdOp, GeluAndMulBwdOp, GeluTanhAndMulBwdOp])
def test_gradients_of_gates_are_accurate(draw, close, dtype, op):
    grad, x = draw(5, 1025, dtype=dtype), draw(5, 2050, dtype=dtype, scale=3.0)
    close(op()(grad, x), getattr(reference, reference_name(op.__name__))(grad, x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 3, 8])
def test_alibi_is_accurate_for_every_head_count(close, dtype, heads):
    params = {"seq_len": 130, "num_heads": heads, "out_dtype": dtype}
    close(AlibiFwdOp(**params, device="cpu")(), reference.alibi(**params))


def test_alibi_overflows_to_infinity_in_half():
    biases = AlibiFwdOp(seq_len=2, num_heads=1, out_dtype=torch.float16, device="cpu")()
    assert biases.tolist() == [[[0.0, -(2.0**-8)], [-(2.0**-8), 0.0]]]


def test_where_takes_a_bool_condition_only(draw):
    with pytest.raises(SignatureError, match=r"inputs\.condition\.dtype.*expected bool, got int32"):
        WhereFwdOp()(torch.ones(2, dtype=torch.int32), draw(2), draw(2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lerp_of_tensors(draw, close, dtype):
    a, b, w = draw(4, 500, dtype=dtype), draw(500, dtype=dtype), draw(4, 1, dtype=dtype)
    for first in (a, a[0, 0]):
        close(LerpTensorFwdOp()(first, b, w), reference.lerp_tensor(first, b, w))


def test_lerp_of_tensors_is_exact_at_both_ends():
    a, b = torch.tensor([1.0, 1e-30, 1e30]), torch.tensor([1e30, 1e30, 1.0])
    assert torch.equal(LerpTensorFwdOp()(a, b, torch.zeros(3)), a)
    assert torch.equal(LerpTensorFwdOp()(a, b, torch.ones(3)), b)


def test_gates_refuse_what_is_no_packed_matrix(draw):
    with pytest.raises(SignatureError, match=r"axis 1 has length 5, which no integer N >= 0"):
        GeluAndMulFwdOp()(draw(2, 5))
    with pytest.raises(SignatureError, match=r"expected 2 axes, got shape \(2, 3, 4\)"):
        GeluAndMulFwdOp()(draw(2, 3, 4))
    assert GeluAndMulFwdOp()(draw(0, 4)).shape == (0, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sinusoids_are_accurate_at_large_positions(close, dtype):
    params = {"seq_len": 9000, "d_model": 6, "out_dtype": dtype}
    close(SinusoidalFwdOp(**params, device="cpu")(), reference.sinusoidal(**params))


@pytest.mark.parametrize("seq_len", [1, 2, 3, 15, 16, 17])
def test_sinusoids_of_any_number_of_positions(close, seq_len):
    params = {"seq_len": seq_len, "d_model": 4, "out_dtype": torch.float32}
    close(SinusoidalFwdOp(**params, device="cpu")(), reference.sinusoidal(**params))


def test_generated_tensors_refuse_bad_parameters():
    with pytest.raises(SignatureTypeError, match=r"params\.out_dtype.*got 'float16' \(str\)"):
        AlibiFwdOp(seq_len=2, num_heads=1, out_dtype="float16")
    with pytest.raises(SignatureError, match="d_model=3"):
        SinusoidalFwdOp(seq_len=2, d_model=3)
    with pytest.raises(SignatureError, match="seq_len=0"):
        AlibiFwdOp(seq_len=0, num_heads=1)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="the accelerator is a device to use")
def test_generated_tensors_need_a_device():
    with pytest.raises(OpNotAvailableError, match="unknown device"):
        SinusoidalFwdOp(seq_len=2, d_model=4)()


def test_generated_tensors_go_where_each_instance_says():
    for op in (AlibiFwdOp, SinusoidalFwdOp):
        assert op.compile_op_names == ()
        sizes = {"seq_len": 2, "num_heads" if op is AlibiFwdOp else "d_model": 2}
        for device in ("cpu", torch.device("cpu")):
            assert op(**sizes, device=device)().device.type == "cpu"
        with pytest.raises(OpNotAvailableError, match="no implementation runs on meta"):
            op(**sizes, device="meta")()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [0, -1, 2**40 + 3])
def test_dropout_keeps_by_seed_and_position(draw, close, dtype, seed):
    x = draw(3, 701, dtype=dtype)
    op = DropoutFwdOp(0.3, seed)
    close(op(x), reference.dropout(x, p=0.3, seed=seed))
    assert torch.equal(op(x), op(x.reshape(-1)).reshape(x.shape))
    assert torch.equal(op(x)[:2], op(x[:2]))
    assert torch.equal(op(x.T.contiguous().T), op(x))


def test_dropout_masks_differ_between_seeds_and_keep_the_share():
    x = torch.ones(1 << 18)
    first, second = DropoutFwdOp(0.25, 1)(x) != 0, DropoutFwdOp(0.25, 2)(x) != 0
    for share, expected in ((first, 0.75), (second, 0.75), (first & second, 0.5625)):
        assert share.float().mean().item() == pytest.approx(expected, abs=5e-3)
    later = first.view(-1, 4)
    assert (later[:, 0] & later[:, 1]).float().mean().item() == pytest.approx(0.5625, abs=5e-3)


def test_dropout_pieces_fit_together(monkeypatch, draw):
    x = draw(1001)
    whole = DropoutFwdOp(0.5, 7)(x)
    monkeypatch.setattr(DropoutPortableKernel, "PIECE", 64)
    assert torch.equal(DropoutFwdOp(0.5, 7)(x), whole)


def test_dropout_of_all_and_of_nothing(close):
    x = torch.tensor([1.0, NAN, math.inf])
    close(DropoutFwdOp(1.0)(x), torch.zeros(3))
    for op in (DropoutFwdOp(0.0), DropoutFwdOp(0.5, training=False), DropoutFwdOp(1.0, 0, False)):
        close(op(x), x)
    assert not DropoutFwdOp(0.5, 3)(torch.full((1000,), NAN)).isnan().all()
    with pytest.raises(SignatureError, match=r"0 <= p <= 1.*p=1\.5"):
        DropoutFwdOp(1.5)


@pytest.mark.parametrize(
    ("p", "training", "tensors"), [(1.0, True, 1), (0.5, True, 2), (1.0, False, 2)]
)
def test_dropout_reads_nothing_where_it_writes_zeros(p, training, tensors):
    op = DropoutFwdOp(p, training=training)
    op(torch.ones(10))
    assert op.eval_roofline() == (20 if p == 0.5 else 0, 40 * tensors)


def test_philox_agrees_with_its_published_vectors():
    zero, ones = torch.zeros(1, dtype=torch.int64), 0xFFFFFFFF
    drawn = philox((0, 0), (zero, 0, 0, 0))
    assert [int(w) for w in drawn] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    drawn = philox((ones, ones), (zero + ones, ones, ones, ones))
    assert [int(w) for w in drawn] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
