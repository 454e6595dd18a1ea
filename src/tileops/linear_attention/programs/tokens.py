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
        has_gate_bias: whether a raw gate has a bias.
        has_state: whether sequences begin with given states, else with zeros.
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
    has_gate_bias: bool
    has_state: bool
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


def log_decay(how: Recurrence, raw, rate, bias):
    """The log decay that the gate of a token stands for.

    Args:
        how: whether and how it is made of a raw gate.
        raw: the gate as it is given, in float32.
        rate: logarithm of the rate of a raw gate.
        bias: what is added to a raw gate.
    """
    if not how.is_raw_gate:
        return raw
    moved = raw + bias
    if how.lower_bound is not None:
        return how.lower_bound / (1.0 + T.exp(-(T.exp(rate) * moved)))
    soft = T.if_then_else(moved > _STEEP, moved, T.log1p(T.exp(T.min(moved, _STEEP))))
    return -T.exp(rate) * soft


def strength(how: Recurrence, given):
    """How much a token takes up, of what is given for it, in float32."""
    return how.beta_range / (1.0 + T.exp(-given)) if how.beta_range else given


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
    def read_channels(X, to, b, s, head, lane):
        word = T.alloc_local((_TOGETHER,), how.dtype)
        for part in T.unroll(how.held // _TOGETHER):
            for i in T.vectorized(_TOGETHER):
                word[i] = X[b, s, head, how.channel(part * _TOGETHER, lane) + i]
            for i in T.unroll(_TOGETHER):
                to[part * _TOGETHER + i] = as_float(word[i])

    @T.macro
    def read_vector(X, to, b, s, head, lane, factor):
        total = T.alloc_local((1,), F32)
        read_channels(X, to, b, s, head, lane)
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

    @T.macro
    def read_decay(G, rates, biases, decay, b, s, head, lane):
        rate = T.alloc_local((1,), F32)
        bias = T.alloc_local((1,), F32)
        rate[0] = 0.0
        bias[0] = 0.0
        if how.is_raw_gate:
            rate[0] = rates[head]
        if how.gate == "channel":
            read_channels(G, decay, b, s, head, lane)
        else:
            decay[0] = as_float(G[b, s, head])
        for j in T.unroll(how.decays):
            if how.has_gate_bias:
                bias[0] = biases[
                    head * how.key_dim + how.channel(j, lane) if how.gate == "channel" else head
                ]
            decay[j] = T.exp(log_decay(how, decay[j], rate[0], bias[0]))

    @T.macro
    def read(tensors, rates, biases, q, k, v, decay, beta, b, s, head, left, lane):
        Q, K, V, G, strengths = tensors
        read_vector(Q, q, b, s, T.truncdiv(head, group), lane, how.scale)
        read_vector(K, k, b, s, T.truncdiv(head, group), lane, 1.0)
        for c in T.unroll(_TOGETHER):
            v[c] = as_float(V[b, s, head, left + c])
        if how.decays:
            read_decay(G, rates, biases, decay, b, s, head, lane)
        if how.has_delta_rule:
            beta[0] = strength(how, as_float(strengths[b, s, head]))

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

    Tensors: `Q`, `K` `[B, S, heads, key_dim]` and `V`, `O` `[B, S, value_heads, value_dim]`;
    `G [B, S, value_heads]`, or `[B, S, value_heads, key_dim]` for each channel;
    `strengths [B, S, value_heads]`; `rates` and `biases` in float32, of a raw gate;
    `starts [N + 1]` int64 of packed sequences, N being B of others; `S`, `R`
    `[N, value_heads, ·, ·]` in `state_dtype`. For what a recurrence does not take `R` stands, which
    is not read. All contiguous, B, S and N not 0.

    Args:
        how: what is done with each token.
    """
    read, take = _reader(how), _taker(how)
    load, store = _mover(how)
    threads = COLUMNS // how.columns * WARP
    B, length, N, C = (T.dynamic(name) for name in ("B", "length", "N", "C"))
    HV, dtype = how.value_heads, how.dtype
    keys, values = (B, length, how.heads, how.key_dim), (B, length, HV, how.value_dim)
    states = ((N, HV, *how.state_shape), how.state_dtype)
    channels = how.key_dim if how.gate == "channel" else 1

    def taken(is_taken, shape, of=dtype):
        """What is declared of a tensor that may not be taken."""
        return (shape, of) if is_taken else states

    log_decays = taken(how.decays, (B, length, HV) + (channels,) * (how.gate == "channel"))

    @T.prim_func
    def run_tokens(
        Q: T.Tensor(keys, dtype),
        K: T.Tensor(keys, dtype),
        V: T.Tensor(values, dtype),
        G: T.Tensor(*log_decays),
        strengths: T.Tensor(*taken(how.has_delta_rule, (B, length, HV))),
        rates: T.Tensor(*taken(how.is_raw_gate, (HV,), F32)),
        biases: T.Tensor(*taken(how.has_gate_bias, (HV * channels,), F32)),
        starts: T.Tensor(*taken(how.is_packed, (C,), "int64")),
        S: T.Tensor(*states),
        O: T.Tensor(values, dtype),  # noqa: E741
        R: T.Tensor(*states),
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
                count = length
            if how.has_state:
                load(state, S, n, head, left, lane)
            else:
                for j in T.unroll(how.held * _TOGETHER):
                    state[j] = 0.0
            for i in T.serial(count):
                b, s = (0, first + i) if how.is_packed else (n, i)
                read(
                    (Q, K, V, G, strengths), rates, biases, q, k, v, decay, beta,
                    b, s, head, left, lane,
                )  # fmt: skip
                take(q, k, v, decay, beta, state)
                for c in T.unroll(_TOGETHER):
                    result[c] = T.cast(v[c], dtype)
                if lane < how.across:
                    store_vector(O[b, s, head, left], result, _TOGETHER, dtype)
            store(state, R, n, head, left, lane)

    return Program(run_tokens, GUARDED)
