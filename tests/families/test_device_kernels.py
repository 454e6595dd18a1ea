"""What the TileLang kernels serve, refuse and share builds for; no device is needed."""

from __future__ import annotations

import pytest
import torch

from tileops._kernels.alignment import aligned
from tileops.attention import (
    GroupedQueryAttentionDenseFwdOp,
    GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp,
    GroupedQueryAttentionVarlenFwdOp,
    MultiHeadLatentAttentionDecodeWithKVCacheFwdOp,
)
from tileops.attention.kernels import (
    DenseAttentionCall,
    DenseAttentionDecodeKernel,
    DenseAttentionPipelinedKernel,
    LatentDecodeCall,
    LatentDecodePipelinedKernel,
    PagedDecodeKernel,
    PagedPrefillCall,
    PagedPrefillPipelinedKernel,
    VarlenAttentionCall,
    VarlenAttentionPipelinedKernel,
)
from tileops.attention.kernels.device import part_count
from tileops.gemm import GemmFwdOp, GroupedGemmFwdOp
from tileops.gemm.kernels import (
    GemmCall,
    GemmPipelinedKernel,
    GemmSplitKernel,
    GemvKernel,
    GroupedGemmCall,
    GroupedGemmPipelinedKernel,
)
from tileops.moe import MoEGroupedGemmFwdOp
from tileops.moe.kernels import MoEGroupedGemmCall, MoEGroupedGemmPipelinedKernel
from tileops.moe.types.layouts import ContiguousLayoutSpec, MaskedLayoutSpec
from tileops.norm import RMSNormFwdOp
from tileops.norm.kernels import RMSNormCall, RMSNormOnChipKernel, RMSNormStreamingKernel

HALVES = [torch.float16, torch.bfloat16]
LONGEST = RMSNormOnChipKernel.LONGEST_ROW


def norm_call(n: int, dtype: torch.dtype = torch.bfloat16, weighted: bool = True, arch: int = 90):
    return RMSNormCall(n, 1e-6, weighted, dtype, arch=arch)


def gemm_call(m, n, k, trans_a=False, trans_b=True, dtype=torch.bfloat16, arch=90):
    return GemmCall(m, n, k, trans_a, trans_b, dtype, arch=arch, sm_count=132)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("n", [1, 100, 4096, 4097, LONGEST])
def test_rows_that_fit_are_held_on_chip(n: int, dtype: torch.dtype) -> None:
    assert RMSNormFwdOp([n]).key_for("rms_norm", norm_call(n, dtype)) == "on_chip"


def test_longer_rows_are_streamed() -> None:
    call = norm_call(LONGEST + 1)
    assert RMSNormFwdOp([LONGEST + 1]).key_for("rms_norm", call) == "streaming"
    assert RMSNormOnChipKernel.refusal(call) == (
        f"holds rows of at most {LONGEST} elements in registers, not {LONGEST + 1}"
    )


@pytest.mark.parametrize("arch", [80, 100])
def test_other_architectures_are_served_by_torch(arch: int) -> None:
    assert RMSNormFwdOp([64]).key_for("rms_norm", norm_call(64, arch=arch)) == "portable"
    assert GemmFwdOp().key_for("gemm", gemm_call(64, 64, 64, arch=arch)) == "portable"


def test_rows_of_one_kind_share_a_build() -> None:
    identity, _ = RMSNormOnChipKernel.entry_for(norm_call(4096))
    assert identity == RMSNormOnChipKernel.entry_for(norm_call(4096, arch=90))[0]
    others = [norm_call(4096, torch.float16), norm_call(2048), norm_call(4096, weighted=False)]
    assert identity not in [RMSNormOnChipKernel.entry_for(call)[0] for call in others]


def test_streamed_rows_share_a_build_whatever_their_length() -> None:
    def build(n: int):
        return RMSNormStreamingKernel.entry_for(norm_call(n))[0]

    assert build(40000) == build(800000)
    assert build(40001) == build(50001) != build(40000)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
