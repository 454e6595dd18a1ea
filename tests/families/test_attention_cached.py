"""Attention over batches and caches: decoding, tables, pages, float8, both ways of attending."""

from __future__ import annotations

import pytest
import torch

from tileops.attention import (
    GroupedQueryAttentionDenseFwdOp,
    GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp,
    MultiHeadLatentAttentionDecodeWithKVCacheFwdOp,
    reference,
)
from tileops.attention.kernels import PagedPrefillCall, PagedPrefillPortableKernel
from tileops.errors import SignatureError

BOUND = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
E4M3 = torch.float8_e4m3fn
NAN = {torch.float32: torch.nan, E4M3: 0x7F}


def batch(draw, rows, columns, *, size=2, heads=4, kv_heads=2, width=16, dtype=torch.float32):
    q = draw(size, rows, heads, width, dtype=dtype)
    return q, *(draw(size, columns, kv_heads, width, dtype=dtype) for _ in range(2))


def dense(*tensors, **params):
    return reference.grouped_query_attention_dense(*tensors, **params)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 5), (3, 8), (1, 1)])
@pytest.mark.parametrize(
    "params", [{}, {"is_causal": False}, {"softcap": 2.0}, {"sm_scale": 0.7}], ids=str
)
def test_batches(draw, close, dtype, rows, columns, params):
    tensors = batch(draw, rows, columns, dtype=dtype)
    close(
        GroupedQueryAttentionDenseFwdOp(**params)(*tensors),
        dense(*tensors, **params),
        BOUND[dtype],
    )


@pytest.mark.parametrize("window", [(0, 0), (2, -1), (-1, 1), (9, 9), (1, 2)], ids=str)
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("softcap", [None, 1.5])
def test_windows(draw, close, window, is_causal, softcap):
    tensors = batch(draw, 4, 7)
    params = {
        "is_causal": is_causal,
        "window_size_left": window[0],
        "window_size_right": window[1],
        "softcap": softcap,
    }
    op = GroupedQueryAttentionDenseFwdOp(**params)
    close(op(*tensors), dense(*tensors, **params), 1e-5)


def test_queries_before_the_first_key_see_nothing(draw, close):
    tensors = batch(draw, 5, 2)
    params = {"is_causal": False, "window_size_right": 0}
    out = GroupedQueryAttentionDenseFwdOp(**params)(*tensors)
    close(out, dense(*tensors, **params), 1e-5)
    assert not out[:, :3].any()
    with pytest.raises(SignatureError, match="S_q <= S_kv"):
        GroupedQueryAttentionDenseFwdOp()(*tensors)


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.parametrize("padding", [0, 3])
def test_rope(draw, close, layout, rotary_dim, padding):
    tensors = batch(draw, 3, 5)
    angles = draw(5 + padding, (rotary_dim or 16) // 2)
    params = {"pos_encoding_mode": "rope", "rotary_dim": rotary_dim, "rope_layout": layout}
    tables = angles.cos(), angles.sin()
    out = GroupedQueryAttentionDenseFwdOp(**params)(*tensors, None, None, None, *tables)
    close(out, dense(*tensors, None, None, None, *tables, **params), 1e-5)


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16])
def test_float8_batches(draw, close, out_dtype):
    tensors = batch(draw, 3, 5, dtype=E4M3)
    scales = [draw(2, 2).abs() + 0.5 for _ in range(3)]
    op = GroupedQueryAttentionDenseFwdOp(out_dtype=out_dtype)
    close(op(*tensors, *scales), dense(*tensors, *scales, out_dtype=out_dtype), 5e-2)


def test_growing_caches_share_an_entry(draw):
    op = GroupedQueryAttentionDenseFwdOp()
    for columns in range(2, 9):
        op(*batch(draw, 1, columns))
    assert len(op.built_entries("dense_attention")) == 1


