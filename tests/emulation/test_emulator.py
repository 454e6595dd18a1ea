"""The emulated device does what the hardware does, and notices what the hardware would not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from emulation import samples
from emulation.emulator import SCHEDULES, EmulationError, Emulator, Lowered, Schedule, lower
from tileops._programs.program import Program
from tileops.gemm.programs import Tiling, build_gemm_pipelined

each_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)


@pytest.fixture
def emulated(compiled: Path):
    """Makes an emulator of a program."""
    return lambda program: Emulator(lower(program), compiled)


@each_schedule
def test_shuffles_scan_a_warp(emulated, schedule: Schedule) -> None:
    x = torch.randn(256)
    y = torch.full_like(x, torch.nan)
    emulated(samples.scan()).run(x, y, schedule=schedule)
    torch.testing.assert_close(y, x.view(-1, 32).cumsum(1).flatten())


@each_schedule
def test_tickets_elect_the_last_block(emulated, schedule: Schedule) -> None:
    x = torch.randn(64 * 7)
    tickets, y = torch.zeros(1, dtype=torch.int32), torch.full((1,), torch.nan)
    emulated(samples.last_block_sum()).run(
        x, torch.full((7,), torch.nan), tickets, y, schedule=schedule
    )
    torch.testing.assert_close(y[0], x.sum())
    assert tickets.item() == 7


@each_schedule
def test_reductions_combine_a_block(emulated, schedule: Schedule) -> None:
    x = torch.randn(5, 128)
    y = torch.full((5, 2), torch.nan)
    emulated(samples.reductions()).run(x, y, schedule=schedule)
    torch.testing.assert_close(y, torch.stack((x.amax(1), x.sum(1)), 1))


@each_schedule
def test_atomics_add_up(emulated, schedule: Schedule) -> None:
    x = torch.randn(9, 64)
    y = torch.zeros(64)
    emulated(samples.atomic_columns()).run(x, y, schedule=schedule)
    torch.testing.assert_close(y, x.sum(0))


def test_reading_beyond_a_tensor_is_reported(emulated) -> None:
    x, y = torch.randn(128), torch.empty(128)
    with pytest.raises(EmulationError, match=r"access outside every tensor.*thread 63 of block 1"):
        emulated(samples.shifted_copy(read=1, write=0)).run(x, y)


def test_reading_before_a_tensor_is_reported(emulated) -> None:
    x, y = torch.randn(1024), torch.empty(1024)
    with pytest.raises(EmulationError, match="access outside every tensor"):
        emulated(samples.shifted_copy(read=-2, write=0)).run(x, y)


def test_writing_just_behind_a_tensor_is_reported(emulated) -> None:
    x, y = torch.randn(5), torch.empty(5)
    with pytest.raises(EmulationError, match="written beyond its end"):
        emulated(samples.shifted_copy(read=0, write=1)).run(x, y)


def test_a_misaligned_vector_is_reported(emulated) -> None:
    with pytest.raises(EmulationError, match="misaligned access"):
        emulated(samples.misaligned_store()).run(torch.empty(8))


def test_a_deadlock_says_who_waits_where(emulated) -> None:
    with pytest.raises(EmulationError, match=r"deadlock: thread 0 of block 0,0,0 at named barrier"):
        emulated(samples.lonely_barrier()).run(torch.empty(64))


def test_arguments_must_fit_the_program(emulated) -> None:
    emulator = emulated(samples.shifted_copy(0, 0))
    with pytest.raises(ValueError, match="1 arguments for 2 parameters"):
        emulator.run(torch.empty(4))
    with pytest.raises(ValueError, match="extent 5 where the program declares n"):
        emulator.run(torch.empty(4), torch.empty(5))
    with pytest.raises(ValueError, match="X has rank 1"):
        emulator.run(torch.empty(4, 1), torch.empty(4))
    with pytest.raises(ValueError, match="contiguous"):
        emulator.run(torch.empty(8)[::2], torch.empty(4))


M, N, K = 260, 264, 520


def gemm_program(cluster: int = 1) -> Program:
    tiling = Tiling(128, 192, 64, 4, group=2, cluster=cluster)
    return build_gemm_pipelined(
        "float16", trans_a=False, trans_b=True, tiling=tiling, blocks=2 * cluster
    )


def largest_error(lowered: Lowered, schedule: Schedule, folder: Path) -> float:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(M, K, generator=generator).half()
    b = torch.randn(N, K, generator=generator).half()
    d = torch.full((M, N), torch.nan, dtype=torch.float16)
    Emulator(lowered, folder).run(a, b, d, schedule=schedule)
    return (d.double() - a.double() @ b.double().T).abs().nan_to_num(torch.inf).max().item()


@pytest.fixture(scope="module")
def gemm() -> Lowered:
    return lower(gemm_program())


# What is taken away or weakened in the generated source.
MUTATIONS = {
    "copies without waiting for a free buffer": (r"empty\[slot\]\.wait\([^;]*\);", ""),
    "multiplies without waiting for the copies": (r"full\[slot\]\.wait\([^;]*\);", ""),
    "hands a buffer back before it was read": (r"wait_wgmma<1>", "wait_wgmma<2>"),
    "fills a panel that is still being stored": (r"tma_store_wait<1, true>", "tma_store_wait<4>"),
    "stores a panel before all have filled it": (
        r"fence_proxy_async\(\);\s*tl::__sync_thread_partial\([^;]*\);",
        "fence_proxy_async();",
    ),
    "keeps its buffers": (r"empty\[[^;]*\]\.arrive\(\);", ""),
    "hands a buffer back twice": (r"(empty\[[^;]*\]\.arrive\(\);)", r"\1 \1"),
    "expects fewer bytes than come": (r"expect_transaction\(16384\)", "expect_transaction(8192)"),
    "reads beyond the ring": (r"desc_b, \(slot \*", "desc_b, ((slot + 6) *"),
}


def test_the_unchanged_program_is_right(gemm: Lowered, compiled: Path) -> None:
    assert max(largest_error(gemm, schedule, compiled) for schedule in SCHEDULES) < 0.1


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_program_is_noticed(name: str, gemm: Lowered, compiled: Path) -> None:
    pattern, new = MUTATIONS[name]
    source, changes = re.subn(pattern, new, gemm.source)
    assert changes
    broken = replace(gemm, source=source)
    noticed = []
    for schedule in SCHEDULES:
        try:
            noticed.append(largest_error(broken, schedule, compiled) > 0.1)
        except EmulationError:
            noticed.append(True)
    assert any(noticed)


def test_a_cluster_that_expects_only_its_own_copies_is_noticed(compiled: Path) -> None:
    lowered = lower(gemm_program(cluster=2))
    assert largest_error(lowered, SCHEDULES[-1], compiled) < 0.1
    alone = replace(lowered, source=lowered.source.replace("(uint16_t)(3)", "(uint16_t)(1)"))
    with pytest.raises(EmulationError, match="deadlock"):
        largest_error(alone, SCHEDULES[0], compiled)
