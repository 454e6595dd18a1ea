"""Published rows as calls of our ops: what they state, and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.samples import published_table, row
from tileops._core.spec.registry import lookup
from tileops._core.workload.cases import Case
from tileops.bench.calls import row_call
from tileops.bench.peer_rows import PublishedRows
from tileops.bench.peers import peer_matches


def published_row(op: str, dtype: str = "bfloat16", case: str = "x", **dims: Any) -> dict[str, Any]:
    return {
        "op": op, "case": case, "dims": dims, "dtype": dtype, "peer_tileops_ms": "0.012",
        "best_other": "torch", "best_other_ms": "", "bytes": 1,
    }  # fmt: skip


ROWS = [
    (
        "RMSNormFwdOp",
        published_row("RMSNormFwdOp", x_shape=[6, 32], normalized_shape=[32]),
        {"x": "bfloat16[6, 32]", "weight": "bfloat16[32]"},
    ),
    (
        "LayerNormFwdOp",
        published_row("LayerNormFwdOp", "float16", x_shape=[6, 32], normalized_shape=[32]),
        {"x": "float16[6, 32]", "weight": "float16[32]", "bias": "float16[32]"},
    ),
    (
        "GroupedQueryAttentionDenseFwdOp",
        published_row(
            "GroupedQueryAttentionDecodeWithKVCacheFwdOp",
            q_shape=[2, 8, 64],
            kv_shape=[2, 9, 2, 64],
        ),
        {"q": "bfloat16[2, 1, 8, 64]", "k": "bfloat16[2, 9, 2, 64]", "v": "bfloat16[2, 9, 2, 64]"},
    ),
    (
        "GroupedQueryAttentionVarlenFwdOp",
        published_row(
            "GroupedQueryAttentionPrefillFwdOp",
            total_q=5, total_kv=9, batch=2, q_lens=[3, 2], kv_lens=[4, 5], heads=4, heads_kv=2,
            dim=64, max_seqlen_q=3, max_seqlen_kv=5, is_causal=True, backend="dense",
        ),
        {
            "q": "bfloat16[5, 4, 64]", "k": "bfloat16[9, 2, 64]", "v": "bfloat16[9, 2, 64]",
            "cu_seqlens_q": "int32[3]", "cu_seqlens_kv": "int32[3]",
        },
    ),
    (
        "GroupedQueryAttentionVarlenFwdOp",
        published_row(
            "GroupedQueryAttentionSlidingWindowVarlenFwdOp",
            total_q=8, total_k=8, batch=2, heads=4, heads_kv=2, dim=64, max_seqlen_q=4,
            is_causal=True, window_size_left=2,
        ),
        {
            "q": "bfloat16[8, 4, 64]", "k": "bfloat16[8, 2, 64]", "v": "bfloat16[8, 2, 64]",
            "cu_seqlens_q": "int32[3]", "cu_seqlens_kv": "int32[3]",
        },
    ),
    (
        "GemmFp8FwdOp",
        published_row("GemmFp8FwdOp", "float8_e4m3fn", m=3, n=5, k=200, scale_mode="block128"),
        {
            "a": "float8_e4m3fn[3, 200]", "b": "float8_e4m3fn[5, 200]",
            "scale_a": "float32[3, 2]", "scale_b": "float32[5, 2]",
        },
    ),
    (
        "MoEGroupedGemmFwdOp",
        published_row("MoeGateUpFwdOp", numel=6, num_experts=3, ffn=4, k=8),
        {"a": "bfloat16[6, 8]", "b": "bfloat16[3, 8, 8]", "layout_metadata": "int32[3]"},
    ),
    (
        "RoPEFwdOp",
        published_row(
            "RopeNeoxFwdOp", batch=2, seq_len=3, num_heads=4, head_dim=8, layout="2d",
            dtype="bfloat16",
        ),
        {"x": "bfloat16[2, 3, 4, 8]"},
    ),
    (
        "FP8QuantFwdOp",
        published_row(
            "FP8QuantFwdOp", "", batch=1, seq_len_kv=4, kv_group=1, index_dim=8,
            in_dtype="float32",
        ),
        {"input_tensor": "float32[1, 4, 1, 8]"},
    ),
    (
        "VectorNormFwdOp",
        published_row("L1NormFwdOp", x_shape=[4, 8, 6], dim=[0, 2]),
        {"x": "bfloat16[4, 8, 6]"},
    ),
    (
        "Conv1dFwdOp",
        published_row("Conv1dFwdOp", input_shape=[1, 4, 30], C_out=6, kW=3, bias_shape=[6]),
        {"input": "bfloat16[1, 4, 30]", "weight": "bfloat16[6, 4, 3]", "bias": "bfloat16[6]"},
    ),
]  # fmt: skip


def forms(case: Case) -> dict[str, str]:
    """The tensors of a case as results write them."""
    return {name: f"{form.dtype}{list(form.shape)}" for name, form in case.tensors.items()}


def cases(path: Path, op: str, *rows: dict[str, Any], mapping: Path | None = None) -> list[Case]:
    """The calls of an op that a record asks for."""
    spec = lookup(op)
    assert spec is not None
    return list(PublishedRows(published_table(path, *rows), mapping).cases(spec))


@pytest.mark.parametrize(
    ("op", "asked", "tensors"), ROWS, ids=[asked["op"] for _, asked, _ in ROWS]
)
def test_a_row_is_the_call_that_it_states(
    tmp_path: Path, op: str, asked: dict[str, Any], tensors: dict[str, str]
) -> None:
    table = tmp_path / "times.csv"
    (case,) = cases(table, op, asked)
    assert (case.id, forms(case)) == (f"{asked['op']}/x", tensors | {})
    spec = lookup(op)
    assert spec is not None
    call = row_call(spec, case, torch.device("cpu"))
    assert call.fault(call.ours, call.wanted()) is None
    indices = {name: str(value) for name, value in call.op.last_call.indices.items()}
    ours = row(op, case.id, tensors=forms(case), bindings=indices)
    assert [match.case for match in peer_matches([ours], table)] == [case.id]


def test_parameters_that_are_stated_win_over_those_of_the_mapping(tmp_path: Path) -> None:
    rows = [
        published_row("LogSumExpFwdOp", x_shape=[4, 6]),
        published_row("LogSumExpFwdOp", case="y", x_shape=[4, 6], dim=[0, 1]),
    ]
    found = cases(tmp_path / "times.csv", "LogSumExpFwdOp", *rows)
    assert [case.outputs["output"].shape for case in found] == [(4,), ()]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            {"normalized_shape": [32], "x_shape": [6, 32], "centred": 1},
            "RMSNormFwdOp has no centred",
        ),
        ({"normalized_shape": [32], "x_shape": [6, 31]}, "axes 1 to 1 are (31,), expected (32,)"),
        ({"normalized_shape": [32]}, "misses B"),
        (
            {"normalized_shape": [32], "x_shape": [6, 32], "weight_shape": [6]},
            "axes 0 to 0 are (6,), expected (32,)",
        ),
        (
            {"normalized_shape": [32], "x_shape": [6, 32], "bias_shape": [32]},
            "bias is not passed, published is [32]",
        ),
        ({"x_shape": [6, 32]}, "misses normalized_shape, which has no default"),
    ],
)
def test_what_a_signature_does_not_admit_is_left(
    tmp_path: Path, asked: dict[str, Any], reason: str
) -> None:
    table = published_table(tmp_path / "times.csv", published_row("RMSNormFwdOp", **asked))
    rows, spec = PublishedRows(table), lookup("RMSNormFwdOp")
    assert spec is not None
    assert list(rows.cases(spec)) == []
    (unlike,) = rows.unlike
    assert unlike.startswith("RMSNormFwdOp/x")
    assert reason in unlike


def test_rows_of_other_ops_are_counted(tmp_path: Path) -> None:
    asked = {"x_shape": [6, 32], "normalized_shape": [32]}
    table = published_table(
        tmp_path / "times.csv",
        published_row("RMSNormFwdOp", **asked),
        published_row("RMSNormFwdOp", case="y", **asked),
        published_row("NobodysFwdOp", **asked),
        published_row("GatedDeltaNetBwdOp", **asked),
        published_row("RopeNeoxFwdOp", layout="3d"),
    )
    rows, spec, other = PublishedRows(table), lookup("RMSNormFwdOp"), lookup("LayerNormFwdOp")
    assert spec is not None
    assert other is not None
    assert rows.elsewhere == 3
    counts = [rows.count(spec), rows.count(spec, ["x"]), rows.count(spec, ["RMSNormFwdOp/y"])]
    assert counts == [2, 1, 1]
    assert rows.count(other) == 0
    assert list(rows.cases(other)) == []