def test_products_of_halves_are_pipelined(trans_a, trans_b, dtype) -> None:
    call = gemm_call(4096, 4096, 7168, trans_a, trans_b, dtype)
    assert GemmFwdOp(trans_a, trans_b).key_for("gemm", call) == "pipelined"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            gemm_call(64, 64, 64, dtype=torch.float32),
            "multiplies float16 and bfloat16, not float32",
        ),
        (gemm_call(64, 64, 0), "has no step to multiply when k is 0"),
        (gemm_call(64, 64, 1001), "in a k=1001 is no multiple of 8"),
        (gemm_call(63, 64, 64, trans_a=True), "in a m=63 is no multiple of 8"),
        (gemm_call(64, 60, 64, trans_b=False), "in b n=60 is no multiple of 8"),
        (gemm_call(64, 60, 64), "in the result n=60 is no multiple of 8"),
        (gemm_call(64, 64, 63, trans_a=True), "in b k=63 is no multiple of 8"),
    ],
)
def test_products_that_are_refused_say_why(call: GemmCall, reason: str) -> None:
    refusal = GemmPipelinedKernel.refusal(call)
    assert refusal is not None
    assert refusal.endswith(reason)
    assert GemmFwdOp(call.trans_a, call.trans_b).key_for("gemm", call) != "pipelined"


@pytest.mark.parametrize(
    "call",
    [
        gemm_call(63, 64, 64),
        gemm_call(64, 64, 63, trans_a=True, trans_b=False),
        gemm_call(1, 8, 8),
    ],
)
def test_extents_that_are_no_row_pitch_may_be_odd(call: GemmCall) -> None:
    assert GemmPipelinedKernel.refusal(call) is None


def tile_of(call: GemmCall):
    return GemmPipelinedKernel.entry_for(call)[0][3]


def test_tiles_are_chosen_by_the_class_of_the_shape() -> None:
    assert tile_of(gemm_call(4096, 4096, 7168))[:2] == (128, 256)
    # Fewer columns idle in the last round, most of all where a tile may have any number of them.
    assert tile_of(gemm_call(4096, 2112, 7168))[:2] == (128, 176)
    assert tile_of(gemm_call(4096, 2112, 7168, trans_b=False))[:2] == (128, 192)
    assert tile_of(gemm_call(512, 4096, 4096))[:2] == (128, 128)
    assert tile_of(gemm_call(1024, 1024, 1024))[:2] == (64, 128)  # more blocks than high tiles
    assert tile_of(gemm_call(128, 4096, 7168))[:2] == (64, 64)
    assert tile_of(gemm_call(64, 4096, 7168))[:2] == (64, 32)


def test_row_counts_of_a_class_share_a_build() -> None:
    builds = {GemmPipelinedKernel.entry_for(gemm_call(m, 4096, 4096))[0] for m in range(1, 501)}
    assert len(builds) <= 4


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("m", "key"), [(1, "gemv"), (2, "gemv"), (3, "split"), (32, "split"), (33, "pipelined")]
)
def test_few_rows_have_kernels_of_their_own(m: int, key: str, dtype: torch.dtype) -> None:
    assert GemmFwdOp().key_for("gemm", gemm_call(m, 4096, 7168, dtype=dtype)) == key


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (gemm_call(3, 64, 64), "multiplies at most 2 rows, not 3"),
        (
            gemm_call(1, 64, 64, dtype=torch.float32),
            "multiplies float16 and bfloat16, not float32",
        ),
        (
            gemm_call(1, 64, 64, trans_b=False),
            "reads both factors along k: a [m, k] and b [n, k]",
        ),
        (gemm_call(1, 64, 0), "has no step to multiply when k is 0"),
        (
            gemm_call(1, 64, 63),
            "reads rows in vectors of 8 elements, of which k=63 is no multiple",
        ),
    ],
)
def test_few_rows_that_are_refused_say_why(call: GemmCall, reason: str) -> None:
    assert GemvKernel.refusal(call) == reason
    if call.m == 1:
        assert GemmSplitKernel.refusal(call) == reason


def test_more_than_few_rows_are_refused() -> None:
    whole, shared = gemm_call(33, 4096, 4096), gemm_call(129, 2112, 7168)
    assert GemmSplitKernel.refusal(whole) == "multiplies at most 32 rows, not 33"
    assert GemmSplitKernel.refusal(shared) == "multiplies at most 128 rows, not 129"


@pytest.mark.parametrize(("m", "key"), [(1, "gemv"), (5, "split")])
def test_a_weight_of_any_height_multiplies_few_rows(m: int, key: str) -> None:
    assert GemmFwdOp().key_for("gemm", gemm_call(m, 61, 64)) == key


@pytest.mark.parametrize(
    ("n", "k", "splits"),
    [(2112, 7168, 4), (2816, 7168, 3), (4096, 4096, 1), (64, 16384, 8), (2112, 256, 1)],
)
def test_parts_of_the_depth_fill_the_device_once(n: int, k: int, splits: int) -> None:
    assert GemmSplitKernel.entry_for(gemm_call(8, n, k))[0][2] == splits


