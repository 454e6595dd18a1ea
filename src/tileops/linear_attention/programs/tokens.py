"""The program that runs a recurrence over a matrix state token by token.

A warp keeps some columns of a head's state in registers, each lane four of them at some of the
key's channels, from the first token to the last; nothing is shared, and no warp waits for another.
Lanes beside each other read and write what lies beside each other in memory.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops._programs.vectors import F32, as_float, store_vector

WARP = 32
COLUMNS = 32
"""Columns of the state that a block keeps."""
FEW_CHANNELS = 128
"""Most channels of a key of which a lane can hold an eighth in registers."""

_TOGETHER = 4  # columns of a lane, and numbers that one access moves
_STEEP = 20.0  # above, a softplus is its argument


@dataclass(frozen=True)
class Recurrence:
    """What is done with each token.

    Args:
        dtype: element type of all but states and what makes raw gates.
        state_dtype: element type of states in memory.
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
    state_dtype: str
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
    def across(self) -> int:
        """Lanes side by side, with columns of their own; the others have other channels."""
        return 2 if self.key_dim > FEW_CHANNELS and self.key_dim % 64 == 0 else 4

    @property
    def columns(self) -> int:
        """Columns of a warp."""
        return self.across * _TOGETHER

    @property
    def steps(self) -> tuple[int, ...]:
        """Distances of the lanes whose sums over channels are added, in this order."""
        return tuple(1 << bit for bit in range(self.across.bit_length() - 1, 5))

    @property
    def held(self) -> int:
        """Channels of the key of a lane, a multiple of 4."""
        return self.key_dim * self.across // WARP

    def channel(self, j, lane):
        """The channel of the key that is the j-th of a lane."""
        return (j // _TOGETHER * (WARP // self.across) + lane // self.across) * _TOGETHER + (
            j % _TOGETHER
        )

    @property
    def decays(self) -> int:
        """Different decays of a lane's part of the state."""
        return {"none": 0, "head": 1, "channel": self.held}[self.gate]

    @property
    def state_shape(self) -> tuple[int, int]:
        """Of a head, as it is stored."""
        shape = (self.key_dim, self.value_dim)
        return shape[::-1] if self.is_v_first else shape


def _adder(how: Recurrence):
    """Makes the macro that adds numbers of all lanes that have the same columns."""

    @T.macro
    def add(sums, count):
        for step in how.steps:
            for c in T.unroll(count):
                sums[c] += T.shfl_xor(sums[c], step)

    return add