@pytest.mark.parametrize(
    ("params", "scores", "keys"),
    [({}, 3 + 4 + 5, 5), ({"window_size_left": 1}, 6, 4), ({"softcap": 3.0}, 12, 5)],
    ids=str,
)
def test_roofline_of_batches(draw, params, scores, keys):
    op = GroupedQueryAttentionDenseFwdOp(**params)
    op(*batch(draw, 3, 5))
    per_score = 4 * 16 + 5 + (3 if "softcap" in params else 0)
    flops = 2 * 4 * (scores * per_score + 3 * 16)
    assert op.eval_roofline() == (flops, 4 * 16 * 2 * (2 * 3 * 4 + 2 * keys * 2))


# Latent caches


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("keys", [0, 1, 9])
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 1), (4, 2)])
def test_latent_caches(draw, close, dtype, keys, heads, kv_heads):
    tensors = (
        draw(3, heads, 24, dtype=dtype),
        draw(3, heads, 8, dtype=dtype),
        draw(3, keys, kv_heads, 24, dtype=dtype),
        draw(3, keys, kv_heads, 8, dtype=dtype),
    )
    op = MultiHeadLatentAttentionDecodeWithKVCacheFwdOp()
    expected = reference.multi_head_latent_attention_decode_with_kv_cache(*tensors)
    close(op(*tensors), expected, BOUND[dtype])
    assert op.eval_roofline()[0] == 3 * heads * (keys * (2 * 32 + 2 * 24 + 5) + 24)
    assert op.roof_key().startswith("tensor_core.")


# Pages


def pages(draw, new, cached, *, page_size=4, width=3, dtype=torch.float32, cache_dtype=None):
    """The inputs of a paged call; no two requests share a page that is written."""
    count, cache_dtype = len(new), cache_dtype or dtype
    order = torch.randperm(count * width, generator=torch.Generator().manual_seed(4)).int()
    shape = (count * width * page_size, 2, 16)
    held = [draw(*shape).to(cache_dtype) for _ in range(2)]
    offsets = torch.tensor([0, *torch.tensor(new).cumsum(0)], dtype=torch.int32)
    return (
        draw(sum(new), 4, 16, dtype=dtype),
        draw(sum(new), 2, 16, dtype=dtype),
        draw(sum(new), 2, 16, dtype=dtype),
        *held,
        torch.tensor([0.5]),
        torch.tensor([0.25]),
        offsets,
        torch.tensor(cached, dtype=torch.int32),
        order.view(count, width),
    )


def paged(tensors, **params):
    """What the reference gives and writes."""
    copies = [tensor.clone() for tensor in tensors]
    function = reference.grouped_query_attention_prefill_paged_with_kv_cache
    return function(*copies, **params), copies[3], copies[4]


