"""Generators of random metadata.

Each draws from the `random.Random` it is given and from nothing else, so that a row gives the
same values on every machine and in any order of rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tileops._core.lang.primitives.contents import Contents, check_size, vector
from tileops._core.lang.primitives.domain import lengths, non_negative, positive
from tileops._core.lang.primitives.sizes import ceil_div
from tileops._core.lang.values import shown

WORKLOAD_SEED = 20_260_731
"""Seeds all random data of workload rows; another value changes every one of them."""


def generator_for(owner: str) -> Random:
    """The random numbers of one tensor; `owner` is `"<op>:<tensor>"`."""
    return Random(WORKLOAD_SEED ^ zlib.crc32(owner.encode()))


def paged_block_table(batch: int, width: int, pool: int, *, rng: Random) -> Contents:
    """Page ids below `pool`, distinct within a row, and in the whole table where they suffice.

    Raises:
        ValueError: a negative batch, not 0 < width <= pool, or too many items.
    """
    non_negative("paged_block_table", batch=batch)
    positive("paged_block_table", width=width)
    _at_most("paged_block_table", "width", width, "pool", pool)
    check_size("paged_block_table", (batch, width))
    if pool < batch * width:
        return Contents((batch, width), [rng.sample(range(pool), width) for _ in range(batch)])
    pages = rng.sample(range(pool), batch * width)
    return Contents((batch, width), [pages[i * width : (i + 1) * width] for i in range(batch)])


def topk_ids(rows: int, k: int, experts: int, *, rng: Random) -> Contents:
    """`k` distinct ids below `experts` per row.

    Raises:
        ValueError: a negative number of rows, not 0 < k <= experts, or too many items.
    """
    non_negative("topk_ids", rows=rows)
    positive("topk_ids", k=k)
    _at_most("topk_ids", "k", k, "experts", experts)
    check_size("topk_ids", (rows, k))
    return Contents((rows, k), [rng.sample(range(experts), k) for _ in range(rows)])


def sample_indices(n: int, hi: int, *, rng: Random) -> Contents:
    """`n` distinct ids below `hi`.

    Raises:
        ValueError: not 0 <= n <= hi, or too many items.
    """
    non_negative("sample_indices", n=n)
    _at_most("sample_indices", "n", n, "hi", hi)
    check_size("sample_indices", (n,))
    return vector(rng.sample(range(hi), n))


def nsa_block_counts(tokens: int, heads: int, selected: int, *, rng: Random) -> Contents:
    """How many blocks each token selects per head: between 1 and `selected`.

    Raises:
        ValueError: an argument is not above 0, or too many items.
    """
    positive("nsa_block_counts", tokens=tokens, heads=heads, selected=selected)
    check_size("nsa_block_counts", (tokens, heads))
    rows = [[rng.randint(1, selected) for _ in range(heads)] for _ in range(tokens)]
    return Contents((tokens, heads), rows)


def nsa_block_indices(
    L: Sequence[int],  # noqa: N803
    block: int,
    selected: int,
    heads: int,
    *,
    rng: Random,
) -> Contents:
    """The blocks of its segment that each token selects, ascending, per head.

    Token j of a segment sees the first max(⌈j / block⌉, 1) blocks; places that cannot be filled
    hold the number of tokens.

    Raises:
        ValueError: an argument is not above 0, no lengths, one below 1, or too many items.
    """
    positive("nsa_block_indices", block=block, selected=selected, heads=heads)
    lengths("nsa_block_indices", L, at_least=1, may_be_empty=False)
    tokens = sum(L)
    check_size("nsa_block_indices", (tokens, heads, selected))
    rows = [
        [_ascending(rng, selected, max(ceil_div(j, block), 1), tokens) for _ in range(heads)]
        for n in L
        for j in range(n)
    ]
    return Contents((tokens, heads, selected), rows)


def causal_topk_indices(
    batch: int,
    rows: int,
    heads: int,
    k: int,
    keys: int,
    start: int,
    stride: int,
    *,
    rng: Random,
) -> Contents:
    """The keys that each row selects among those it sees, ascending, per head.

    Row s sees the first min(max(1, (start + s) // stride), keys) keys; places that cannot be
    filled hold `keys`.

    Raises:
        ValueError: a negative `start`, another argument that is not above 0, or too many items.
    """
    positive(
        "causal_topk_indices", batch=batch, rows=rows, heads=heads, k=k, keys=keys, stride=stride
    )
    non_negative("causal_topk_indices", start=start)
    shape = (batch, rows, heads, k)
    check_size("causal_topk_indices", shape)
    seen = [min(max(1, (start + s) // stride), keys) for s in range(rows)]
    values = [
        [[_ascending(rng, k, visible, keys) for _ in range(heads)] for visible in seen]
        for _ in range(batch)
    ]
    return Contents(shape, values)


def _ascending(rng: Random, count: int, below: int, filler: int) -> list[int]:
    """`count` ascending ids below `below`, one from each of as many equal ranges, and filler."""
    if below <= count:
        return [*range(below), *[filler] * (count - below)]
    bounds = [i * below // count for i in range(count + 1)]
    draw = rng.random
    return [low + int(draw() * (high - low)) for low, high in pairwise(bounds)]


def _at_most(callee: str, name: str, value: int, bound_name: str, bound: int) -> None:
    if value > bound:
        raise ValueError(
            f"{callee} needs {name} <= {bound_name}, "
            f"got {name}={shown(value)}, {bound_name}={shown(bound)}"
        )
