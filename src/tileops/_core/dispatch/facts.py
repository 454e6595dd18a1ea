"""What dispatch asks of a device: architecture, multiprocessors, calibrated board, shared memory.

Facts are read once per device and process, and only when somebody asks.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch

from tileops._core.devices import has_cuda


class DeviceFacts(NamedTuple):
    """Facts of one device; the defaults are the neutral values of a device that has none."""

    arch: int = -1
    sm_count: int = 0
    calibration: str | None = None
    smem_budget: int = 0


MEANINGS = {
    "arch": "ten times the major plus the minor compute capability",
    "sm_count": "number of multiprocessors",
    "calibration": "key of the calibrated board",
    "smem_budget": "bytes of shared memory that a block may have after opting in",
}
"""What each fact is."""

USUAL = {
    "sm_80": DeviceFacts(arch=80, sm_count=108, smem_budget=163 << 10),
    "sm_89": DeviceFacts(arch=89, sm_count=142, smem_budget=99 << 10),
    "sm_90": DeviceFacts(arch=90, sm_count=132, smem_budget=227 << 10),
    "sm_100": DeviceFacts(arch=100, sm_count=148, smem_budget=227 << 10),
}
"""By architecture the facts of a large board of it, for questions about a device that is not here.
"""

BOARDS = {"sm_80": "A100", "sm_89": "L40S", "sm_90": "H100 and H200", "sm_100": "B200"}
"""Well-known boards of these architectures, for people."""

CALIBRATED_BOARDS = {"NVIDIA H200": "h200"}
"""Boards on which kernels were tuned by hand: the driver's device name to a short key."""


def device_facts(device: torch.device | None) -> DeviceFacts:
    """The facts of `device` (in normal form); neutral on anything but a CUDA device at hand."""
    return _read(device) if device is not None and has_cuda(device) else DeviceFacts()


@cache
def _read(device: torch.device) -> DeviceFacts:
    properties = torch.cuda.get_device_properties(device)
    return DeviceFacts(
        arch=10 * properties.major + properties.minor,
        sm_count=properties.multi_processor_count,
        calibration=CALIBRATED_BOARDS.get(properties.name),
        smem_budget=properties.shared_memory_per_block_optin,  # type: ignore[attr-defined]
    )
