"""Hadamard and Fourier transforms: accuracy, inverses, published matrices, limits, views."""

from __future__ import annotations

import math

import pytest
import torch

from tileops.errors import SignatureError
from tileops.fft import FFTC2CFwdOp
from tileops.fft import reference as fft_reference
from tileops.transform import HadamardTransformFwdOp, reference
from tileops.transform.kernels import HadamardFwdInterface

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
COMPLEX = [torch.complex64, torch.complex128]


def signal(draw, dtype, *shape):
    return torch.complex(draw(*shape).double(), draw(*shape).double()).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("base", "n"),
    [(1, 1), (1, 2), (1, 64), (1, 256), (1, 1024), (12, 12), (12, 96), (20, 2560), (28, 56),
     (40, 40), (40, 320)],
)  # fmt: skip
def test_hadamard_is_accurate(draw, close, dtype, base, n):
    x = draw(2, 3, n, dtype=dtype)
    close(HadamardTransformFwdOp(base)(x), reference.hadamard_transform(x, base_order=base))


@pytest.mark.parametrize("order", [12, 20, 28, 40])
def test_published_matrices_are_hadamard(order):
    matrix = HadamardFwdInterface.paley(order)
    assert torch.equal(matrix.abs(), torch.ones(order, order))
    assert torch.equal(matrix @ matrix.T, order * torch.eye(order))


def test_the_base_stands_on_the_right():
    matrix = HadamardTransformFwdOp(12)(torch.eye(48)).T * math.sqrt(48)
    sylvester = HadamardTransformFwdOp()(torch.eye(4)).mul(2).round()
    expected = torch.kron(sylvester, HadamardFwdInterface.paley(12))
    assert torch.equal(matrix.round(), expected)
    forty, twenty = (HadamardTransformFwdOp(base)(torch.eye(80)) for base in (40, 20))
    torch.testing.assert_close(forty, twenty)


def test_the_plain_transform_is_its_own_inverse(draw, close):
    x, op = draw(4, 512), HadamardTransformFwdOp()
    close(op(op(x)), x)


def test_half_sums_do_not_overflow(close):
    x = torch.full((1, 4096), 1000.0, dtype=torch.float16)
    expected = torch.zeros(1, 4096, dtype=torch.float16)
    expected[0, 0] = 64000.0
    close(HadamardTransformFwdOp()(x), expected)


def test_one_element_is_a_new_tensor():
    x, z = torch.ones(3, 1), torch.ones(3, 1, dtype=torch.complex64)
    for op, given in ((HadamardTransformFwdOp(), x), (FFTC2CFwdOp(), z)):
        result = op(given)
        assert torch.equal(result, given)
        assert result.data_ptr() != given.data_ptr()


@pytest.mark.parametrize(
    ("base", "n", "fault"),
    [
        (2, 4, "base_order in"),
        (0, 4, "base_order in"),
        (1, 12, "268435456"),
        (12, 36, "268435456"),
        (12, 16, "n % base_order == 0"),
        (1, 0, "n > 0"),
    ],
)
def test_widths_that_do_not_factor_are_refused(base, n, fault):
    with pytest.raises(SignatureError, match=fault):
        HadamardTransformFwdOp(base)(torch.ones(2, n))


def test_the_work_is_counted_by_butterflies(draw):
    op = HadamardTransformFwdOp(12)
    op(draw(3, 96))
    assert op.eval_roofline() == (3 * 96 * (3 + 12), 2 * 4 * 3 * 96)
    transform = FFTC2CFwdOp()
    transform(signal(draw, torch.complex64, 2, 3, 16))
    assert transform.eval_roofline() == (5 * 6 * 16 * 4, 2 * 8 * 96)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 8), (2, 5, 64), (1, 1024)])
def test_fft_is_accurate(draw, dtype, shape):
    x = signal(draw, dtype, *shape)
    bound = 1e-4 if dtype is torch.complex64 else 1e-11
    found, wanted = FFTC2CFwdOp()(x), fft_reference.fft_c2c(x)
    torch.testing.assert_close(found, wanted, rtol=bound, atol=bound)
    assert found.is_contiguous()


@pytest.mark.parametrize("dtype", COMPLEX)
def test_fft_reads_lazy_conjugates_and_views(draw, dtype):
    x = signal(draw, dtype, 16, 6)
    op = FFTC2CFwdOp()
    for view in (x.conj().mT, x.mT[::2], x.mT[:, ::2], x[:8, :1].mT.expand(4, 8)):
        found = op(view)
        wanted = torch.fft.fft(view.resolve_conj())
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        assert not found.is_conj()


def test_fft_reads_lazy_conjugates_when_compiled(draw):
    torch._dynamo.reset()
    x = signal(draw, torch.complex64, 3, 8)
    compiled = torch.compile(FFTC2CFwdOp(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x.conj()), torch.fft.fft(x.conj().resolve_conj()))


def test_fft_refuses_what_it_does_not_take(draw):
    op = FFTC2CFwdOp()
    with pytest.raises(SignatureError, match="float32 is not in T = complex64"):
        op(draw(2, 8))
    for n in (6, 12):
        with pytest.raises(SignatureError, match="268435456"):
            op(signal(draw, torch.complex64, 2, n))
    with pytest.raises(SignatureError, match="n > 0"):
        op(torch.empty(2, 0, dtype=torch.complex64))
    assert op(torch.empty(0, 8, dtype=torch.complex64)).shape == (0, 8)


@pytest.mark.parametrize("batch", [300, 70000])
def test_fft_of_many_rows(draw, batch):
    x = signal(draw, torch.complex64, batch, 4)
    torch.testing.assert_close(FFTC2CFwdOp()(x), torch.fft.fft(x))


def test_views_of_hadamard(draw, close):
    base, op = draw(16, 9), HadamardTransformFwdOp()
    for view in (base.T, base.T[1:, ::2], base[:, :1].T.expand(5, 16)):
        close(op(view), op(view.clone()))
