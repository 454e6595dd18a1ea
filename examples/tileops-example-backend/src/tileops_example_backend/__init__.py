"""A backend for TileOPs: the target `example`, which serves some ops on the CPU as a whole.

The entry point of group `tileops.backends` imports this module, and importing it registers what the
target builds. Nothing is compiled, no device is touched, no default is changed.
"""

from __future__ import annotations

import os

import torch
from tileops.backend import register_detector, register_kernel_builder

from tileops_example_backend.activation import build_silu_and_mul
from tileops_example_backend.gemm import build_gemm
from tileops_example_backend.norm import build_rms_norm

TARGET = "example"
SWITCH = "TILEOPS_EXAMPLE_BACKEND"


def claims(device: torch.device) -> bool:
    """Whether the target serves a device unasked: the CPU, where the switch is on."""
    return device.type == "cpu" and os.environ.get(SWITCH) == "1"


register_detector(target=TARGET, detect=claims)
register_kernel_builder(op="RMSNormFwdOp", target=TARGET, build_kernel=build_rms_norm)
register_kernel_builder(op="GemmFwdOp", target=TARGET, build_kernel=build_gemm)
register_kernel_builder(op="SiluAndMulFwdOp", target=TARGET, build_kernel=build_silu_and_mul)
