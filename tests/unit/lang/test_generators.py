"""Generators and predicates: contents against their definitions, domains, and one another."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest

from tileops._core.lang.limits import MAX_ITEMS
from tileops._core.lang.primitives.predicates import flat
from tileops._core.lang.primitives.sampling import generator_for
from tileops.manifest import primitives as p

RANDOM = random.Random(11)
LENGTHS = [[RANDOM.randint(0, 6) for _ in range(RANDOM.randint(0, 5))] for _ in range(40)]
FILLED = [[n + 1 for n in L] for L in LENGTHS if L]


def shape_of(values):
    """The shape of nested lists without empty axes."""
    shape = []
    while isinstance(values, list):
        shape.append(len(values))
        values = values[0]
    return tuple(shape)


def test_running_sums():
    for L in LENGTHS:
        n = len(L)
        sums = [sum(L[:i]) for i in range(n + 1)]
        assert p.as_tensor(L) == ((n,), L)
        assert p.prefix_sum(L) == ((n + 1,), sums)
        assert p.prefix_offsets(sums, sum(L))
        if L:
            assert p.exclusive_prefix_sum(L) == ((n,), sums[:-1])
            assert p.exclusive_prefix_of(p.exclusive_prefix_sum(L).values, L)
            padded = [-(-(k + 1) // 4) * 4 for k in L]
            starts = [sum(padded[:i]) for i in range(n)]
            assert p.padded_exclusive_prefix_sum(L, 4) == ((n,), starts)


def test_chunks():
    for L, c in itertools.product(LENGTHS, (1, 2, 5)):
        counts = [-(-n // c) for n in L]
        rows = [[i, j] for i, count in enumerate(counts) for j in range(count)]
        assert p.chunk_indices(L, c) == ((sum(counts), 2), rows)
        offsets = p.prefix_sum(L).values
        assert p.chunk_offsets_of(p.chunk_offsets(L, c).values, offsets, c)
        assert p.chunk_offsets(L, c).shape == (len(L) + 1,)


def test_tokens():
    for L in FILLED:
        rows = [[i, j] for i, n in enumerate(L) for j in range(n)]
        assert p.token_indices(L) == ((sum(L), 2), rows)
        assert p.packed_positions(L) == ((sum(L),), [j for _, j in rows])
        assert p.indices_within(rows, p.prefix_sum(L).values)


def test_key_windows():
    for L in LENGTHS:
        total = sum(L)
        segment_starts = [sum(L[:i]) for i, n in enumerate(L) for _ in range(n)]
        for first in range(total + 1):
            n = RANDOM.randint(0, total - first)
            starts = segment_starts[first : first + n]
            assert p.key_windows(L, first, n, "start") == ((n,), starts)
            ends = [first + k + 1 for k in range(n)]
            assert p.key_windows(L, first, n, "end") == ((n,), ends)


def test_full():
    assert p.full((2, 3), 7) == ((2, 3), [[7, 7, 7], [7, 7, 7]])
    assert p.full((0,), 7) == ((0,), [])
    assert p.full((), 7) == ((), 7)
    values = p.full((2, 2), 0).values
    values[0][0] = 1
    assert values == [[1, 0], [0, 0]]


def rng():
    return random.Random(5)


def test_paged_block_table():
    for batch, width, pool in ((0, 3, 3), (4, 3, 12), (4, 3, 40), (4, 3, 5)):
        shape, values = p.paged_block_table(batch, width, pool, rng=rng())
        assert shape == (batch, width)
        assert len(values) == batch
        assert all(len(set(row)) == width for row in values)
        assert p.in_range(values, 0, pool)
        if pool >= batch * width:
            assert len(set(flat(values))) == batch * width


def test_random_ids():
    shape, values = p.topk_ids(5, 3, 4, rng=rng())
    assert shape == shape_of(values) == (5, 3)
    assert all(len(set(row)) == 3 for row in values)
    assert p.in_range(values, 0, 4)
    assert p.topk_ids(0, 1, 1, rng=rng()) == ((0, 1), [])
    shape, values = p.sample_indices(6, 6, rng=rng())
    assert sorted(values) == list(range(6))
    assert p.sample_indices(0, 0, rng=rng()) == ((0,), [])
    shape, values = p.nsa_block_counts(30, 2, 3, rng=rng())
    assert shape == shape_of(values) == (30, 2)
    assert {*flat(values)} == {1, 2, 3}


def check_ascending(row, seen, filler):
    chosen = [item for item in row if item != filler]
    assert len(chosen) == min(len(row), seen)
    assert chosen == sorted(set(chosen))
    assert all(0 <= item < seen for item in chosen)
    assert row == chosen + [filler] * (len(row) - len(chosen))


def test_nsa_block_indices():
    for L in FILLED[:12]:
        for block, selected in ((1, 2), (2, 3), (4, 1)):
            shape, values = p.nsa_block_indices(L, block, selected, 2, rng=rng())
            assert shape == shape_of(values) == (sum(L), 2, selected)
            places = [j for n in L for j in range(n)]
            for j, heads in zip(places, values, strict=True):
                for row in heads:
                    check_ascending(row, max(-(-j // block), 1), sum(L))


def test_causal_topk_indices():
    for start, stride in ((0, 1), (3, 1), (5, 4)):
        shape, values = p.causal_topk_indices(2, 9, 1, 4, 7, start, stride, rng=rng())
        assert shape == shape_of(values) == (2, 9, 1, 4)
        for batch in values:
            for s, heads in enumerate(batch):
                seen = min(max(1, (start + s) // stride), 7)
                check_ascending(heads[0], seen, 7)


def test_random_contents_depend_on_the_owner_alone():
    def draw(owner):
        return p.topk_ids(4, 3, 100, rng=generator_for(owner)).values

    assert draw("Op:a") == draw("Op:a")
    assert draw("Op:a") != draw("Op:b")


def test_large_contents_are_made_quickly():
    shape, values = p.causal_topk_indices(1, 256, 1, 512, 4096, 0, 1, rng=rng())
    assert shape == (1, 256, 1, 512)
    assert len(values[0]) == 256


DOMAINS = {
    "as_tensor": [(([-1],), "as_tensor needs lengths of at least 0, got -1 at position 0")],
    "prefix_sum": [(([2, -1],), "got -1 at position 1")],
    "exclusive_prefix_sum": [
        (([],), "exclusive_prefix_sum needs at least one length, got none"),
        (([-1],), "got -1"),
    ],
    "padded_exclusive_prefix_sum": [
        (([1], 0), "needs pad > 0, got pad=0"),
        (([], 1), "at least one length"),
        (([-1], 1), "got -1"),
    ],
    "chunk_indices": [
        (([1], 0), "needs c > 0, got c=0"),
        (([-1], 1), "got -1"),
        (([MAX_ITEMS], 1), f"makes at most {MAX_ITEMS} items"),
    ],
    "chunk_offsets": [(([1], 0), "needs c > 0, got c=0"), (([-1], 1), "got -1")],
    "token_indices": [
        (([],), "at least one length"),
        (([0],), "token_indices needs lengths of at least 1, got 0"),
        (([MAX_ITEMS],), "makes at most"),
    ],
    "packed_positions": [
        (([],), "at least one length"),
        (([0],), "got 0"),
        (([MAX_ITEMS + 1],), "makes at most"),
    ],
    "key_windows": [
        (([3], -1, 1, "end"), "needs first >= 0, got first=-1"),
        (([3], 0, -1, "end"), "needs n >= 0, got n=-1"),
        (([3], 2, 2, "start"), "needs first [+] n <= 3, the sum of the lengths, got first=2, n=2"),
        (([-1], 0, 0, "end"), "got -1"),
        (([MAX_ITEMS + 1], 0, MAX_ITEMS + 1, "end"), "makes at most"),
    ],
    "full": [
        (((2, -1), 0), "needs size >= 0, got size=-1"),
        (((MAX_ITEMS, 2), 0), "makes at most"),
        (((1,) * 65, 0), "full makes at most 64 axes"),
        (((0, 10**9), 0), "makes at most"),
    ],
    "paged_block_table": [
        ((-1, 1, 1), "needs batch >= 0, got batch=-1"),
        ((1, 0, 1), "needs width > 0, got width=0"),
        ((1, 2, 1), "needs width <= pool, got width=2, pool=1"),
        ((MAX_ITEMS, 2, 2), "makes at most"),
    ],
    "topk_ids": [
        ((-1, 1, 1), "needs rows >= 0, got rows=-1"),
        ((1, 0, 1), "needs k > 0, got k=0"),
        ((1, 2, 1), "needs k <= experts, got k=2, experts=1"),
        ((MAX_ITEMS, 2, 2), "makes at most"),
    ],
    "sample_indices": [
        ((-1, 1), "needs n >= 0, got n=-1"),
        ((2, 1), "needs n <= hi, got n=2, hi=1"),
        ((MAX_ITEMS + 1, 10**9), "makes at most"),
    ],
    "nsa_block_counts": [
        ((0, 1, 1), "needs tokens > 0, got tokens=0"),
        ((1, 0, 1), "needs heads > 0, got heads=0"),
        ((1, 1, 0), "needs selected > 0, got selected=0"),
        ((MAX_ITEMS, 2, 1), "makes at most"),
    ],
    "nsa_block_indices": [
        (([1], 0, 1, 1), "needs block > 0, got block=0"),
        (([1], 1, 0, 1), "needs selected > 0, got selected=0"),
        (([1], 1, 1, 0), "needs heads > 0, got heads=0"),
        (([], 1, 1, 1), "at least one length"),
        (([0], 1, 1, 1), "got 0"),
        (([MAX_ITEMS], 1, 2, 1), "makes at most"),
    ],
    "causal_topk_indices": [
        ((0, 1, 1, 1, 1, 0, 1), "needs batch > 0, got batch=0"),
        ((1, 1, 1, 1, 0, 0, 1), "needs keys > 0, got keys=0"),
        ((1, 1, 1, 1, 1, 0, 0), "needs stride > 0, got stride=0"),
        ((1, 1, 1, 1, 1, -1, 1), "needs start >= 0, got start=-1"),
        ((1, MAX_ITEMS, 1, 2, 1, 0, 1), "makes at most"),
    ],
}
RANDOM_NAMES = {
    "paged_block_table", "topk_ids", "sample_indices", "nsa_block_counts", "nsa_block_indices",
    "causal_topk_indices",
}  # fmt: skip
CASES = [(name, *case) for name, cases in DOMAINS.items() for case in cases]


@pytest.mark.parametrize(("name", "arguments", "message"), CASES)
def test_domain(name, arguments, message):
    extra = {"rng": rng()} if name in RANDOM_NAMES else {}
    with pytest.raises(ValueError, match=message):
        getattr(p, name)(*arguments, **extra)


# Predicates


def test_prefix_offsets():
    assert p.prefix_offsets([0], 0)
    assert p.prefix_offsets([0, 2, 2, 5], 5)
    assert not p.prefix_offsets([], 0)
    assert not p.prefix_offsets([1, 5], 5)
    assert not p.prefix_offsets([0, 4], 5)
    assert not p.prefix_offsets([0, 3, 2, 5], 5)


def test_other_predicates():
    assert p.max_segment([0, 2, 5], 3)
    assert not p.max_segment([0, 2, 5], 2)
    assert p.max_segment([], 0)
    assert p.in_range([[0, 1], [2, 3]], 0, 4)
    assert p.in_range([0, 3], 0, 4)
    assert p.in_range(3 * [[]], 0, 0)
    assert not p.in_range([[0, 4]], 0, 4)
    assert not p.in_range([-1], 0, 4)
    assert p.sums_to([1, 2], 3)
    assert not p.sums_to([1, 2], 4)
    assert p.exclusive_prefix_of([0, 2], [2, 3])
    assert not p.exclusive_prefix_of([0, 2, 5], [2, 3])
    assert not p.exclusive_prefix_of([0, 3], [2, 3])
    assert p.chunk_offsets_of([0, 2, 3], [0, 3, 4], 2)
    assert not p.chunk_offsets_of([0, 2], [0, 3, 4], 2)
    assert not p.chunk_offsets_of([0, 2, 4], [0, 3, 4], 2)
    with pytest.raises(ValueError, match="chunk_offsets_of needs c > 0, got c=0"):
        p.chunk_offsets_of([0], [0], 0)
    assert p.indices_within([[0, 1], [1, 0]], [0, 2, 3])
    assert not p.indices_within([[0, 2]], [0, 2, 3])
    assert not p.indices_within([[2, 0]], [0, 2, 3])
    assert not p.indices_within([[0, -1]], [0, 2, 3])
    assert not p.indices_within([[-1, 0]], [0, 2, 3])
    assert p.attn.paged_fits([3, 4], [0, 1, 3], 6)
    assert not p.attn.paged_fits([3, 5], [0, 1, 3], 6)
    assert not p.attn.paged_fits([3], [0, 1, 3], 6)


# Grouped layouts


def masked(max_m):
    return SimpleNamespace(kind="masked", max_m=max_m)


def contiguous(packing, metadata_kind, alignment):
    return SimpleNamespace(
        kind="contiguous", packing=packing, metadata_kind=metadata_kind, alignment=alignment
    )


def metadata(layout, rows, experts):
    return p.moe.layout_metadata(layout, rows, experts)


LAYOUTS = [
    masked(5),
    *(contiguous("tight", kind, 1) for kind in ("per_row", "physical_psum")),
    *(contiguous("aligned", kind, a) for kind in ("per_row", "physical_psum") for a in (2, 4, 8)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_layout_metadata_is_valid(layout):
    for experts in range(1, 6):
        unit = getattr(layout, "alignment", 1)
        sizes = [experts * 5] if layout.kind == "masked" else [unit * n for n in range(9)]
        for rows in sizes:
            shape, values = metadata(layout, rows, experts)
            per_row = getattr(layout, "metadata_kind", "") == "per_row"
            assert shape == (rows if per_row else experts,)
            assert len(values) == shape[0]
            assert p.moe.layout_valid(values, layout, rows, experts)


def test_layout_metadata_values():
    assert metadata(masked(5), 15, 3).values == [5, 2, 5]
    assert metadata(contiguous("tight", "physical_psum", 1), 7, 3).values == [3, 5, 7]
    assert metadata(contiguous("tight", "per_row", 1), 4, 3).values == [0, 0, 1, 2]
    ends = metadata(contiguous("aligned", "physical_psum", 4), 12, 4).values
    assert ends == [2, 6, 10, 12]
    assert metadata(contiguous("aligned", "per_row", 2), 6, 2).values == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("layout", "rows", "experts", "message"),
    [
        (masked(5), 5, 0, "moe.layout_metadata needs experts > 0, got experts=0"),
        (masked(5), -1, 1, "moe.layout_metadata needs rows >= 0, got rows=-1"),
        (masked(5), 6, 1, "needs rows = experts [*] 5, got rows=6, experts=1"),
        (contiguous("aligned", "per_row", 4), 6, 1, "rows to be a multiple of 4, got rows=6"),
        (masked(1), 10**9, 10**9, "makes at most"),
    ],
)
def test_layout_metadata_domain(layout, rows, experts, message):
    with pytest.raises(ValueError, match=message):
        metadata(layout, rows, experts)


PSUM, PER_ROW = "physical_psum", "per_row"


@pytest.mark.parametrize(
    ("layout", "rows", "experts", "values", "valid"),
    [
        (masked(5), 10, 2, [5, 0], True),
        (masked(5), 10, 2, [6, 0], False),
        (masked(5), 10, 2, [-1, 0], False),
        (masked(5), 10, 2, [5], False),
        (contiguous("tight", PSUM, 1), 7, 3, [0, 7, 7], True),
        (contiguous("tight", PSUM, 1), 7, 3, [3, 2, 7], False),
        (contiguous("tight", PSUM, 1), 7, 3, [3, 5, 6], False),
        (contiguous("tight", PSUM, 1), 7, 3, [-1, 5, 7], False),
        (contiguous("tight", PSUM, 1), 7, 3, [5, 7], False),
        (contiguous("tight", PSUM, 1), 0, 0, [], True),
        (contiguous("tight", PER_ROW, 1), 4, 3, [0, 0, 2, 2], True),
        (contiguous("tight", PER_ROW, 1), 4, 3, [0, 2, 1, 2], False),
        (contiguous("tight", PER_ROW, 1), 4, 3, [0, 0, 2, 3], False),
        (contiguous("tight", PER_ROW, 1), 4, 3, [0, 0, 2], False),
        (contiguous("aligned", PSUM, 4), 12, 3, [3, 4, 12], True),
        (contiguous("aligned", PSUM, 4), 12, 3, [3, 3, 12], False),
        (contiguous("aligned", PSUM, 4), 12, 3, [3, 8, 13], False),
        (contiguous("aligned", PSUM, 4), 16, 3, [3, 8, 9], True),
        (contiguous("aligned", PSUM, 4), 16, 3, [-1, 8, 9], False),
        (contiguous("aligned", PER_ROW, 2), 6, 2, [0, 0, 1, 1, 2, 2], True),
        (contiguous("aligned", PER_ROW, 2), 6, 2, [0, 1, 1, 1, 2, 2], False),
        (contiguous("aligned", PER_ROW, 2), 6, 2, [0, 0, 1, 1, 3, 3], False),
        (contiguous("aligned", PER_ROW, 2), 6, 2, [1, 1, 0, 0, 2, 2], False),
    ],
)
def test_layout_valid(layout, rows, experts, values, valid):
    assert p.moe.layout_valid(values, layout, rows, experts) is valid


def test_layout_valid_domain():
    with pytest.raises(ValueError, match=r"moe.layout_valid needs rows >= 0, got rows=-1"):
        p.moe.layout_valid([], masked(5), -1, 0)
