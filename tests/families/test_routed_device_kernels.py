"""Which calls of routed layers, recurrences and streams device programs serve; why they refuse."""

from __future__ import annotations

import pytest
import torch

from tileops.linear_attention import (
    DeltaNetFwdOp,
    DeltaNetInferenceFwdOp,
    GatedDeltaNetFwdOp,
    GLADecodeFwdOp,
    KimiDeltaAttentionFwdOp,
)
from tileops.linear_attention.kernels import (
    DeltaChunksCall,
    StateRecurrenceCall,
    StateRecurrenceChunksKernel,
    StateRecurrenceTokensKernel,
)
from tileops.moe import (
    ContiguousLayoutSpec,
    FusedTopKFwdOp,
    IndexedExpertMLPFwdOp,
    MoEPermuteAlignFwdOp,
    MoEPostPermuteFwdOp,
    MoEPrePermuteFwdOp,
)
from tileops.moe.kernels import (
    FusedTopKCall,
    IndexedExpertMLPCall,
    MoEPermuteAlignCall,
    MoEPostPermuteCall,
    MoEPrePermuteCall,
)
from tileops.sequence_modeling import MHCPostFwdOp, MHCPreFwdOp
from tileops.sequence_modeling.kernels import MHCPostCall, MHCPreCall

HALF = torch.bfloat16
TIGHT = ContiguousLayoutSpec.tight_physical_psum()
DEVICE = {"arch": 90, "sm_count": 132}
PITCH = "copies rows of whole multiples of 16 bytes, not 60 elements"
RECURRENCE = {
    "heads": 2,
    "value_heads": 4,
    "key_dim": 128,
    "value_dim": 128,
    "scale": 0.1,
    "gate": "head",
    "is_raw_gate": False,
    "lower_bound": None,
    "has_delta_rule": True,
    "beta_range": 0,
    "has_unit_keys": False,
    "has_gate_bias": False,
    "has_state": True,
    "is_v_first": False,
    "is_packed": False,
    "dtype": HALF,
    "state_dtype": torch.float32,
}


def pre(experts=256, hidden=64):
    return MoEPrePermuteCall(TIGHT, experts, 8, 64, hidden, HALF, **DEVICE)


def post(top_k=8, hidden=64):
    return MoEPostPermuteCall(top_k, hidden, 1.0, HALF, HALF, **DEVICE)


def align(experts=256, routes=8):
    return MoEPermuteAlignCall(experts, 64, routes, **DEVICE)


def best(experts=256, top_k=8):
    return FusedTopKCall(experts, top_k, "softmax", True, False, torch.float32, **DEVICE)


def indexed(experts=256, hidden=128, dtype=HALF):
    return IndexedExpertMLPCall(experts, 8, 64, hidden, 256, 1.0, dtype, **DEVICE)


def recurrence(**changes):
    return StateRecurrenceCall(**{**RECURRENCE, **changes}, **DEVICE)


def chunked(chunk=64, size=64, width=64, dtype=HALF):
    return DeltaChunksCall(size, width, chunk, dtype, **DEVICE)


def mix(rows=4, n=4):
    return MHCPreCall(n, 64, 1.0, 1.0, 1.0, 1, 0.02, rows, **DEVICE)


PRE = MoEPrePermuteFwdOp(TIGHT, 256), "pre_permute"
POST = MoEPostPermuteFwdOp(TIGHT), "post_permute"
ALIGN = MoEPermuteAlignFwdOp(256), "permute_align"
BEST = FusedTopKFwdOp(8), "top_k"
INDEXED = IndexedExpertMLPFwdOp(), "indexed_expert_mlp"
DELTA = GatedDeltaNetFwdOp(), "state_recurrence"
UNDECAYED = DeltaNetInferenceFwdOp(), "state_recurrence"
CHUNKED = DeltaNetFwdOp(), "delta_chunks"
CHANNELS = KimiDeltaAttentionFwdOp(), "state_recurrence"
GATED = GLADecodeFwdOp(), "state_recurrence"
MIX = MHCPreFwdOp(1.0, 1.0, 1.0, 1), "mhc_pre"
ADD = MHCPostFwdOp(), "mhc_post"