def _reader(how: Recurrence):
    """Makes the macro that reads a token into registers, every flag applied."""
    add = _adder(how)
    group = how.value_heads // how.heads

    @T.macro
    def read_channels(X, to, token, head, lane):
        word = T.alloc_local((_TOGETHER,), how.dtype)
        for part in T.unroll(how.held // _TOGETHER):
            for i in T.vectorized(_TOGETHER):
                word[i] = X[token, head, how.channel(part * _TOGETHER, lane) + i]
            for i in T.unroll(_TOGETHER):
                to[part * _TOGETHER + i] = as_float(word[i])

    @T.macro
    def read_vector(X, to, token, head, lane, factor):
        total = T.alloc_local((1,), F32)
        read_channels(X, to, token, head, lane)
        if how.has_unit_keys:
            total[0] = 0.0
            for j in T.unroll(how.held):
                total[0] += to[j] * to[j]
            add(total, 1)
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
        if how.gate == "channel":
            read_channels(G, decay, token, head, lane)
        else:
            decay[0] = as_float(G[token, head, 0])
        for j in T.unroll(how.decays):
            if how.is_raw_gate:
                bias[0] = biases[
                    head * how.key_dim + how.channel(j, lane) if how.gate == "channel" else head
                ]
            decay[j] = T.exp(log_decay(decay[j], rate[0], bias[0]))

    @T.macro
    def read(tensors, rates, biases, q, k, v, decay, beta, token, head, left, lane):
        Q, K, V, G, strengths = tensors
        read_vector(Q, q, token, T.truncdiv(head, group), lane, how.scale)
        read_vector(K, k, token, T.truncdiv(head, group), lane, 1.0)
        for c in T.unroll(_TOGETHER):
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
    add = _adder(how)

    @T.macro
    def contract(x, state, sums):
        """`Σ x[k] S[k, c]` over the channels of all lanes."""
        for c in T.unroll(_TOGETHER):
            sums[c] = 0.0
            for j in T.unroll(how.held):
                sums[c] += x[j] * state[j * _TOGETHER + c]
        add(sums, _TOGETHER)

    @T.macro
    def take(q, k, v, decay, beta, state):
        sums = T.alloc_local((_TOGETHER,), F32)
        if how.decays:
            for j in T.unroll(how.held):
                for c in T.unroll(_TOGETHER):
                    state[j * _TOGETHER + c] *= decay[j if how.decays > 1 else 0]
        if how.has_delta_rule:
            contract(k, state, sums)
            for c in T.unroll(_TOGETHER):
                v[c] = beta[0] * (v[c] - sums[c])
        for j in T.unroll(how.held):
            for c in T.unroll(_TOGETHER):
                state[j * _TOGETHER + c] += k[j] * v[c]
        contract(q, state, v)

    return take


def _mover(how: Recurrence):
    """Makes the macros that load and store a lane's part of a state, four numbers at a time."""

    def corner(access, left, lane):
        """Where the numbers of an access begin in a head's state."""
        if how.is_v_first:
            first = access - access % _TOGETHER
            return left + access % _TOGETHER, how.channel(first, lane)
        return how.channel(access, lane), left

    def register(access, i):
        """Of the i-th number of an access."""
        if how.is_v_first:
            return (access - access % _TOGETHER + i) * _TOGETHER + access % _TOGETHER
        return access * _TOGETHER + i

    @T.macro
    def load(state, S, n, head, left, lane):
        word = T.alloc_local((_TOGETHER,), how.state_dtype)
        for access in T.unroll(how.held):
            row, column = corner(access, left, lane)
            for i in T.vectorized(_TOGETHER):
                word[i] = S[n, head, row, column + i]
            for i in T.unroll(_TOGETHER):
                state[register(access, i)] = as_float(word[i])

    @T.macro
    def store(state, R, n, head, left, lane):
        word = T.alloc_local((_TOGETHER,), how.state_dtype)
        for access in T.unroll(how.held):
            row, column = corner(access, left, lane)
            for i in T.unroll(_TOGETHER):
                word[i] = T.cast(state[register(access, i)], how.state_dtype)
            store_vector(R[n, head, row, column], word, _TOGETHER, how.state_dtype)

    return load, store


def build_tokens(how: Recurrence) -> Program:
    """Each sequence from its state `S` to `R`, one token after the other.

    Tensors: `Q`, `K` `[T, heads, key_dim]` and `V` `[T, value_heads, value_dim]`, T tokens of all
    sequences; `G [T, value_heads, 1 or key_dim]`; `strengths [T, value_heads, 1]`; `rates` and
    `biases` in float32, of a raw gate; `starts [N + 1]` int64 of packed sequences; `S`, `R`
    `[N, value_heads, ·, ·]` in `state_dtype`; `O` like `V`. What a recurrence does not take is not
    read, whatever its last extent. All contiguous, T and N not 0.

    Args:
        how: what is done with each token.
    """
    read, take = _reader(how), _taker(how)
    load, store = _mover(how)
    threads = COLUMNS // how.columns * WARP
    tokens, N = T.dynamic("tokens"), T.dynamic("N")
    extents = {name: T.dynamic(name) for name in ("GW", "BW", "A", "D", "C")}
    HV, dtype = how.value_heads, how.dtype
    keys, values = (tokens, how.heads, how.key_dim), (tokens, HV, how.value_dim)
    states = (N, HV, *how.state_shape)

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
        S: T.Tensor(states, how.state_dtype),
        O: T.Tensor(values, dtype),  # noqa: E741
        R: T.Tensor(states, how.state_dtype),
    ):
        with T.Kernel(how.value_dim // COLUMNS, HV, N, threads=threads) as (part, head, n):
            thread = T.get_thread_binding()
            lane = thread % WARP
            left = part * COLUMNS + thread // WARP * how.columns + lane % how.across * _TOGETHER
            state = T.alloc_local((how.held * _TOGETHER,), F32)
            q = T.alloc_local((how.held,), F32)
            k = T.alloc_local((how.held,), F32)
            v = T.alloc_local((_TOGETHER,), F32)
            decay = T.alloc_local((max(how.decays, 1),), F32)
            beta = T.alloc_local((1,), F32)
            result = T.alloc_local((_TOGETHER,), dtype)
            first = T.alloc_var("int32", init=0)
            count = T.alloc_var("int32", init=0)
            if how.is_packed:
                first = T.cast(starts[n], "int32")
                count = T.cast(starts[n + 1], "int32") - first
            else:
                count = T.truncdiv(tokens, N)
                first = n * count
            load(state, S, n, head, left, lane)
            for i in T.serial(count):
                token = first + i
                read(
                    (Q, K, V, G, strengths), rates, biases, q, k, v, decay, beta,
                    token, head, left, lane,
                )  # fmt: skip
                take(q, k, v, decay, beta, state)
                for c in T.unroll(_TOGETHER):
                    result[c] = T.cast(v[c], dtype)
                if lane < how.across:
                    store_vector(O[token, head, left], result, _TOGETHER, dtype)
            store(state, R, n, head, left, lane)

    return Program(run_tokens, GUARDED)
