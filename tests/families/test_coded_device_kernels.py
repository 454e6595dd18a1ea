"""What the TileLang kernels of coded factors serve, refuse and share; no device is needed."""

from __future__ import annotations

import pytest
import torch

from tileops.gemm import GemmFp8FwdOp, GemmW4A16FwdOp
from tileops.gemm.kernels import (
    TILES_FP8,
    TILES_FP8_BY_ROW,
    GemmFp8Call,
    GemmFp8PipelinedKernel,
    GemmW4A16Call,
    GemmW4A16FewRowsKernel,
    GemmW4A16SplitKernel,
)
from tileops.gemm.kernels.packed import packed_parts
from tileops.quantization import FP8QuantFwdOp
from tileops.quantization.kernels import FP8QuantCall, FP8QuantRowsKernel


def scaled_call(m, n, k, scales_a="row_block", scales_b="tile", arch=90):
    facts = (scales_a, scales_b, False, torch.float8_e4m3fn, torch.bfloat16)
    return GemmFp8Call(m, n, k, *facts, arch=arch, sm_count=132)


def packed_call(m, n, k, group_size=128, arch=90):
    return GemmW4A16Call(m, n, k, group_size, torch.float16, arch=arch, sm_count=132)


@pytest.mark.parametrize(
    ("m", "n", "k", "fault"),
    [
        (4096, 4096, 7168, None),
        (1, 8, 16, None),
        (4, 8, 0, "has no step to multiply when k is 0"),
        (4, 8, 24, "copies rows whose pitch is a multiple of 16 bytes; in the factors k=24 is no "
                   "multiple of 16"),
        (4, 12, 16, "copies rows whose pitch is a multiple of 16 bytes; in the result n=12 is no "
                    "multiple of 8"),
    ],
)  # fmt: skip
def test_scaled_products_need_whole_rows(m, n, k, fault) -> None:
    call = scaled_call(m, n, k)
    assert GemmFp8PipelinedKernel.refusal(call) == fault
    served = "portable" if fault else "pipelined"
    assert GemmFp8FwdOp().key_for("gemm_fp8", call) == served


def test_scales_of_columns_leave_no_registers_for_the_widest_tile() -> None:
    wide, _ = GemmFp8PipelinedKernel.entry_for(scaled_call(4096, 4096, 7168))
    narrow, _ = GemmFp8PipelinedKernel.entry_for(
        scaled_call(4096, 4096, 7168, scales_b="row_block")
    )
    assert set(TILES_FP8) & set(wide)
    assert set(TILES_FP8_BY_ROW) & set(narrow)
    assert not set(TILES_FP8[:2]) & set(narrow)


def test_row_counts_of_a_class_share_a_scaled_program() -> None:
    builds = {GemmFp8PipelinedKernel.entry_for(scaled_call(m, 7168, 2048))[0] for m in range(1, 65)}
    assert len(builds) == 1


@pytest.mark.parametrize(
    ("m", "k", "group_size", "few", "split"),
    [
        (8, 512, 128, None, None),
        (1, 512, 256, None, None),
        (64, 512, 128, "multiplies at most 8 rows, not 64", None),
        (1, 1 << 20, 128, "reads at most 67108864 codes, not 68157440", None),
        (1025, 512, 128, "multiplies at most 8 rows, not 1025",
                         "multiplies at most 1024 rows, not 1025"),
        *[(1, 512, 64, *["adds up runs of 128 columns before it scales them, of which "
                         "group_size=64 is no multiple"] * 2)],
        *[(1, 0, 128, *["has no run to multiply when k is 0"] * 2)],
    ],
)  # fmt: skip
def test_packed_weights_meet_rows(m, k, group_size, few, split) -> None:
    call = packed_call(m, 65, k, group_size)
    assert GemmW4A16FewRowsKernel.refusal(call) == few
    assert GemmW4A16SplitKernel.refusal(call) == split
    served = "portable" if split else "split" if few else "few_rows"
    assert GemmW4A16FwdOp(group_size).key_for("gemm_w4a16", call) == served


def test_row_counts_of_a_class_share_a_packed_program() -> None:
    calls = [packed_call(m, 8192, 8192) for m in (*range(1, 65), 100, 1024)]
    assert len({GemmW4A16SplitKernel.entry_for(call)[0] for call in calls}) == 5


@pytest.mark.parametrize(
    ("tiles", "k", "parts"), [(64, 16384, 4), (1, 8192, 16), (1, 256, 1), (1024, 8192, 1)]
)
def test_parts_fill_the_device(tiles: int, k: int, parts: int) -> None:
    assert packed_parts(tiles, k, 264) == parts


@pytest.mark.parametrize("arch", [80, 100])
def test_other_architectures_multiply_codes_by_torch(arch: int) -> None:
    scaled, packed = scaled_call(64, 64, 64, arch=arch), packed_call(4, 64, 128, arch=arch)
    assert GemmFp8FwdOp().key_for("gemm_fp8", scaled) == "portable"
    assert GemmW4A16FwdOp().key_for("gemm_w4a16", packed) == "portable"


@pytest.mark.parametrize(
    ("width", "dtype", "fault"),
    [
        (128, torch.bfloat16, None),
        (1024, torch.float16, None),
        (33, torch.float32, None),
        (1032, torch.float16, "holds rows of at most 1024 such elements in registers, not 1032"),
        (129, torch.float32, "holds rows of at most 128 such elements in registers, not 129"),
    ],
)
def test_rows_that_a_warp_holds_are_quantised_in_one_pass(width, dtype, fault) -> None:
    call = FP8QuantCall(width, dtype, arch=90)
    assert FP8QuantRowsKernel.refusal(call) == fault
    served = "portable" if fault else "rows"
    assert FP8QuantFwdOp().key_for("fp8_quant", call) == served
