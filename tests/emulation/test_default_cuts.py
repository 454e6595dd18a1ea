"""Cuts of products that the device's times chose, by the kernels that have them as defaults."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tileops.gemm.kernels import GemmCall, GemmPipelinedKernel, GemvKernel

BF16 = torch.bfloat16


def made(kernel: Any, m: int, n: int, k: int) -> Any:
    call = GemmCall(m, n, k, False, True, BF16, arch=90, sm_count=132)
    return kernel.entry_for(call)[1]()


@pytest.mark.parametrize(("k", "cut"), [(2048, (128, 4, 2)), (4096, (128, 1, 4))])
@pytest.mark.usefixtures("hopper")
def test_a_block_reads_one_long_row_of_a_weight_or_several_short_ones(k, cut) -> None:
    config = made(GemvKernel, 1, 7168, k).default_config
    assert tuple(config[name] for name in ("threads", "columns", "unroll")) == cut


@pytest.mark.parametrize(("n", "group"), [(4096, 16), (2112, 8)])
@pytest.mark.usefixtures("hopper")
def test_only_the_widest_tiles_are_walked_in_high_groups(n, group) -> None:
    assert made(GemmPipelinedKernel, 4096, n, 7168).default_config["group"] == group
