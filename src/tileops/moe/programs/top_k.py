"""The program that selects each token's experts.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import row_reduction, row_sum
from tileops._programs.vectors import F32, as_float

_I32 = "int32"
_WARP = 32
_TOKENS = 4  # of a block, a warp for each
_TAKEN = -(1 << 31)  # below the rank of every number


@dataclass(frozen=True)
class Selection:
    """How experts are selected and weighted.

    Args:
        dtype: element type of the logits.
        experts: number of experts; a warp holds a token's scores in registers.
        top_k: experts of a token, at most 32.
        softmax: whether scores are probabilities, else sigmoids.
        renormalize: whether the weights of a token are divided by their sum.
        biased: whether a bias takes part in the selection.
        smallest: what weights are divided by at least.
    """

    dtype: str
    experts: int
    top_k: int
    softmax: bool
    renormalize: bool
    biased: bool
    smallest: float

    @property
    def held(self) -> int:
        """Experts of a lane."""
        return -(-self.experts // _WARP)


def _scorer(how: Selection):
    """Makes the macro that turns a token's logits into scores."""
    add = row_sum(_WARP, _TOKENS)
    peak = row_reduction(_WARP, _TOKENS, lambda mine, other: (T.max(mine[0], other[0]),))

    @T.macro
    def load(X, scores, row, lane):
        for j in T.unroll(how.held):
            scores[j] = -T.infinity(F32)
            if j * _WARP + lane < how.experts:
                scores[j] = as_float(X[row, j * _WARP + lane])

    @T.macro
    def turn_into_scores(scores, thread):
        total = T.alloc_local((1,), F32)
        if how.softmax:
            total[0] = scores[0]
            for j in T.unroll(1, how.held):
                total[0] = T.max(total[0], scores[j])
            peak((total,), (total,), thread)
            for j in T.unroll(how.held):
                scores[j] = T.exp(scores[j] - total[0])
            total[0] = 0.0
            for j in T.unroll(how.held):
                total[0] += scores[j]
            add(total, total, thread)
            for j in T.unroll(how.held):
                scores[j] = scores[j] / total[0]
        else:
            for j in T.unroll(how.held):
                scores[j] = 1.0 / (1.0 + T.exp(-scores[j]))

    @T.macro
    def score(X, scores, row, lane, thread):
        load(X, scores, row, lane)
        turn_into_scores(scores, thread)

    return score


def _taker(how: Selection):
    """Makes the macro by which lane `i` gets the score and the expert of the `i`-th best."""

    def better(mine, other):
        wins = T.Or(other[0] > mine[0], T.And(other[0] == mine[0], other[1] < mine[1]))
        return tuple(T.if_then_else(wins, b, a) for a, b in zip(mine, other))  # noqa: B905

    best_of = row_reduction(_WARP, _TOKENS, better)

    @T.macro
    def rank(scores, C, ranks, lane):
        value = T.alloc_local((1,), F32)
        for j in T.unroll(how.held):
            ranks[j] = _TAKEN
            if j * _WARP + lane < how.experts:
                value[0] = scores[j]
                if how.biased:
                    value[0] += C[j * _WARP + lane]
                bits = T.reinterpret(value[0], _I32)
                ranks[j] = bits ^ ((bits >> 31) & 0x7FFFFFFF)

    @T.macro
    def take(scores, C, own, lane, thread):
        ranks = T.alloc_local((how.held,), _I32)
        best = T.alloc_local((1,), _I32)
        expert = T.alloc_local((1,), _I32)
        score = T.alloc_local((1,), F32)
        weight, chosen = own
        rank(scores, C, ranks, lane)
        for i in T.serial(how.top_k):
            best[0] = ranks[0]
            expert[0] = lane
            for j in T.unroll(1, how.held):
                if ranks[j] > best[0]:
                    best[0] = ranks[j]
                    expert[0] = j * _WARP + lane
            best_of((best, expert), (best, expert), thread)
            for j in T.unroll(how.held):
                if expert[0] == j * _WARP + lane:
                    score[0] = scores[j]
                    ranks[j] = _TAKEN
            score[0] = T.shfl_sync(score[0], expert[0] % _WARP)
            if lane == i:
                weight[0] = score[0]
                chosen[0] = expert[0]

    return take


def build_top_k(how: Selection) -> Program:
    """The `top_k` best scores of each token, and their experts.

    Tensors: `X [T, experts]`, with a bias `C [experts]` in float32, `W [T, top_k]` in float32 and
    `ids [T, top_k]` int32; contiguous, T not 0.

    Scores, with their bias, are compared as integers that order like them, NaN of positive sign
    above infinity; equal ones give the lower expert first.

    Args:
        how: the kind of selection.
    """
    add, score, take = row_sum(_WARP, _TOKENS), _scorer(how), _taker(how)
    experts, top_k, dtype = how.experts, how.top_k, how.dtype
    rows = T.dynamic("tokens")

    @T.macro
    def select(X, C, W, ids, block):
        thread = T.get_thread_binding()
        lane = thread % _WARP
        scores = T.alloc_local((how.held,), F32)
        weight = T.alloc_local((1,), F32)
        chosen = T.alloc_local((1,), _I32)
        total = T.alloc_local((1,), F32)
        row = block * _TOKENS + thread // _WARP
        score(X, scores, T.min(row, rows - 1), lane, thread)
        weight[0] = 0.0
        take(scores, C, (weight, chosen), lane, thread)
        if how.renormalize:
            total[0] = weight[0]
            add(total, total, thread)
            weight[0] = weight[0] / T.max(total[0], T.float32(how.smallest))
        if T.And(row < rows, lane < top_k):
            W[row, lane] = weight[0]
            ids[row, lane] = chosen[0]

    W_shape = (rows, top_k)
    grid = T.ceildiv(rows, _TOKENS)

    if not how.biased:

        @T.prim_func
        def top_k_plain(
            X: T.Tensor((rows, experts), dtype),
            W: T.Tensor(W_shape, F32),
            ids: T.Tensor(W_shape, _I32),
        ):
            with T.Kernel(grid, threads=_TOKENS * _WARP) as block:
                select(X, None, W, ids, block)

        return Program(top_k_plain, GUARDED)

    @T.prim_func
    def top_k_biased(
        X: T.Tensor((rows, experts), dtype),
        C: T.Tensor((experts,), F32),
        W: T.Tensor(W_shape, F32),
        ids: T.Tensor(W_shape, _I32),
    ):
        with T.Kernel(grid, threads=_TOKENS * _WARP) as block:
            select(X, C, W, ids, block)

    return Program(top_k_biased, GUARDED)