def test_row_counts_of_a_power_share_a_split_build() -> None:
    builds = {GemmSplitKernel.entry_for(gemm_call(m, 2112, 4096))[0] for m in range(1, 129)}
    assert {rows for _, rows, _ in builds} == {8, 16, 32, 64, 128}
    assert len(builds) == 5


def test_steps_are_short_where_rows_of_the_weight_are() -> None:
    builds = [GemvKernel.entry_for(gemm_call(1, 4096, k))[0] for k in (8, 2048, 4096, 16384)]
    assert [is_long for *_, is_long in builds] == [False, False, True, True]


def grouped_call(groups, rows, n, k, transpose_a=False, transpose_b=True, dtype=torch.bfloat16):
    facts = (groups, rows, n, k, transpose_a, transpose_b, dtype)
    return GroupedGemmCall(*facts, arch=90, sm_count=132)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            grouped_call(8, 512, 64, 64, dtype=torch.float32),
            "multiplies float16 and bfloat16, not float32",
        ),
        (
            grouped_call(8, 512, 64, 64, True),
            "reads both factors along k: a [rows, k] and b [groups, n, k]",
        ),
        (
            grouped_call(8, 512, 64, 63),
            "copies rows whose pitch is a multiple of 16 bytes; k=63 is no multiple of 8",
        ),
        (
            grouped_call(8, 512, 60, 64),
            "copies rows whose pitch is a multiple of 16 bytes; n=60 is no multiple of 8",
        ),
    ],
)
def test_groups_that_are_refused_say_why(call: GroupedGemmCall, reason: str) -> None:
    assert GroupedGemmPipelinedKernel.refusal(call) == reason
    op = GroupedGemmFwdOp(call.transpose_a, call.transpose_b)
    assert op.key_for("grouped_gemm", call) == "portable"


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1, 32), (32, 48), (48, 64), (100, 128), (128, 128), (256, 128), (300, 128), (1024, 128)],
)
def test_tiles_hold_groups_of_equal_sizes_and_short_ones_that_are_longer(rows, columns) -> None:
    call = grouped_call(8, 8 * rows, 4096, 4096)
    assert GroupedGemmFwdOp().key_for("grouped_gemm", call) == "pipelined"
    assert GroupedGemmPipelinedKernel.entry_for(call)[0][1].columns == columns


TIGHT = ContiguousLayoutSpec.tight_physical_psum()


def expert_call(layout=TIGHT, rows=512, k=64, activation=None, out_dtype=torch.bfloat16, experts=8):
    facts = (layout, experts, rows, 64, k, activation, torch.bfloat16, out_dtype)
    return MoEGroupedGemmCall(*facts, arch=90, sm_count=132)


@pytest.mark.parametrize("layout", [TIGHT, MaskedLayoutSpec(64)])
@pytest.mark.parametrize("activation", [None, "silu_and_mul", "gelu_and_mul"])
def test_rows_of_experts_are_multiplied_as_groups(layout, activation) -> None:
    op = MoEGroupedGemmFwdOp(layout, activation=activation)
    call = expert_call(layout, activation=activation)
    assert op.key_for("grouped_gemm", call) == "pipelined"
    # Slabs have room for their experts; rows that follow each other are more for some experts.
    columns = 64 if isinstance(layout, MaskedLayoutSpec) else 96
    assert MoEGroupedGemmPipelinedKernel.entry_for(call)[0][4].columns == columns


@pytest.mark.parametrize(
    ("tokens", "experts", "columns"),
    [(1, 128, 32), (512, 256, 32), (512, 128, 48), (4096, 256, 144), (4096, 128, 144)],
)
def test_tiles_hold_most_experts_rows(tokens: int, experts: int, columns: int) -> None:
    call = expert_call(rows=tokens * 8, experts=experts)
    assert MoEGroupedGemmPipelinedKernel.entry_for(call)[0][4].columns == columns


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (expert_call(rows=0), "has nothing to multiply without rows"),
        (
            expert_call(ContiguousLayoutSpec.tight_per_row(), experts=2049),
            "finds the rows of at most 2048 experts, not of 2049",
        ),
        (
            expert_call(k=63),
            "copies rows whose pitch is a multiple of 16 bytes; k=63 is no multiple of 8",
        ),
    ],
)
def test_experts_that_are_refused_say_why(call: MoEGroupedGemmCall, reason: str) -> None:
    assert MoEGroupedGemmPipelinedKernel.refusal(call) == reason


