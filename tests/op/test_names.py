from __future__ import annotations

import pytest

from tileops import Op
from tileops._core.boundary.naming import operator_name, stem
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.names import MEMBERS
from tileops._core.spec.registry import lookup


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RMSNormFwdOp", "rms_norm_fwd"),
        ("MoEPrePermuteFwdOp", "moe_pre_permute_fwd"),
        ("SiluFwdOp", "silu_fwd"),
        ("GemmW4A16FwdOp", "gemm_w4a16_fwd"),
        ("BatchedGemmINT8W8A8FwdOp", "batched_gemm_int8_w8a8_fwd"),
        ("FP8GemmFwdOp", "fp8_gemm_fwd"),
        ("FFTC2CFwdOp", "fft_c2c_fwd"),
        ("FusedTopKFwdOp", "fused_topk_fwd"),
        ("TopPSampleFwdOp", "topp_sample_fwd"),
        ("MinPoolFwdOp", "min_pool_fwd"),
        ("LongRoPEFwdOp", "long_rope_fwd"),
        ("YaRNFwdOp", "yarn_fwd"),
        ("MoEExpertMLPFwdOp", "moe_expert_mlp_fwd"),
        ("NSATopKVarlenFwdOp", "nsa_topk_varlen_fwd"),
        ("GQADecodeFwdOp", "gqa_decode_fwd"),
        ("MLADecodeFwdOp", "mla_decode_fwd"),
        ("SSDChunkScanFwdOp", "ssd_chunk_scan_fwd"),
        ("MHCPreFwdOp", "mhc_pre_fwd"),
        ("GLABwdOp", "gla_bwd"),
        ("BMMFwdOp", "bmm_fwd"),
        ("AvgPool2dFwdOp", "avg_pool2d_fwd"),
        ("LogSumExpFwdOp", "log_sum_exp_fwd"),
        ("GroupedQueryAttentionVarlenFwdOp", "grouped_query_attention_varlen_fwd"),
        ("Conv2DFwdOp", "conv2_d_fwd"),
    ],
)
def test_stem(name, expected):
    assert stem(name) == expected


NAMES = {
    "RMSNormFwdOp": ["norm_rms_norm_fwd"],
    "SiluAndMulFwdOp": ["elementwise_silu_and_mul_fwd"],
    "GemmFwdOp": ["gemm_fwd"],
}
"""Names that compiled artefacts hold; they never change."""


@pytest.mark.parametrize("name", NAMES)
def test_registered_names_never_change(name):
    import tileops.ops

    found = getattr(tileops.ops, name).compile_op_names
    assert [full.removeprefix("tileops::") for full in found] == NAMES[name]


@pytest.mark.parametrize(
    ("branch", "suffix"),
    [
        (EffectBranch((), False, ("output", "residual_out")), ""),
        (EffectBranch(("x",), False, ("output", "residual_out")), "_writes_x"),
        (
            EffectBranch(("x", "residual"), False, ("output",)),
            "_writes_residual_writes_x_without_residual_out",
        ),
        (EffectBranch((), True, ("output", "residual_out")), "_out"),
        (EffectBranch(("x",), True, ()), "_writes_x_out_without_output_without_residual_out"),
    ],
)
def test_suffix(branch, suffix):
    spec = lookup("FusedAddRMSNormFwdOp")
    assert list(spec.signature.outputs) == ["output", "residual_out"]
    assert operator_name(spec, branch) == f"norm_fused_add_rms_norm_fwd{suffix}"


def test_no_parameter_is_called_like_a_member_of_every_op():
    members = {name for name in dir(Op) if not name.startswith("_")}
    assert members - {"dtype"} == MEMBERS
