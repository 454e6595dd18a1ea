"""Rotary embeddings on the device: accuracy, views, positions, builds."""

from __future__ import annotations

import pytest
import torch

from tileops.rope import RoPEFwdOp, reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
# One rounding to the dtype; float32 angles of a table are exact to a few units.
TOLERANCE = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float16: {"rtol": 2.0**-10, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2.0**-7, "atol": 1e-4},
}


def check(op, x):
    output = op(x)
    kind = {"rope_layout": op.rope_layout, "input_layout": op.input_layout}
    wide = reference.rope(x.double(), **kind)
    torch.testing.assert_close(output.double(), wide, **TOLERANCE[x.dtype])
    assert output.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["neox", "interleaved"])
def test_rotations_are_accurate(draw, serving, layout, dtype):
    op = RoPEFwdOp(layout, "2d")
    for shape in ((2, 333, 32, 128), (1, 1, 8, 64), (3, 5, 1, 10), (1, 7, 3, 256)):
        check(op, draw(*shape, dtype=dtype))
    single = RoPEFwdOp(layout, "1d")
    check(single, draw(517, 128, dtype=dtype))
    assert serving(op, "rotary") == {"RotaryTileKernel"}


def test_views_are_read_as_they_are(draw):
    op = RoPEFwdOp("neox", "2d")
    packed = draw(2, 37, 24, 64, dtype=torch.bfloat16)
    for view in (packed[:, :, 8:16], packed[:, ::2], packed.transpose(1, 2), packed[..., ::2],
                 packed[..., 1:33]):  # fmt: skip
        check(op, view)


def test_many_lengths_make_one_program(draw, programs):
    op = RoPEFwdOp("neox", "2d")
    x = draw(1, 300, 4, 64, dtype=torch.bfloat16)
    whole = op(x)
    for length in range(1, 301, 7):
        assert torch.equal(op(x[:, :length]), whole[:, :length])
    assert len(programs) == 1