LENGTHS = [
    ([3, 1, 5], [0, 7, 6]),
    ([1, 1], [11, 0]),
    ([0, 4], [5, 8]),
    ([12], [0]),
    ([2, 0], [2, 0]),
]


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("cache_dtype", [None, E4M3])
@pytest.mark.parametrize("extra", [{}, {"is_causal": False}, {"softcap": 1.5}], ids=str)
def test_pages(draw, close, dtype, lengths, cache_dtype, extra):
    tensors = pages(draw, *lengths, dtype=dtype, cache_dtype=cache_dtype)
    params = {"page_size": 4, "max_seqlen_q": 12, "cache_dtype": cache_dtype, **extra}
    out, keys, values = paged(tensors, **params)
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(**params)
    close(op(*tensors), out, 5e-2 if cache_dtype else BOUND[dtype])
    for held, wanted in ((tensors[3], keys), (tensors[4], values)):
        assert torch.equal(held.view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.parametrize("max_position", [64, 5])
def test_pages_hold_rotated_keys(draw, close, rotary_dim, max_position):
    tensors = pages(draw, *LENGTHS[0])
    params = {
        "page_size": 4,
        "max_seqlen_q": 5,
        "fuse_rope": True,
        "rotary_dim": rotary_dim,
        "max_position": max_position,
    }
    out, keys, values = paged(tensors, **params)
    close(GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(**params)(*tensors), out, 1e-5)
    close(tensors[3], keys, 1e-5)
    close(tensors[4], values)


def test_chunks_give_what_one_call_gives(draw, close):
    whole = pages(draw, [10], [0])
    params = {"page_size": 4, "max_seqlen_q": 10, "fuse_rope": True, "max_position": 16}
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(**params)
    copies = [tensor.clone() for tensor in whole]
    out = op(*copies)
    parts = []
    for start, stop in ((0, 4), (4, 5), (5, 10)):
        new = [part[start:stop] for part in whole[:3]]
        offsets = torch.tensor([0, stop - start], dtype=torch.int32)
        cached = torch.tensor([start], dtype=torch.int32)
        parts.append(op(*new, *whole[3:7], offsets, cached, whole[9]))
    close(torch.cat(parts), out, 1e-5)
    close(whole[3], copies[3], 1e-5)
    assert len(op.built_entries("paged_prefill")) == 1


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("softcap", [0.0, 1.5])
@pytest.mark.parametrize("cache_dtype", [torch.float32, E4M3])
def test_padding_gives_what_requests_one_by_one_give(
    draw, close, lengths, is_causal, softcap, cache_dtype
):
    call = PagedPrefillCall(
        4, 2, 16, 4, 12, is_causal, 0.25, softcap, 0, 1e4, 0, torch.float32, cache_dtype
    )
    kernel = PagedPrefillPortableKernel(call)
    q, *_ = tensors = pages(draw, *lengths, cache_dtype=cache_dtype)
    kernel(*tensors)
    caches = ((tensors[3], tensors[5]), (tensors[4], tensors[6]))
    offsets, cached, table = tensors[7:]
    wanted = kernel._by_request(q, caches, offsets, cached, table)
    for held, _ in caches:  # what no request names is not to be met
        used = torch.zeros(len(held), dtype=torch.bool)
        for row, new, before in zip(table, offsets.diff(), cached, strict=True):
            j = torch.arange(int(new + before))
            used[row[j // 4] * 4 + j % 4] = True
        held.view(torch.uint8 if held.dtype is E4M3 else held.dtype)[~used] = NAN[held.dtype]
    request = torch.repeat_interleave(torch.arange(len(cached)), offsets.diff())
    place = torch.arange(len(q)) - offsets[request]
    tokens = (request, place, cached[request] + place)
    found = kernel._padded(q, caches, tokens, cached + offsets.diff(), table)
    close(found.contiguous(), wanted, 1e-5)


def test_roofline_of_pages(draw):
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(4, 5)
    tensors = pages(draw, [2, 0], [3, 5])
    op(*tensors)
    scores = 4 + 5
    read = 4 * (2 * 4 * 16 + 2 * 2 * 2 * 16 + 2 * 3 * 2 * 16 + 3 + 2 + 6)
    written = 4 * (2 * 4 * 16 + 2 * 2 * 2 * 16)
    assert op.eval_roofline() == (4 * (scores * (4 * 16 + 5) + 2 * 16), read + written)
    assert op.eval_roofline_read_bytes() == read


def test_a_prefix_that_requests_share_is_read_once(draw):
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(4, 5)
    tensors = list(pages(draw, [1, 1], [4, 4]))
    apart = op(*tensors), op.eval_roofline()
    tensors[9][1, 0] = tensors[9][0, 0]
    shared = op(*tensors), op.eval_roofline()
    assert apart[1][1] - shared[1][1] == 4 * 2 * 4 * 2 * 16
    assert torch.equal(apart[0][0], shared[0][0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"fuse_rope": True}, "present\\(max_position\\)"),
        ({"rotary_dim": 4}, "present\\(rotary_dim\\)"),
        ({"cache_dtype": torch.float16}, "cache_dtype.value"),
        ({"page_size": 5}, "PT % page_size == 0"),
        ({"softcap": -1.0}, "softcap.value >= 0"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(draw, params, message):
    with pytest.raises(SignatureError, match=message):
        settings = {"page_size": 4, "max_seqlen_q": 5, **params}
        op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(**settings)
        tensors = list(pages(draw, [2], [0]))
        tensors[3:5] = (part.to(params.get("cache_dtype", torch.float32)) for part in tensors[3:5])
        op(*tensors)
