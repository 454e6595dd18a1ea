"""Recurrences over a matrix state: gates and flags, packed and empty sequences, tokens, chunks."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from emulation.cases.case import Case
from tileops.linear_attention.kernels import (
    CHUNK,
    DeltaChunksKernel,
    StateRecurrenceChunksKernel,
    StateRecurrenceTokensKernel,
)
from tileops.linear_attention.reference import (
    delta_net,
    delta_net_inference,
    gated_delta_net,
    gla_inference,
    kimi_delta_attention,
)

_PLAIN: dict[str, Any] = {
    "gate": "head",
    "is_raw_gate": False,
    "lower_bound": None,
    "has_delta_rule": True,
    "beta_range": 0,
    "has_unit_keys": False,
    "is_v_first": False,
}
_SCALE = 0.125
_RAW_AND_FLAGS = {
    "use_qk_l2norm_in_kernel": True,
    "use_beta_sigmoid_in_kernel": True,
    "allow_neg_eigval": True,
    "use_gate_in_kernel": True,
}
_FLAGGED = {"is_raw_gate": True, "beta_range": 2, "has_unit_keys": True}


def _case(
    name,
    reference,
    shape,
    lengths=None,
    dtype=torch.bfloat16,
    state_dtype=torch.float32,
    has_state=True,
    has_bias=True,
    params=None,
    kernel=StateRecurrenceTokensKernel,
    absolute=2e-4,
    spoiled=slice(0),
    forgets=slice(0),
    **flags,
):
    batch, tokens, heads, value_heads, key_dim, value_dim = shape
    how = {**_PLAIN, **flags}
    facts = {
        "heads": heads,
        "value_heads": value_heads,
        "key_dim": key_dim,
        "value_dim": value_dim,
        "scale": _SCALE,
        **how,
        "has_gate_bias": has_bias and how["is_raw_gate"],
        "has_state": has_state,
        "is_packed": lengths is not None,
    }

    def inputs(generator: torch.Generator) -> tuple[Tensor | None, ...]:
        def draw(*extents: int) -> Tensor:
            return torch.randn(batch, tokens, *extents, generator=generator)

        q, k = (draw(heads, key_dim).to(dtype) / key_dim**0.5 for _ in range(2))
        v = draw(value_heads, value_dim).to(dtype)
        k[:, spoiled] = v[:, spoiled] = torch.nan
        width = (key_dim,) if how["gate"] == "channel" else ()
        g = draw(value_heads, *width)
        g = (g if how["is_raw_gate"] else -g.abs()).to(dtype)
        g[:, forgets] = -torch.inf
        g = None if how["gate"] == "none" else g
        beta = draw(value_heads).sigmoid().to(dtype) if how["has_delta_rule"] else None
        count = batch if lengths is None else len(lengths)
        state_shape = (key_dim, value_dim)[:: -1 if how["is_v_first"] else 1]
        state = torch.randn(count, value_heads, *state_shape, generator=generator).to(state_dtype)
        starts = None
        if lengths is not None:
            starts = torch.tensor([0, *lengths]).cumsum(0)
        rate = bias = None
        if how["is_raw_gate"]:
            rate = torch.randn(value_heads, generator=generator)
            bias = torch.randn(value_heads * (width or (1,))[0], generator=generator)
        bias = bias if has_bias else None
        return q, k, v, g, beta, state if has_state else None, starts, None, rate, bias

    def expected(q, k, v, g, beta, state, starts, _, rate, bias) -> Any:
        starts = None if starts is None else starts.long()
        packed = (state, starts, None)
        if reference is gla_inference:
            return gla_inference(q, k, g, v, *packed, scale=_SCALE)
        if reference is delta_net_inference:
            return delta_net_inference(q, k, v, beta, *packed, scale=_SCALE, **(params or {}))
        return reference(q, k, v, g, beta, *packed, rate, bias, scale=_SCALE, **(params or {}))

    constants = dtype, state_dtype, facts
    return Case(name, kernel, constants, inputs, expected, absolute=absolute)


def _delta_case(name, batch, heads, length, key_dim, value_dim, dtype):
    def inputs(generator: torch.Generator) -> tuple[Tensor, ...]:
        def draw(*extents: int) -> Tensor:
            return torch.randn(batch, heads, length, *extents, generator=generator)

        q, k = (draw(key_dim) / key_dim**0.5 for _ in range(2))
        return tuple(x.to(dtype) for x in (q, k, draw(value_dim), draw().sigmoid()))

    expected = partial(delta_net, chunk_size=CHUNK)
    constants = key_dim, value_dim, dtype
    absolute = 3e-2, *[2e-4] * 5  # what is read has rounded factors
    return Case(name, DeltaChunksKernel, constants, inputs, expected, absolute=absolute)


_chunks = partial(_case, kernel=StateRecurrenceChunksKernel, absolute=(4e-3, 2e-4))


CASES = (
    _case("one token", gated_delta_net, (2, 1, 2, 4, 64, 64)),
    _case("no state", gated_delta_net, (1, 7, 1, 1, 32, 32), has_state=False, dtype=torch.float32),
    _case(
        "packed, raw gate, every flag",
        gated_delta_net,
        (1, 9, 1, 2, 64, 32),
        [3, 0, 5, 1],
        params={**_RAW_AND_FLAGS, "state_v_first": True},
        is_v_first=True,
        **_FLAGGED,
    ),
    _case(
        "channels decay, raw gate",
        kimi_delta_attention,
        (2, 3, 1, 2, 64, 32),
        params=_RAW_AND_FLAGS,
        gate="channel",
        **_FLAGGED,
    ),
    _case(
        "channels decay, bounded gate without a bias",
        kimi_delta_attention,
        (1, 4, 2, 2, 32, 32),
        has_bias=False,
        params={"use_gate_in_kernel": True, "lower_bound": -2.0},
        gate="channel",
        is_raw_gate=True,
        lower_bound=-2.0,
    ),
    _case(
        "no delta rule",
        gla_inference,
        (1, 5, 1, 1, 96, 32),
        dtype=torch.float16,
        gate="channel",
        has_delta_rule=False,
    ),
    _case(
        "rounded states, wide keys",
        gated_delta_net,
        (2, 1, 1, 1, 256, 32),
        state_dtype=torch.bfloat16,
    ),
    _case(
        "rounded states by columns, odd keys",
        gated_delta_net,
        (1, 2, 1, 1, 160, 64),
        dtype=torch.float16,
        state_dtype=torch.float16,
        params={"state_v_first": True},
        is_v_first=True,
    ),
    _chunks("chunks", gated_delta_net, (1, 128, 1, 1, 64, 64)),
    _chunks(
        "chunks, a tail, shared keys",
        gated_delta_net,
        (2, 150, 1, 2, 64, 128),
        forgets=slice(70, 73),
    ),
    _chunks("chunks, no state", gated_delta_net, (1, 65, 2, 2, 128, 64), has_state=False),
    _chunks(
        "chunks, raw gate, every flag",
        gated_delta_net,
        (1, 97, 1, 1, 128, 128),
        dtype=torch.float16,
        params={**_RAW_AND_FLAGS, "state_v_first": True},
        is_v_first=True,
        **_FLAGGED,
    ),
    _chunks(
        "chunks that do not decay",
        delta_net_inference,
        (1, 200, 1, 1, 64, 64),
        dtype=torch.float16,
        params={"use_qk_l2norm_in_kernel": True},
        gate="none",
        has_unit_keys=True,
    ),
    _chunks(
        "chunks, packed",
        gated_delta_net,
        (1, 266, 1, 2, 64, 64),
        [3, 0, 65, 64, 0, 133, 1],
        spoiled=slice(68, 132),
    ),
    _chunks(
        "chunks, packed, no state, every flag",
        gated_delta_net,
        (1, 130, 1, 1, 128, 64),
        [0, 129, 1],
        has_state=False,
        params={**_RAW_AND_FLAGS, "state_v_first": True},
        is_v_first=True,
        **_FLAGGED,
    ),
    _chunks("a chunk that one token begins", gated_delta_net, (1, 1, 1, 1, 64, 64)),
    _delta_case("one chunk", 2, 1, 64, 64, 64, torch.float16),
    _delta_case("wide values", 1, 2, 192, 64, 128, torch.bfloat16),
    _delta_case("wide keys", 1, 1, 128, 128, 64, torch.bfloat16),
)
