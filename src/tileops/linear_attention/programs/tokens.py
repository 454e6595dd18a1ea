"""The program that runs a recurrence over a matrix state token by token.

A warp keeps some columns of a head's state in registers, each lane some of the key's channels, from
the first token to the last; nothing is shared, and no warp waits for another.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.rows import row_sum
from tileops._programs.vectors import F32, as_float, store_vector

WARP = 32
COLUMNS = 8
"""Columns of the state that a warp keeps."""
WARPS = 4
"""Warps of a block, each with columns of its own."""

_TOGETHER = 4  # numbers of a state that one access moves
_STEEP = 20.0  # above, a softplus is its argument


@dataclass(frozen=True)
class Recurrence:
    """What is done with each token.

    Args:
        dtype: element type of all but states and what makes raw gates.
        heads: heads of q and k.
        value_heads: heads of v and of the state, a multiple of `heads`.
        key_dim: channels of q and k, a multiple of 32.
        value_dim: channels of v, a multiple of 32.
        scale: factor of q.
        gate: what has a log decay: `"none"`, `"head"` or `"channel"`.
        is_raw_gate: whether a rate and a bias make the log decay of a gate.
        lower_bound: smallest log decay of a raw gate that a sigmoid bounds; None for a softplus.
        has_delta_rule: whether a token takes up what the state does not hold yet.
        beta_range: 0 where the strength is taken as it is, else the factor of its sigmoid.
        has_unit_keys: whether q and k are divided by their lengths.
        is_v_first: whether states are stored `[V, K]`.
        is_packed: whether sequences lie one behind the other, else one in each batch entry.
    """

    dtype: str
    heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    scale: float
    gate: str
    is_raw_gate: bool
    lower_bound: float | None
    has_delta_rule: bool
    beta_range: int
    has_unit_keys: bool
    is_v_first: bool
    is_packed: bool

    @property
    def held(self) -> int:
        """Channels of the key of a lane."""
        return self.key_dim // WARP

    @property
    def decays(self) -> int:
        """Different decays of a lane's part of the state."""
        return {"none": 0, "head": 1, "channel": self.held}[self.gate]

    @property
    def state_shape(self) -> tuple[int, int]:
        """Of a head, as it is stored."""
        shape = (self.key_dim, self.value_dim)
        return shape[::-1] if self.is_v_first else shape


def _reader(how: Recurrence):
    """Makes the macro that reads a token into registers, every flag applied."""
    add = row_sum(WARP, WARPS)
    group = how.value_heads // how.heads

    @T.macro
    def read_vector(X, to, token, head, lane, factor, thread):
        total = T.alloc_local((1,), F32)
        for j in T.unroll(how.held):
            to[j] = as_float(X[token, head, j * WARP + lane])
        if how.has_unit_keys:
            total[0] = 0.0
            for j in T.unroll(how.held):
                total[0] += to[j] * to[j]
            add(total, total, thread)
            for j in T.unroll(how.held):
                to[j] = to[j] * (T.rsqrt(total[0] + 1e-6) * factor)
        elif factor != 1.0:
            for j in T.unroll(how.held):
                to[j] = to[j] * factor

    def log_decay(raw, rate, bias):
        if not how.is_raw_gate:
            return raw
        moved = raw + bias
        if how.lower_bound is not None:
            return how.lower_bound / (1.0 + T.exp(-(T.exp(rate) * moved)))
        soft = T.if_then_else(moved > _STEEP, moved, T.log1p(T.exp(T.min(moved, _STEEP))))
        return -T.exp(rate) * soft

    @T.macro
    def read_decay(G, rates, biases, decay, token, head, lane):
        rate = T.alloc_local((1,), F32)
        bias = T.alloc_local((1,), F32)
        rate[0] = 0.0
        bias[0] = 0.0
        if how.is_raw_gate:
            rate[0] = rates[head]
        for j in T.unroll(how.decays):
            channel = j * WARP + lane if how.gate == "channel" else 0
            if how.is_raw_gate:
                bias[0] = biases[head * how.key_dim + channel if how.gate == "channel" else head]
            decay[j] = T.exp(log_decay(as_float(G[token, head, channel]), rate[0], bias[0]))

    @T.macro
    def read(tensors, rates, biases, q, k, v, decay, beta, token, head, left, lane, thread):
        Q, K, V, G, strengths = tensors
        read_vector(Q, q, token, T.truncdiv(head, group), lane, how.scale, thread)
        read_vector(K, k, token, T.truncdiv(head, group), lane, 1.0, thread)
        for c in T.unroll(COLUMNS):
            v[c] = as_float(V[token, head, left + c])
        if how.decays:
            read_decay(G, rates, biases, decay, token, head, lane)
        if how.has_delta_rule:
            beta[0] = as_float(strengths[token, head, 0])
            if how.beta_range:
                beta[0] = how.beta_range / (1.0 + T.exp(-beta[0]))

    return read


