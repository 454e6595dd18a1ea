"""The built-in functions of spec expressions, generators and predicates included.

A member that serves one family stands in the namespace of its prefix: `pool.out`. An argument
outside its domain raises `ValueError`.
"""

from __future__ import annotations

from tileops._core.lang.primitives import attn, conv, mhc, moe, pool
from tileops._core.lang.primitives.axes import per_axis, reduced, unique_axes, valid_axes
from tileops._core.lang.primitives.contents import Contents
from tileops._core.lang.primitives.generators import (
    as_tensor,
    chunk_indices,
    chunk_offsets,
    exclusive_prefix_sum,
    full,
    key_windows,
    packed_positions,
    padded_exclusive_prefix_sum,
    prefix_sum,
    token_indices,
)
from tileops._core.lang.primitives.lists import balanced_sizes, repeat
from tileops._core.lang.primitives.predicates import (
    chunk_offsets_of,
    exclusive_prefix_of,
    in_range,
    indices_within,
    max_segment,
    prefix_offsets,
    sums_to,
)
from tileops._core.lang.primitives.sampling import (
    WORKLOAD_SEED,
    causal_topk_indices,
    nsa_block_counts,
    nsa_block_indices,
    paged_block_table,
    sample_indices,
    topk_ids,
)
from tileops._core.lang.primitives.scalars import (
    category,
    coalesce_dtype,
    promote_int_to_float,
    representable,
)
from tileops._core.lang.primitives.sizes import (
    all,
    broadcast,
    ceil_div,
    len,
    max,
    min,
    prod,
    sum,
)

__all__ = [
    "WORKLOAD_SEED",
    "Contents",
    "all",
    "as_tensor",
    "attn",
    "balanced_sizes",
    "broadcast",
    "category",
    "causal_topk_indices",
    "ceil_div",
    "chunk_indices",
    "chunk_offsets",
    "chunk_offsets_of",
    "coalesce_dtype",
    "conv",
    "exclusive_prefix_of",
    "exclusive_prefix_sum",
    "full",
    "in_range",
    "indices_within",
    "key_windows",
    "len",
    "max",
    "max_segment",
    "mhc",
    "min",
    "moe",
    "nsa_block_counts",
    "nsa_block_indices",
    "packed_positions",
    "padded_exclusive_prefix_sum",
    "paged_block_table",
    "per_axis",
    "pool",
    "prefix_offsets",
    "prefix_sum",
    "prod",
    "promote_int_to_float",
    "reduced",
    "repeat",
    "representable",
    "sample_indices",
    "sum",
    "sums_to",
    "token_indices",
    "topk_ids",
    "unique_axes",
    "valid_axes",
]