def test_tensors_off_the_boundary_are_copied() -> None:
    base = torch.arange(64, dtype=torch.float16)
    assert aligned(base) is base
    view = base[1:]
    copy = aligned(view)
    assert copy.data_ptr() % 16 == 0
    assert torch.equal(copy, view)


DENSE_FACTS = {
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "is_decode": False,
    "is_causal": True,
    "window_left": -1,
    "window_right": -1,
    "sm_scale": 0.1,
    "softcap": 0.0,
    "rotary_dim": 0,
    "rope_layout": "neox",
    "dtype": torch.bfloat16,
    "out_dtype": torch.bfloat16,
    "arch": 90,
    "sm_count": 132,
}


def attention_call(**changes) -> DenseAttentionCall:
    return DenseAttentionCall(**{**DENSE_FACTS, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"head_dim": 64, "dtype": torch.float16, "out_dtype": torch.float16},
        {"is_causal": False, "heads": 8, "kv_heads": 1},
        {"window_right": 3},  # hides nothing that a causal mask shows
        {"window_left": 8, "softcap": 30.0},
        {"window_right": 2, "is_causal": False, "head_dim": 256},
    ],
)
def test_attention_of_many_queries_is_pipelined(changes) -> None:
    call = attention_call(**changes)
    assert GroupedQueryAttentionDenseFwdOp().key_for("dense_attention", call) == "pipelined"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float32}, "attends in float16 and bfloat16, not float32"),
        ({"head_dim": 80}, "attends with heads of [64, 128, 256] channels, not 80"),
        ({"rotary_dim": 64}, "does not rotate, here rotary_dim=64"),
        ({"sm_scale": 0.0}, "scales scores by a positive finite factor, not by 0.0"),
        ({"sm_scale": float("nan")}, "scales scores by a positive finite factor, not by nan"),
    ],
)
def test_attention_that_is_refused_says_why(changes, reason: str) -> None:
    call = attention_call(**changes)
    assert DenseAttentionPipelinedKernel.refusal(call) == reason
    assert GroupedQueryAttentionDenseFwdOp().key_for("dense_attention", call) == "portable"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"window_left": 5, "window_right": 2, "is_causal": False, "softcap": 30.0},
        {"heads": 128, "kv_heads": 1, "head_dim": 64},
        {"head_dim": 256, "dtype": torch.float16, "out_dtype": torch.float16},
    ],
)
def test_attention_of_one_query_has_its_own_kernel(changes) -> None:
    call = attention_call(is_decode=True, **changes)
    assert GroupedQueryAttentionDenseFwdOp().key_for("dense_attention", call) == "decode"
    assert DenseAttentionPipelinedKernel.refusal(call) == (
        "attends with many queries of a request, not with one"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_decode": False}, "attends with one query of a request, not with several"),
        ({"rotary_dim": 64}, "does not rotate, here rotary_dim=64"),
        ({"dtype": torch.float32}, "attends in float16 and bfloat16, not float32"),
        ({"head_dim": 96}, "attends with heads of [64, 128, 256] channels, not 96"),
    ],
)
def test_decoding_that_is_refused_says_why(changes, reason: str) -> None:
    call = attention_call(**{"is_decode": True, **changes})
    assert DenseAttentionDecodeKernel.refusal(call) == reason


def paged_call(**changes) -> PagedPrefillCall:
    facts = {
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "page_size": 64,
        "max_seqlen_q": 1,
        "is_causal": True,
        "sm_scale": 0.1,
        "softcap": 0.0,
        "rotary_dim": 0,
        "rope_base": 1e4,
        "max_position": 0,
        "dtype": torch.bfloat16,
        "cache_dtype": torch.bfloat16,
        "arch": 90,
        "sm_count": 132,
    }
    return PagedPrefillCall(**{**facts, **changes})


def paged_op(call: PagedPrefillCall) -> GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp:
    return GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(call.page_size, call.max_seqlen_q)


@pytest.mark.parametrize("page_size", [8, 16, 32, 64, 192, 256])
def test_one_new_token_of_a_request_has_its_own_kernel(page_size: int) -> None:
    call = paged_call(page_size=page_size, softcap=5.0, rotary_dim=64, max_position=9)
    assert paged_op(call).key_for("paged_prefill", call) == "decode"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cache_dtype": torch.float8_e4m3fn}, "reads pages of the queries' dtype only"),
        ({"page_size": 4}, "reads pages of 8, 16, 32 or a multiple of 64 rows, not 4"),
        ({"page_size": 96}, "reads pages of 8, 16, 32 or a multiple of 64 rows, not 96"),
        ({"head_dim": 80}, "attends with heads of [64, 128, 256] channels, not 80"),
    ],
)
def test_paged_decoding_that_is_refused_says_why(changes, reason: str) -> None:
    call = paged_call(**changes)
    assert PagedDecodeKernel.refusal(call) == reason
    assert paged_op(call).key_for("paged_prefill", call) == "portable"