def _taker(how: Recurrence):
    """Makes the macro that passes a token through a warp's state; `v` becomes the result."""

    @T.macro
    def contract(x, state, sums):
        """`Σ x[k] S[k, c]` over the channels of all lanes."""
        for c in T.unroll(COLUMNS):
            sums[c] = 0.0
            for j in T.unroll(how.held):
                sums[c] += x[j] * state[j * COLUMNS + c]
        for step in tuple(range(5)):
            for c in T.unroll(COLUMNS):
                sums[c] += T.shfl_xor(sums[c], 1 << step)

    @T.macro
    def take(q, k, v, decay, beta, state):
        sums = T.alloc_local((COLUMNS,), F32)
        if how.decays:
            for j in T.unroll(how.held):
                for c in T.unroll(COLUMNS):
                    state[j * COLUMNS + c] *= decay[j if how.decays > 1 else 0]
        if how.has_delta_rule:
            contract(k, state, sums)
            for c in T.unroll(COLUMNS):
                v[c] = beta[0] * (v[c] - sums[c])
        for j in T.unroll(how.held):
            for c in T.unroll(COLUMNS):
                state[j * COLUMNS + c] += k[j] * v[c]
        contract(q, state, v)

    return take


def build_tokens(how: Recurrence) -> Program:
    """Each sequence from its state `S` to `R`, one token after the other.

    Tensors: `Q`, `K` `[T, heads, key_dim]` and `V` `[T, value_heads, value_dim]`, T tokens of all
    sequences; `G [T, value_heads, 1 or key_dim]`; `strengths [T, value_heads, 1]`; `rates` and
    `biases` in float32, of a raw gate; `starts [N + 1]` int64 of packed sequences; `S`, `R`
    `[N, value_heads, ·, ·]` in float32; `O` like `V`. What a recurrence does not take is not read,
    whatever its last extent. All contiguous, T and N not 0.

    Args:
        how: what is done with each token.
    """
    read, take = _reader(how), _taker(how)
    tokens, N = T.dynamic("tokens"), T.dynamic("N")
    extents = {name: T.dynamic(name) for name in ("GW", "BW", "A", "D", "C")}
    HV, dtype = how.value_heads, how.dtype
    keys, values = (tokens, how.heads, how.key_dim), (tokens, HV, how.value_dim)
    states = (N, HV, *how.state_shape)

    @T.macro
    def load_state(state, S, n, head, left, lane):
        for j in T.unroll(how.held):
            if how.is_v_first:
                for c in T.unroll(COLUMNS):
                    state[j * COLUMNS + c] = S[n, head, left + c, j * WARP + lane]
            else:
                for part in T.unroll(COLUMNS // _TOGETHER):
                    for c in T.vectorized(_TOGETHER):
                        state[j * COLUMNS + part * _TOGETHER + c] = S[
                            n, head, j * WARP + lane, left + part * _TOGETHER + c
                        ]

    @T.macro
    def store_state(state, R, n, head, left, lane):
        for j in tuple(range(how.held)):
            if how.is_v_first:
                for c in T.unroll(COLUMNS):
                    R[n, head, left + c, j * WARP + lane] = state[j * COLUMNS + c]
            else:
                for c in tuple(range(0, COLUMNS, _TOGETHER)):
                    store_vector(
                        R[n, head, j * WARP + lane, left + c],
                        state, _TOGETHER, F32, j * COLUMNS + c,
                    )  # fmt: skip

    @T.prim_func
    def run_tokens(
        Q: T.Tensor(keys, dtype),
        K: T.Tensor(keys, dtype),
        V: T.Tensor(values, dtype),
        G: T.Tensor((tokens, HV, extents["GW"]), dtype),
        strengths: T.Tensor((tokens, HV, extents["BW"]), dtype),
        rates: T.Tensor((extents["A"],), F32),
        biases: T.Tensor((extents["D"],), F32),
        starts: T.Tensor((extents["C"],), "int64"),
        S: T.Tensor(states, F32),
        O: T.Tensor(values, dtype),  # noqa: E741
        R: T.Tensor(states, F32),
    ):
        with T.Kernel(how.value_dim // (COLUMNS * WARPS), HV, N, threads=WARPS * WARP) as (
            part,
            head,
            n,
        ):
            thread = T.get_thread_binding()
            lane = thread % WARP
            left = (part * WARPS + thread // WARP) * COLUMNS
            state = T.alloc_local((how.held * COLUMNS,), F32)
            q = T.alloc_local((how.held,), F32)
            k = T.alloc_local((how.held,), F32)
            v = T.alloc_local((COLUMNS,), F32)
            decay = T.alloc_local((max(how.decays, 1),), F32)
            beta = T.alloc_local((1,), F32)
            first = T.alloc_var("int32", init=0)
            count = T.alloc_var("int32", init=0)
            if how.is_packed:
                first = T.cast(starts[n], "int32")
                count = T.cast(starts[n + 1], "int32") - first
            else:
                count = T.truncdiv(tokens, N)
                first = n * count
            load_state(state, S, n, head, left, lane)
            for i in T.serial(count):
                token = first + i
                read(
                    (Q, K, V, G, strengths), rates, biases, q, k, v, decay, beta,
                    token, head, left, lane, thread,
                )  # fmt: skip
                take(q, k, v, decay, beta, state)
                for c in T.unroll(COLUMNS):
                    if lane == c:
                        O[token, head, left + c] = T.cast(v[c], dtype)
            store_state(state, R, n, head, left, lane)

    return Program(run_tokens, GUARDED)
