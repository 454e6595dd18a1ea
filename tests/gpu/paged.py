"""Requests over pages for tests on the device, and their comparison with float64 arithmetic."""

from __future__ import annotations

import torch

from tileops.attention import GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp
from tileops.attention.reference import grouped_query_attention_prefill_paged_with_kv_cache

# Weights are rounded before they meet values of order one, and the result once more.
TOLERANCE = {
    torch.float16: {"rtol": 2.0**-9, "atol": 1e-3},
    torch.bfloat16: {"rtol": 2.0**-6, "atol": 8e-3},
}


class Pages:
    """Requests whose keys lie in pages; rows that hold nothing are NaN."""

    def __init__(self, draw, cached, new, kv_heads, width, page, dtype):
        requests, entries = len(cached), (max(cached) + max(new)) // page + 2
        count = requests * entries + 1
        order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
        self.table = order[: requests * entries].view(requests, entries).int().cuda()
        self.pages = [
            torch.full((count * page, kv_heads, width), torch.nan, dtype=dtype, device="cuda")
            for _ in "kv"
        ]
        for request, length in enumerate(cached):
            place = torch.arange(length, device="cuda")
            row = self.table[request].long()[place // page] * page + place % page
            for part in self.pages:
                part[row] = draw(length, kv_heads, width, dtype=dtype)
        self.one = torch.ones(1, device="cuda")
        self.starts = torch.tensor([0, *new]).cumsum(0).int().cuda()
        self.cached = torch.tensor(cached).int().cuda()

    def arguments(self, q, k, v, pages):
        return q, k, v, *pages, self.one, self.one, self.starts, self.cached, self.table


def check_paged(draw, cached, new, heads, kv_heads, width, page, dtype, kernel, serving, **params):
    """Run and compare result and pages with float64 arithmetic on the same inputs."""
    held = Pages(draw, cached, new, kv_heads, width, page, dtype)
    rows = [draw(sum(new), count, width, dtype=dtype) for count in (heads, kv_heads, kv_heads)]
    params = {"page_size": page, "max_seqlen_q": max(new), **params}
    wide = [part.double().cpu() for part in held.pages]
    exact = grouped_query_attention_prefill_paged_with_kv_cache(
        *(part.double().cpu() for part in rows),
        *wide,
        *(part.cpu() for part in held.arguments(None, None, None, ())[3:]),
        **params,
    )
    op = GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(**params)
    out = op(*held.arguments(*rows, held.pages))
    torch.testing.assert_close(out.double().cpu(), exact, **TOLERANCE[dtype])
    for part, expected in zip(held.pages, wide, strict=True):
        limits = TOLERANCE[dtype]
        torch.testing.assert_close(part.double().cpu(), expected, equal_nan=True, **limits)
    assert serving(op, "paged_prefill") == {kernel}
