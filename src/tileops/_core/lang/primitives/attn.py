"""Facts about the metadata of attention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def paged_fits(x: Sequence[int], cu: Sequence[int], cap: int) -> bool:
    """Each length in `x` plus the new items that `cu` bounds stay within `cap`.

    `cu` holds running sums and has one item more than `x`.
    """
    added = [end - start for start, end in pairwise(cu)]
    return len(cu) == len(x) + 1 and all(a + b <= cap for a, b in zip(x, added, strict=True))
