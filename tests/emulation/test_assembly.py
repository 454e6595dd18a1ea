"""The largest programs assemble for Hopper without spilling registers; needs nvcc, no device."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tilelang

from emulation.emulator import lower
from tileops._programs.program import Program
from tileops.attention.programs import prefill
from tileops.attention.programs.decode import Decoding, build_decode, build_decode_paged
from tileops.attention.programs.dense import build_attention_pipelined
from tileops.attention.programs.latent import Latent, build_latent_decode
from tileops.attention.programs.latent_rows import Rows as LatentRows
from tileops.attention.programs.latent_rows import build_latent_decode_rows
from tileops.attention.programs.packed import build_attention_packed, build_attention_paged
from tileops.attention.programs.rotation import Rotation
from tileops.attention.programs.softmax import Heads
from tileops.elementwise.programs import build_dropout
from tileops.gemm.kernels import PACKED_CUTS
from tileops.gemm.programs import (
    Groups,
    Tiling,
    build_gemm_grouped,
    build_gemm_packed,
    build_gemm_packed_split,
    build_gemm_pipelined,
    build_gemm_scaled,
    build_gemm_split,
    build_gemv,
)
from tileops.linear_attention.programs import (
    Recurrence,
    build_chunks,
    build_kept_chunks,
    build_tokens,
)
from tileops.moe.programs import (
    Selection,
    build_permute_align,
    build_post_permute,
    build_pre_permute,
    build_top_k,
)
from tileops.norm.programs import (
    Channels,
    Norm,
    build_batch_norm_bwd,
    build_batch_norm_bwd_sums,
    build_norm_on_chip,
    build_norm_streaming,
)
from tileops.reduction.programs import (
    Columns,
    Rows,
    build_column_fold_in_parts,
    build_row_and_column_fold,
    build_row_fold,
    build_softmax_split,
    fold_of,
)
from tileops.sampling.programs import (
    Masking,
    build_logit_mask,
    build_min_p_mask,
    build_sampling,
)

HEADERS = Path(tilelang.__file__).parent
COMMAND = ("nvcc", "-std=c++20", "-O3", "-arch=sm_90a", "-cubin", "-Xptxas", "-v",
           "-diag-suppress", "20012", "-o", "kernel.cubin")  # fmt: skip


def on_chip(width: int, dtype: str, lanes: int, resident: int = 1, **kind: Any) -> Program:
    norm = Norm(dtype, 1e-6, **kind)
    return build_norm_on_chip(norm, width, lanes=lanes, rows=1, resident=resident)


def gemm(
    trans_a: bool, trans_b: bool, *tiling: int, cluster: int = 1, batched: bool = False
) -> Program:
    return build_gemm_pipelined(
        "bfloat16",
        trans_a=trans_a,
        trans_b=trans_b,
        tiling=Tiling(*tiling, cluster=cluster),
        blocks=132,
        batched=batched,
    )


def grouped(
    *tiling: int, out_dtype: str | None = None, activation: str | None = None, **groups: Any
) -> Program:
    return build_gemm_grouped(
        "bfloat16",
        tiling=Tiling(*tiling, stack=2),
        groups=Groups(**groups),
        blocks=132,
        out_dtype=out_dtype,
        activation=activation,
    )


def heads(width: int, softcap: float = 0.0) -> Heads:
    return Heads(32, 8, width, "bfloat16", width**-0.5, softcap)


def attend(width: int, *tiling: int, softcap: float = 0.0, **mask: int) -> Program:
    cut = prefill.Tiling(*tiling, reuses=width == 256, joins=width < 256)
    mask = prefill.Mask(**mask)
    return build_attention_pipelined(heads(width, softcap), mask=mask, tiling=cut, blocks=132)


def packed(width: int, *tiling: int, page: int = 0, turned: int = 0, **mask: int) -> Program:
    cut = prefill.Tiling(*tiling, reuses=width == 256)
    if not page:
        return build_attention_packed(heads(width), mask=prefill.Mask(**mask), tiling=cut)
    rotation = Rotation(turned, 8191) if turned else None
    source = prefill.Source(is_packed=True, page=page, rotation=rotation)
    mask = prefill.Mask(**mask)
    return build_attention_paged(heads(width), mask=mask, tiling=cut, source=source)


def token_by_token(width: int, state: str) -> Program:
    flags = True, None, True, 2, True, True, True, False, True
    return build_tokens(Recurrence("bfloat16", state, 4, 8, width, 128, 0.1, "channel", *flags))


def in_chunks(width: int, dtype: str, is_packed: bool) -> Program:
    flags = True, None, True, 2, True, True, True, False, is_packed
    return build_chunks(Recurrence(dtype, "float32", 4, 8, width, 128, 0.1, "head", *flags))


def decode(width: int, *how: int) -> Program:
    build = build_decode_paged if how[-1] else build_decode
    return build(heads(width), how=Decoding(*how))


def latent_rows(width: int, *how: int) -> Program:
    latent = Latent(128, width, 64, "bfloat16", 0.1)
    return build_latent_decode_rows(latent, how=LatentRows(*how))


def scaled(scales_a: str, scales_b: str, *tiling: int, batched: bool = False) -> Program:
    return build_gemm_scaled(
        "float8_e4m3fn",
        "bfloat16",
        scales_a=scales_a,
        scales_b=scales_b,
        biased=not batched,
        tiling=Tiling(*tiling),
        blocks=132,
        batched=batched,
    )


PROGRAMS = {
    "longest row": lambda: on_chip(1 << 15, "float32", 512),
    "most elements a thread": lambda: on_chip(1 << 14, "bfloat16", 256),
    "most elements a thread, centred": lambda: on_chip(
        1 << 14, "bfloat16", 256, 2, centred=True, biased=True, added=True
    ),
    "two rows of float32": lambda: on_chip(
        1 << 13, "float32", 256, 2, centred=True, biased=True, added=True
    ),
    "gated row": lambda: on_chip(
        1 << 14, "bfloat16", 256, 2, centred=True, biased=True, adaptive=True, gated=True
    ),
    "longest row, sum": lambda: on_chip(1 << 14, "bfloat16", 512, added=True),
    "longest row, centred": lambda: on_chip(1 << 14, "bfloat16", 512, centred=True, biased=True),
    "most elements a thread, of channels": lambda: on_chip(
        1 << 14, "bfloat16", 256, 2, centred=True, biased=True, channels=Channels(32, 64, 256)
    ),
    "channels that end inside": lambda: on_chip(
        32 * 196, "float16", 256, 2, centred=True, biased=True, channels=Channels(16, 128, 49)
    ),
    "streamed": lambda: build_norm_streaming(
        Norm("float32", 1e-6, centred=True, biased=True), count=4, threads=512, unroll=4
    ),
    "spread": lambda: build_row_fold(
        fold_of("var_mean"), Rows("bfloat16", 8, True, 128, 1, 4), "float32"
    ),
    "columns": lambda: build_column_fold_in_parts(
        fold_of("logsumexp"), Columns("bfloat16", 8, 32, 8, 4), "bfloat16"
    ),
    "columns of bytes": lambda: build_column_fold_in_parts(
        fold_of("any"), Columns("bool", 16, 32, 8, 4), "bool"
    ),
    "spread of columns": lambda: build_column_fold_in_parts(
        fold_of("var_mean"), Columns("bfloat16", 8, 32, 8, 4), "bfloat16"
    ),
    "columns of rows": lambda: build_row_and_column_fold(
        fold_of("var_mean"),
        Rows("float16", 8, True, 512, 1, 4),
        Columns("float32", 1, 32, 8, 4),
        "float16",
        sliced=True,
    ),
    "shared softmax": lambda: build_softmax_split(
        "bfloat16", "bfloat16", log=False, vector=8, threads=256, unroll=2
    ),
    "sums of batch norm": lambda: build_batch_norm_bwd_sums("float16", 8, threads=256, unroll=2),
    "gradients of batch norm": lambda: build_batch_norm_bwd("float16", 8, threads=256, unroll=2),
    "dropout": lambda: build_dropout("bfloat16", 8, threads=128),
    "mask by rank and probability": lambda: build_logit_mask(
        Masking("float32", 4, 2, 1024, 4), has_k=True, has_p=True
    ),
    "mask by probability": lambda: build_logit_mask(
        Masking("bfloat16", 8, 1, 1024, 2), has_k=False, has_p=True
    ),
    "mask by the largest": lambda: build_min_p_mask(Masking("bfloat16", 8, 2, 1024, 4)),
    "draws": lambda: build_sampling(4, threads=1024, unroll=4),
    "wide tile": lambda: gemm(False, True, 128, 256, 64, 4),
    "batch, wide tile": lambda: gemm(False, False, 128, 256, 64, 4, batched=True),
    "columns that are no panels": lambda: gemm(False, True, 128, 176, 64, 5),
    "four rows": lambda: build_gemv("bfloat16", rows=4, columns=4, threads=128, unroll=2),
    "split": lambda: build_gemm_split("bfloat16", tiling=Tiling(64, 128, 64, 8), splits=2),
    "groups": lambda: grouped(256, 128, 64, 4, kind="starts"),
    "aligned groups": lambda: grouped(256, 64, 64, 5, kind="ends", alignment=128),
    "wide groups": lambda: grouped(256, 96, 64, 3, kind="ends", out_dtype="float32"),
    "owners": lambda: grouped(256, 144, 64, 4, kind="owners", most=2048),
    "gates": lambda: grouped(
        256, 144, 64, 3, kind="owners", most=2048, out_dtype="float32", activation="gelu_and_mul"
    ),
    "gates of slabs": lambda: grouped(
        256, 144, 64, 4, kind="counts", alignment=128, activation="silu_and_mul"
    ),
    "rows to experts": lambda: build_pre_permute(
        "bfloat16", experts=256, top_k=8, alignment=16, by_owner=True, shared=True
    ),
    "rows of experts": lambda: build_post_permute("bfloat16", "bfloat16", top_k=8, scale=2.5),
    "routes in blocks": lambda: build_permute_align(experts=256, block_size=64, shared=True),
    "experts of tokens": lambda: build_top_k(
        Selection("float32", 1024, 32, True, True, True, smallest=1e-20)
    ),
    "codes, wide tile": lambda: scaled("row_block", "tile", 128, 128, 128, 5),
    "batch of codes": lambda: scaled("tensor", "tensor", 128, 128, 128, 5, batched=True),
    "codes, scales of columns": lambda: scaled("row_block", "row_block", 128, 64, 128, 7),
    "packed": lambda: build_gemm_packed(group=128, warps=16),
    **{
        f"packed, split, {columns} rows": partial(
            build_gemm_packed_split,
            group=128,
            columns=columns,
            scaled=columns > 64,
            **cut._asdict(),
        )
        for columns, cut in PACKED_CUTS.items()
    },
    **{
        f"tokens, keys of {width}, states {state}": partial(token_by_token, width, state)
        for width, state in ((256, "float32"), (128, "bfloat16"), (160, "float32"))
    },
    "chunks of tokens, keys of 64": lambda: in_chunks(64, "float16", False),
    "chunks of tokens, keys of 128": lambda: in_chunks(128, "bfloat16", False),
    "packed chunks of tokens": lambda: in_chunks(128, "float16", True),
    "kept chunks, keys of 64": lambda: build_kept_chunks("bfloat16", 64, 64),
    "kept chunks, keys of 128": lambda: build_kept_chunks("float16", 128, 128),
    "cluster": lambda: gemm(True, False, 128, 256, 64, 4, cluster=2),
    "attention": lambda: attend(128, 128, 128, right=0),
    "attention, narrow heads": lambda: attend(64, 192, 128),
    "attention, window": lambda: attend(128, 128, 128, left=1024, right=0),
    "attention, widest heads, bound": lambda: attend(256, 128, 64, 1, right=0, softcap=3.0),
    "packed requests, narrow heads": lambda: packed(64, 192, 128, 1, right=0),
    "pages": lambda: packed(128, 128, 128, 1, page=16, turned=128, right=0),
    "pages, widest heads": lambda: packed(256, 128, 64, 1, page=64, turned=256, right=0),
    "latent": lambda: build_latent_decode(Latent(128, 512, 64, "bfloat16", 0.1)),
    "latent, rows": lambda: latent_rows(128, 2, 128, 3),
    "latent, rows of 256 channels": lambda: latent_rows(256, 2, 64, 3),
    "decode, widest heads": lambda: decode(256, 64, 3, 100, 0),
    "decode, pages": lambda: decode(128, 64, 3, -1, 16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_assembles_without_spills(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]()
    (tmp_path / "kernel.cu").write_text(lower(program).source)
    done = subprocess.run(
        [
            *COMMAND,
            *(["--use_fast_math"] if program.settings.get("tl.enable_fast_math") else []),
            f"-I{HEADERS / 'src'}",
            f"-I{HEADERS / '3rdparty/cutlass/include'}",
            "kernel.cu",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    spills = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert set(spills) == {"0"}, done.stderr[-2000:]
    assert "wgmma" not in done.stderr  # where the assembler has to serialise products, it says so