def test_many_new_tokens_of_a_request_have_their_own_kernel() -> None:
    call = paged_call(max_seqlen_q=7)
    assert paged_op(call).key_for("paged_prefill", call) == "pipelined"
    assert PagedDecodeKernel.refusal(call) == "takes one token of a request, not up to 7"
    reason = PagedPrefillPipelinedKernel.refusal(paged_call())
    assert reason == "takes many tokens of a request, not one"
    reason = PagedPrefillPipelinedKernel.refusal(paged_call(max_seqlen_q=7, head_dim=96))
    assert reason == "attends with heads of [64, 128, 256] channels, not 96"


def latent_call(**changes) -> LatentDecodeCall:
    facts = {"heads": 128, "kv_heads": 1, "latent_dim": 512, "rope_dim": 64,
             "dtype": torch.bfloat16, "arch": 90, "sm_count": 132}  # fmt: skip
    return LatentDecodeCall(**{**facts, **changes})


@pytest.mark.parametrize("changes", [{}, {"latent_dim": 128}, {"heads": 16, "latent_dim": 256}])
def test_latent_decoding_is_pipelined(changes) -> None:
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    assert op.key_for("latent_decode", latent_call(**changes)) == "pipelined"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float32}, "attends in float16 and bfloat16, not float32"),
        ({"kv_heads": 2}, "reads a cache of one head, not of 2"),
        (
            {"latent_dim": 96},
            "attends with [128, 256, 512] latent and 64 rotated channels, not 96 and 64",
        ),
        (
            {"rope_dim": 32},
            "attends with [128, 256, 512] latent and 64 rotated channels, not 512 and 32",
        ),
    ],
)
def test_latent_decoding_that_is_refused_says_why(changes, reason: str) -> None:
    call = latent_call(**changes)
    assert LatentDecodePipelinedKernel.refusal(call) == reason
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    assert op.key_for("latent_decode", call) == "portable"


def varlen_call(**changes) -> VarlenAttentionCall:
    shared = {name: value for name, value in DENSE_FACTS.items() if name != "is_decode"}
    return VarlenAttentionCall(**{**shared, **changes})


@pytest.mark.parametrize(
    "changes", [{}, {"window_left": 8}, {"head_dim": 256, "softcap": 3.0}, {"is_causal": False}]
)
def test_attention_of_packed_requests_is_pipelined(changes) -> None:
    call = varlen_call(**changes)
    assert GroupedQueryAttentionVarlenFwdOp().key_for("varlen_attention", call) == "pipelined"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rotary_dim": 64}, "does not rotate, here rotary_dim=64"),
        ({"dtype": torch.float32}, "attends in float16 and bfloat16, not float32"),
    ],
)
def test_packed_attention_that_is_refused_says_why(changes, reason: str) -> None:
    assert VarlenAttentionPipelinedKernel.refusal(varlen_call(**changes)) == reason


def test_rotation_that_is_off_does_not_divide_builds() -> None:
    identity, _ = PagedDecodeKernel.entry_for(paged_call())
    assert identity == PagedDecodeKernel.entry_for(paged_call(rope_base=5.0, max_position=7))[0]
    turned = [paged_call(rotary_dim=64, max_position=end) for end in (7, 8)]
    assert len({PagedDecodeKernel.entry_for(call)[0] for call in turned} | {identity}) == 3


@pytest.mark.parametrize(
    ("blocks", "tiles", "parts"),
    [
        (264, 64, 1),  # all run at once
        (265, 1, 1),
        (8, 1, 1),  # nothing to cut
        (4, 4096, 66),  # every slot is taken
        (1, 1 << 20, 128),
    ],
)
def test_parts_fill_the_device_and_no_more(blocks: int, tiles: int, parts: int) -> None:
    assert part_count(blocks, tiles, 264) == parts


def test_lengths_and_batches_of_attention_share_a_build() -> None:
    identity, _ = DenseAttentionPipelinedKernel.entry_for(attention_call())
    others = [attention_call(**change) for change in ({"heads": 8}, {"is_causal": False})]
    assert identity == DenseAttentionPipelinedKernel.entry_for(attention_call(window_right=0))[0]
    assert identity not in [DenseAttentionPipelinedKernel.entry_for(call)[0] for call in others]