REFUSED = [
    (*PRE, pre(1025), "counts the routes of at most 1024 experts, not of 1025"),
    (*PRE, pre(hidden=60), PITCH),
    (*POST, post(0), "has nothing to add up without routes"),
    (*POST, post(hidden=60), PITCH),
    (*ALIGN, align(1024), "counts the routes of fewer than 1024 experts, not of 1024"),
    (*ALIGN, align(routes=0), "has nothing to group without routes"),
    (*BEST, best(1025), "holds the scores of at most 1024 experts, not of 1025"),
    (*BEST, best(top_k=33), "selects at most 32 experts of a token, not 33"),
    (*INDEXED, indexed(1025), "counts the routes of at most 1024 experts, not of 1025"),
    (*INDEXED, indexed(dtype=torch.float32), "multiplies float16 and bfloat16, not float32"),
    (
        *CHANNELS,
        recurrence(dtype=torch.float64),
        "takes float16, bfloat16 and float32, not float64",
    ),
    (*CHANNELS, recurrence(key_dim=72), "shares channels of 32, of which 72 is no multiple"),
    (*CHANNELS, recurrence(value_dim=48), "shares channels of 32, of which 48 is no multiple"),
    (*CHUNKED, chunked(32), "takes 64 tokens at a time, not 32"),
    (*CHUNKED, chunked(dtype=torch.float32), "multiplies float16 and bfloat16, not float32"),
    (*CHUNKED, chunked(size=256), "holds keys of 64 or 128 channels, not 256"),
    (*CHUNKED, chunked(width=192), "keeps products of at most 128 channels, not 192"),
    (*MIX, mix(65), "mixes at most 64 rows, not 65"),
    (*MIX, mix(n=5), "mixes at most 4 copies, not 5"),
    (*ADD, MHCPostCall(17, 64, **DEVICE), "adds to at most 16 copies, not 17"),
    (*GATED, recurrence(key_dim=288), "holds keys of at most 256 channels, not 288"),
]
SERVED = [
    (*PRE, pre(1024), "counting"),
    (*POST, post(), "rows"),
    (*ALIGN, align(1023), "counting"),
    (*BEST, best(1024, 32), "warp"),
    (*INDEXED, indexed(), "grouped"),
    (*DELTA, recurrence(), "tokens"),
    (*DELTA, recurrence(is_long=True), "chunks"),
    (*UNDECAYED, recurrence(is_long=True, gate="none"), "chunks"),
    (*CHUNKED, chunked(), "chunks"),
    (*CHANNELS, recurrence(is_long=True, gate="channel"), "tokens"),
    (*MIX, mix(), "few_rows"),
    (*ADD, MHCPostCall(4, 64, **DEVICE), "pointwise"),
    (*GATED, recurrence(gate="channel", has_delta_rule=False), "tokens"),
]


@pytest.mark.parametrize(("op", "interface", "call", "reason"), REFUSED)
def test_calls_that_are_refused_say_why(op, interface, call, reason) -> None:
    first = next(iter(op.kernel_types.values()))
    assert first.refusal(call) == reason
    assert op.key_for(interface, call) == "portable"


@pytest.mark.parametrize(("op", "interface", "call", "key"), SERVED)
def test_calls_on_hopper_are_served(op, interface, call, key) -> None:
    assert op.key_for(interface, call) == key


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float32}, "multiplies float16 and bfloat16, not float32"),
        ({"state_dtype": HALF}, "keeps states in float32, not bfloat16"),
        ({"gate": "channel"}, "solves delta rules whose heads decay as a whole or not at all"),
        (
            {"has_delta_rule": False},
            "solves delta rules whose heads decay as a whole or not at all",
        ),
        ({"is_long": False}, "pays for more than 64 tokens only"),
        ({"key_dim": 96}, "holds keys of 64 or 128 channels, not 96"),
        ({"value_dim": 96}, "shares values of 64, of which 96 is no multiple"),
    ],
)
def test_what_is_not_taken_in_chunks_goes_token_by_token(changes, reason) -> None:
    call = recurrence(**{"is_long": True, **changes})
    assert StateRecurrenceChunksKernel.refusal(call) == reason
    assert GatedDeltaNetFwdOp().key_for("state_recurrence", call) == "tokens"


def test_flags_and_dtypes_of_states_have_programs_of_their_own() -> None:
    changes = {}, {"is_packed": True}, {"beta_range": 2}, {"state_dtype": HALF}
    builds = [StateRecurrenceTokensKernel.entry_for(recurrence(**change))[0] for change in changes]
    assert len(set(builds)) == len(changes)
