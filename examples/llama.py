"""A decoder in the shape of Llama 3, made of TileOPs ops, with a paged cache.

    python examples/llama.py                              # a small one with random weights
    python examples/llama.py --size 8b --device cuda --graph --steps 64
    python examples/llama.py --checkpoint FOLDER --prompt 128000,9906 --top-k 50 --top-p 0.9

Random weights, or those of a local checkpoint: a folder with `config.json` and `*.safetensors`
under the names that Llama's checkpoints have. Prompts are token numbers, one `--prompt` for each
request; tokenizers are not this program's matter. Keys and values lie in pages that requests own
through a table, so requests of any lengths run together, packed without padding.

All arithmetic is done by ops. Frequencies are Llama 3's, or slowed down as `rope_scaling` of a
checkpoint of Llama 3.1 and later says. Picking rows of a table by number, keeping account of
lengths, and joining weights once, when they are loaded, is left to torch. The model is compiled as
one graph (`torch.compile`, `fullgraph=True`) unless `--eager` is given, and with `--graph` a step,
sampling included, is captured once as a CUDA graph and then replayed.

`llama_torch.py` is the same model by torch alone; `--check` compares the logits of every step.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from tileops.attention import GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp
from tileops.elementwise import AddFwdOp, DivFwdOp, MulFwdOp, SiluAndMulFwdOp
from tileops.gemm import GemmFwdOp
from tileops.norm import FusedAddRMSNormFwdOp, RMSNormFwdOp
from tileops.reduction import ArgmaxFwdOp, SoftmaxFwdOp
from tileops.rope import RoPELlama31FwdOp
from tileops.sampling import SamplingFromProbsFwdOp, TopKTopPMaskFwdOp
from torch import Tensor, nn

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

LIMITS = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""How far logits may be from float32's, by the norm of the difference over the norm."""


@dataclass(frozen=True)
class Scaling:
    """How Llama 3.1 slows long waves down, as `RoPELlama31FwdOp` tells it.

    Args:
        factor: by which the longest waves are slowed down.
        low_freq_factor: how often a wave fits into the original length from which it is blended.
        high_freq_factor: how often from which it stays.
        original_max_position: the original length.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclass(frozen=True)
class Config:
    """The extents of a decoder; the names are those of the field.

    Args:
        vocabulary: tokens.
        hidden: channels of the residual stream.
        layers: blocks of attention and feed-forward.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        inner: channels inside the feed-forward.
        max_position: positions that a request may reach.
        rope_base: base of the rotary frequencies.
        eps: of the norms.
        scaling: of the rotary frequencies, or None.
    """

    vocabulary: int = 512
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    inner: int = 256
    max_position: int = 512
    rope_base: float = 500000.0
    eps: float = 1e-5
    scaling: Scaling | None = None


SIZES = {
    "small": Config(),
    "1b": Config(128256, 2048, 16, 32, 8, 64, 8192, 8192),
    "8b": Config(128256, 4096, 32, 32, 8, 128, 14336, 8192),
    "70b": Config(128256, 8192, 80, 64, 8, 128, 28672, 8192),
}


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The tensors of a checkpoint by their names."""
    hidden, inner = config.hidden, config.inner
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocabulary, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config.vocabulary, hidden),
    }
    for number in range(config.layers):
        layer = f"model.layers.{number}"
        found |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_proj.weight": (q, hidden),
            f"{layer}.self_attn.k_proj.weight": (kv, hidden),
            f"{layer}.self_attn.v_proj.weight": (kv, hidden),
            f"{layer}.self_attn.o_proj.weight": (hidden, q),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.mlp.gate_proj.weight": (inner, hidden),
            f"{layer}.mlp.up_proj.weight": (inner, hidden),
            f"{layer}.mlp.down_proj.weight": (hidden, inner),
        }
    return found


def random_weights(
    config: Config, dtype: torch.dtype, device: str, seed: int = 0
) -> dict[str, Tensor]:
    """Weights that keep activations of order one."""
    generator = torch.Generator(device).manual_seed(seed)
    weights = {}
    for name, shape in shapes(config).items():
        drawn = torch.randn(shape, generator=generator, device=device, dtype=dtype)
        is_norm = len(shape) == 1
        weights[name] = 1 + 0.1 * drawn if is_norm else drawn.mul_(shape[-1] ** -0.5)
    return weights


def entry(data: Mapping[str, Any], name: str, folder: Path) -> Any:
    """What a checkpoint's configuration says under a name.

    Raises:
        SystemExit: it says nothing.
    """
    if data.get(name) is None:
        raise SystemExit(f"{folder}: config.json has no {name}")
    return data[name]


def positions_of(data: Mapping[str, Any], folder: Path) -> tuple[float, Scaling | None]:
    """Base and scaling of the rotary frequencies that a checkpoint's configuration names.

    Raises:
        SystemExit: they are scaled in a way that Llama does not know, or an entry is missing.
    """
    rope = data.get("rope_parameters") or data.get("rope_scaling") or {}
    base = rope.get("rope_theta", data.get("rope_theta", 10000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return base, None
    if kind != "llama3":
        raise SystemExit(f"{folder}: positions are scaled by {kind}, not as Llama 3.1 does")
    names = (
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    )  # fmt: skip
    return base, Scaling(*(entry(rope, name, folder) for name in names))


def config_of(folder: Path) -> tuple[Config, bool]:
    """The configuration of a local checkpoint; whether its head is the embedding.

    Raises:
        SystemExit: it cannot be read, is of another architecture, or an entry is missing.
    """
    try:
        data: Mapping[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{folder}: config.json cannot be read: {error}") from error
    if not isinstance(data, Mapping):
        raise SystemExit(f"{folder}: config.json cannot be read: it is no object")
    if data.get("model_type", "llama") != "llama":
        raise SystemExit(f"{folder}: a checkpoint of {data['model_type']}, not of llama")
    if data.get("hidden_act", "silu") != "silu":
        raise SystemExit(f"{folder}: gates by {data['hidden_act']}, and Llama by silu")
    names = (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "max_position_embeddings", "rms_norm_eps",
    )  # fmt: skip
    vocabulary, hidden, layers, heads, inner, longest, eps = (
        entry(data, name, folder) for name in names
    )
    base, scaling = positions_of(data, folder)
    config = Config(
        vocabulary, hidden, layers, heads, data.get("num_key_value_heads") or heads,
        data.get("head_dim") or hidden // heads, inner, longest, base, eps, scaling,
    )  # fmt: skip
    return config, bool(data.get("tie_word_embeddings"))


def load_checkpoint(
    folder: Path, dtype: torch.dtype, device: str
) -> tuple[Config, dict[str, Tensor]]:
    """Configuration and weights of a local checkpoint.

    Raises:
        SystemExit: the folder holds another architecture, or lacks files or tensors.
    """
    from safetensors.torch import load_file

    config, is_tied = config_of(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SystemExit(f"{folder}: there is no *.safetensors, in which weights are read")
    weights: dict[str, Tensor] = {}
    for file in files:
        weights |= {name: part.to(device, dtype) for name, part in load_file(file).items()}
    if is_tied and "model.embed_tokens.weight" in weights:
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    biased = [name for name in weights if name.endswith(".bias")]
    if biased:
        raise SystemExit(f"{folder}: {biased[0]} is added, and Llama adds nothing")
    for name, shape in shapes(config).items():
        if name not in weights:
            raise SystemExit(f"{folder}: there is no tensor {name}")
        if weights[name].shape != shape:
            found = list(weights[name].shape)
            raise SystemExit(f"{folder}: {name} has shape {found}, not {list(shape)}")
    return config, weights


class Cache:
    """Keys and values of requests in pages, and which pages are whose.

    Attributes:
        keys: of each layer `[pages * page, kv_heads, head_dim]`.
        values: likewise.
        table: `[requests, entries]` int32, the pages of each request.
        lengths: `[requests]` int32, rows that each request holds.
    """

    def __init__(
        self, config: Config, requests: int, rows: int, dtype: torch.dtype, device: str, page: int
    ) -> None:
        entries = -(-rows // page)
        shape = (requests * entries * page, config.kv_heads, config.head_dim)
        self.keys, self.values = (
            [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.layers)]
            for _ in "kv"
        )
        # Pages are handed out across requests, as they would be on demand.
        pages = torch.arange(requests * entries, dtype=torch.int32, device=device)
        self.table = pages.view(entries, requests).T.contiguous()
        self.lengths = torch.zeros(requests, dtype=torch.int32, device=device)
        self.page = page


@dataclass(frozen=True)
class Ops:
    """The ops of a model. They hold no weights, so one instance of each serves all layers."""

    gemm: GemmFwdOp
    norm: RMSNormFwdOp
    add_norm: FusedAddRMSNormFwdOp
    gate: SiluAndMulFwdOp
    multiply: MulFwdOp
    add: AddFwdOp
    prefill: GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp
    decode: GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp

    @classmethod
    def of(cls, config: Config, page: int, longest: int) -> Ops:
        """The ops for prompts of up to `longest` tokens and pages of `page` rows."""

        def attention(tokens: int) -> GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp:
            return GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(
                page_size=page,
                max_seqlen_q=tokens,
                fuse_rope=config.scaling is None,
                rope_base=config.rope_base,
                max_position=config.max_position,
            )

        return cls(
            GemmFwdOp(),
            RMSNormFwdOp([config.hidden], eps=config.eps),
            FusedAddRMSNormFwdOp(eps=config.eps),
            SiluAndMulFwdOp(),
            MulFwdOp(),
            AddFwdOp(),
            attention(longest),
            attention(1),
        )

    def turned(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Heads `[T, H, D]` by rows of `turning_tables`, rounded once."""
        paired = heads.roll(heads.shape[-1] // 2, -1)
        parts = self.multiply(heads.float(), cos), self.multiply(paired.float(), sin)
        return self.add(*parts).to(heads.dtype)


def turning_tables(config: Config, scaling: Scaling, device: torch.device) -> tuple[Tensor, Tensor]:
    """What channels, and the channels that they are paired with, are multiplied by to turn them.

    `[positions, 1, head_dim]`: cosines, and sines that are negative in the first half. This is what
    the op makes of ones in one half, and of ones in the other.
    """
    turn = RoPELlama31FwdOp("1d", config.rope_base, *astuple(scaling))
    second = torch.arange(config.head_dim, device=device) >= config.head_dim // 2
    ones = second.float().expand(config.max_position, -1)
    of_first, of_second = turn(1 - ones), turn(ones)
    cos, sin = torch.where(second, of_second, of_first), torch.where(second, of_first, of_second)
    return cos[:, None], sin[:, None]


class Layer(nn.Module):
    """Attention over pages, then a gated feed-forward."""

    def __init__(self, config: Config, weights: Mapping[str, Tensor], number: int) -> None:
        super().__init__()
        name = f"model.layers.{number}"

        def joined(*parts: str) -> Tensor:
            found = [weights[f"{name}.{part}_proj.weight"] for part in parts]
            return found[0] if len(found) == 1 else torch.cat(found)

        self.config = config
        self.register_buffer("qkv", joined("self_attn.q", "self_attn.k", "self_attn.v"))
        self.register_buffer("out", joined("self_attn.o"))
        self.register_buffer("gate_up", joined("mlp.gate", "mlp.up"))
        self.register_buffer("down", joined("mlp.down"))
        self.register_buffer("norm", weights[f"{name}.post_attention_layernorm.weight"])

    def forward(
        self,
        x: Tensor,
        residual: Tensor,
        ops: Ops,
        attend: Callable[..., Tensor],
        turns: tuple[Tensor, Tensor] | None,
        pages: tuple[Tensor, Tensor],
        place: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        """What is to be added to the residual stream next, and the stream."""
        heads, kv_heads = self.config.heads, self.config.kv_heads
        rows = ops.gemm(x, self.qkv).view(x.shape[0], -1, self.config.head_dim)
        turning, v = rows.split([heads + kv_heads, kv_heads], dim=1)
        if turns is not None:
            turning = ops.turned(turning, *turns)
        q, k = turning.split([heads, kv_heads], dim=1)
        mixed = attend(q, k, v, *pages, *place).flatten(1)
        x, residual = ops.add_norm(ops.gemm(mixed, self.out), residual, self.norm)
        return ops.gemm(ops.gate(ops.gemm(x, self.gate_up)), self.down), residual


class Llama(nn.Module):
    """The decoder: packed tokens in, logits of the last token of each request out.

    Args:
        config: the extents.
        weights: the tensors of a checkpoint.
        page: rows of a page of the cache.
        longest: tokens of the longest prompt.
    """

    def __init__(
        self, config: Config, weights: Mapping[str, Tensor], *, page: int, longest: int
    ) -> None:
        super().__init__()
        self.config, self.ops = config, Ops.of(config, page, longest)
        self.layers = nn.ModuleList(Layer(config, weights, n) for n in range(config.layers))
        names = [f"model.layers.{n}.input_layernorm.weight" for n in range(config.layers)]
        for number, name in enumerate([*names, "model.norm.weight"]):
            self.register_buffer(f"norm{number}", weights[name])
        self.register_buffer("embedding", weights["model.embed_tokens.weight"])
        self.register_buffer("head", weights["lm_head.weight"])
        one = torch.ones(1, device=self.head.device)
        self.register_buffer("scale", one)  # pages hold plain numbers
        if config.scaling is not None:
            cos, sin = turning_tables(config, config.scaling, one.device)
            self.register_buffer("cos", cos)
            self.register_buffer("sin", sin)

    def forward(
        self,
        tokens: Tensor,
        starts: Tensor,
        lengths: Tensor,
        table: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        *,
        one_token: bool,
    ) -> Tensor:
        """Logits `[requests, vocabulary]`; keys and values of the tokens go into the pages.

        Args:
            tokens: `[T]`, of all requests one after another.
            starts: `[requests + 1]` int32, where the tokens of each request begin.
            lengths: `[requests]` int32, rows that the pages hold already.
            table: `[requests, entries]` int32, the pages of each request.
            keys: of each layer, its pages.
            values: likewise.
            one_token: whether each request has one token at most.
        """
        ops = self.ops
        attend = ops.decode if one_token else ops.prefill
        place = (self.scale, self.scale, starts, lengths, table)
        turns = self._turns(starts, lengths, tokens.shape[0])
        residual = self.embedding[tokens]
        x = ops.norm(residual, self.norm0)
        for number, layer in enumerate(self.layers):
            pages = keys[number], values[number]
            x, residual = layer(x, residual, ops, attend, turns, pages, place)
            x, residual = ops.add_norm(x, residual, getattr(self, f"norm{number + 1}"))
        if not one_token:
            x = x[starts[1:] - 1]
        return ops.gemm(x, self.head)

    def _turns(self, starts: Tensor, lengths: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
        """The rows of the tables for packed tokens; None where attention turns heads itself."""
        if self.config.scaling is None:
            return None
        place = torch.arange(count, dtype=starts.dtype, device=starts.device)
        request = torch.bucketize(place, starts, right=True) - 1
        position = lengths[request] + place - starts[request]
        return self.cos[position], self.sin[position]


class Sampler:
    """The next token of each request: the likeliest, or one drawn among the likely ones.

    Args:
        requests: how many.
        device: where the logits are.
        top_k: tokens to choose from; 0 takes the likeliest.
        top_p: probability that they have together.
        temperature: by which logits are divided.
        seed: of the draws.
    """

    def __init__(
        self,
        requests: int,
        device: str,
        *,
        top_k: int = 0,
        top_p: float = 1.0,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.is_greedy = top_k == 0
        self.argmax = ArgmaxFwdOp(dim=-1)
        self.divide, self.mask = DivFwdOp(), TopKTopPMaskFwdOp()
        self.softmax, self.draw = SoftmaxFwdOp(dim=-1), SamplingFromProbsFwdOp()
        self.k = torch.full((requests,), top_k, dtype=torch.int32, device=device)
        self.p = torch.full((requests,), top_p, device=device)
        self.temperature = torch.tensor([temperature], device=device)
        self.seed = torch.tensor([seed], device=device)
        self.offset = torch.tensor([0], device=device)

    def __call__(self, logits: Tensor) -> Tensor:
        """Tokens `[requests]`; every call draws anew."""
        if self.is_greedy:
            return self.argmax(logits)
        kept = self.mask(self.divide(logits.float(), self.temperature), self.k, self.p)
        drawn = self.draw(self.softmax(kept), self.seed, self.offset)
        self.offset += 4 * drawn.numel()
        return drawn.long()


class Session:
    """Requests that are answered together.

    Args:
        model: the decoder.
        cache: pages, one table row for each request.
        sampler: chooses tokens.
        forward: the decoder, or what `torch.compile` made of it.
    """

    def __init__(
        self,
        model: Llama,
        cache: Cache,
        sampler: Sampler,
        forward: Callable[..., Tensor] | None = None,
    ) -> None:
        self.cache, self.sampler = cache, sampler
        self.forward = model if forward is None else forward
        requests = cache.lengths.numel()
        self.each = torch.arange(requests + 1, dtype=torch.int32, device=cache.lengths.device)
        self.tokens = torch.zeros(requests, dtype=torch.int64, device=cache.lengths.device)
        self.logits: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def _run(self, tokens: Tensor, starts: Tensor, *, one_token: bool) -> None:
        """Advance, and choose the next tokens."""
        cache = self.cache
        place = (starts, cache.lengths, cache.table, cache.keys, cache.values)
        self.logits = self.forward(tokens, *place, one_token=one_token)
        self.tokens.copy_(self.sampler(self.logits))
        cache.lengths += starts.diff()

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Read a prompt for each request; returns the first token of each answer."""
        device = self.tokens.device
        starts = torch.tensor([0, *accumulate(map(len, prompts))], dtype=torch.int32, device=device)
        packed = torch.tensor([token for prompt in prompts for token in prompt], device=device)
        self._run(packed, starts, one_token=False)
        return self.tokens.clone()

    def step(self) -> Tensor:
        """Read the last tokens; returns the next ones."""
        if self._graph is None:
            self._run(self.tokens, self.each, one_token=True)
        else:
            self._graph.replay()
        return self.tokens.clone()

    def capture(self) -> None:
        """Make later steps replays of one CUDA graph. Leaves the state as it is."""
        state = (self.tokens, self.cache.lengths, self.sampler.offset)
        kept = [part.clone() for part in state]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.step()  # builds what a capture may not
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run(self.tokens, self.each, one_token=True)
        self._graph = graph
        for part, old in zip(state, kept, strict=True):
            part.copy_(old)


def generate(session: Session, prompts: Sequence[Sequence[int]], steps: int) -> list[list[int]]:
    """The answer to each prompt, `steps` tokens long."""
    tokens = []
    for step in range(steps):
        tokens.append(session.step() if step else session.prefill(prompts))
        tell(step)
    return torch.stack(tokens, 1).tolist()


def tell(step: int) -> None:
    """Say that a step is done, on standard error; only of those that compile, which take long."""
    texts = {0: "prompts read; now the first step", 1: "first step done; the others are quick"}
    if step in texts:
        print(texts[step], file=sys.stderr, flush=True)


def compiled(model: Llama, backend: str = "inductor") -> Callable[..., Tensor]:
    """The model as one graph, for prompts and for steps."""
    return torch.compile(model, fullgraph=True, dynamic=False, backend=backend)


def largest_difference(
    session: Session, prompts: Sequence[Sequence[int]], steps: int, plain: Callable[..., Tensor]
) -> tuple[float, list[list[int]]]:
    """How far logits are from those of `plain` at any step, relative to their size; the answers."""
    texts = [list(prompt) for prompt in prompts]
    worst = 0.0
    for step in range(steps):
        tokens = session.step() if step else session.prefill(prompts)
        tell(step)
        assert session.logits is not None
        exact = torch.stack([plain(torch.tensor(text)).float() for text in texts])
        found = session.logits.float().to(exact.device)
        worst = max(worst, ((found - exact).norm() / exact.norm()).item())
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
    return worst, [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--size", choices=SIZES, default="small", help="of a random model")
    made.add_argument("--layers", type=int, help="other than the size's")
    made.add_argument("--checkpoint", type=Path, help="a folder with a real model")
    made.add_argument("--device", default="cpu", help="cpu or cuda")
    made.add_argument("--dtype", choices=DTYPES, help="float32 on the CPU, else bfloat16")
    made.add_argument("--prompt", action="append", help="tokens such as 1,2,3; may be repeated")
    made.add_argument("--steps", type=int, default=8, help="tokens of an answer")
    made.add_argument("--page", type=int, default=64, help="rows of a page")
    made.add_argument("--top-k", type=int, default=0, help="0 takes the likeliest token")
    made.add_argument("--top-p", type=float, help="of the tokens of --top-k; 1 keeps them all")
    made.add_argument("--temperature", type=float, help="for --top-k, by which logits are divided")
    made.add_argument("--seed", type=int, default=0, help="of weights and draws")
    made.add_argument("--eager", action="store_true", help="do not compile")
    made.add_argument("--backend", default="inductor", help="of torch.compile")
    made.add_argument("--graph", action="store_true", help="capture a step (cuda)")
    made.add_argument("--check", action="store_true", help="compare with the model by torch")
    return made


def range_fault(chosen: argparse.Namespace) -> str | None:
    """Which number means nothing, in one line; None where all do."""
    if chosen.steps < 1 or chosen.page < 1 or chosen.top_k < 0:
        return "--steps and --page are positive, --top-k is not negative"
    if chosen.layers is not None and (chosen.layers < 1 or chosen.checkpoint):
        return "--layers is positive, and for a random model"
    if chosen.top_k == 0 and (chosen.top_p, chosen.temperature) != (None, None):
        return "--top-p and --temperature are for draws: give --top-k, such as --top-k 50"
    if chosen.top_p is not None and not 0 < chosen.top_p <= 1:
        return "--top-p is a probability above 0"
    if chosen.temperature is not None and not 0 < chosen.temperature < math.inf:
        return "--temperature is positive and finite; for the likeliest token leave out --top-k"
    known = torch.compiler.list_backends(exclude_tags=())
    if chosen.backend not in known:
        return f"--backend is one of torch.compile's: {', '.join(known)}"
    return None


def device_fault(name: str) -> str | None:
    """Why torch cannot use a device here, in one line; None where it can."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, ImportError) as error:
        return f"--device {name} cannot be used: {error}".partition("\n")[0]
    return None


def prompts_of(texts: Sequence[str], config: Config, steps: int) -> list[list[int]]:
    """Token numbers of prompts.

    Raises:
        ValueError: a text is no list of tokens, or leaves no room for the answer.
    """
    try:
        prompts = [[int(token) for token in text.split(",")] for text in texts]
    except ValueError:
        raise ValueError(f"--prompt takes token numbers such as 1,2,3, not {texts}") from None
    if not all(0 <= token < config.vocabulary for prompt in prompts for token in prompt):
        raise ValueError(f"--prompt: this model's tokens are 0 to {config.vocabulary - 1}")
    longest = steps + max(map(len, prompts))
    if longest > config.max_position:
        raise ValueError(
            f"prompt and answer have {longest} tokens of at most {config.max_position}"
        )
    return prompts


def session_of(
    chosen: argparse.Namespace,
    config: Config,
    weights: Mapping[str, Tensor],
    prompts: Sequence[Sequence[int]],
) -> Session:
    """A session for the prompts as the command line wants it."""
    dtype, longest = weights["lm_head.weight"].dtype, max(map(len, prompts))
    model = Llama(config, weights, page=chosen.page, longest=longest)
    rows = longest + chosen.steps
    cache = Cache(config, len(prompts), rows, dtype, chosen.device, chosen.page)
    sampler = Sampler(
        len(prompts),
        chosen.device,
        top_k=chosen.top_k,
        top_p=1.0 if chosen.top_p is None else chosen.top_p,
        temperature=1.0 if chosen.temperature is None else chosen.temperature,
        seed=chosen.seed,
    )
    session = Session(
        model, cache, sampler, None if chosen.eager else compiled(model, chosen.backend)
    )
    if chosen.graph:
        session.capture()
    return session


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the prompts; returns 1 where a check fails."""
    made = parser()
    chosen = made.parse_args(arguments)
    fault = range_fault(chosen) or device_fault(chosen.device)
    if fault:
        made.error(fault)
    if chosen.graph and not chosen.device.startswith("cuda"):
        made.error("--graph captures on a CUDA device: give --device cuda")
    dtype = DTYPES[chosen.dtype or ("float32" if chosen.device == "cpu" else "bfloat16")]
    if chosen.checkpoint:
        config, weights = load_checkpoint(chosen.checkpoint, dtype, chosen.device)
    else:
        config = SIZES[chosen.size]
        config = replace(config, layers=chosen.layers or config.layers)
        weights = random_weights(config, dtype, chosen.device, chosen.seed)
    try:
        prompts = prompts_of(chosen.prompt or ["1,2,3,4,5", "7", "11,12,13"], config, chosen.steps)
    except ValueError as error:
        made.error(str(error))
    how = "eager" if chosen.eager else "compiled when the prompts are read and at the first step"
    print(f"making a model of {config.layers} layers, {how}", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    session = session_of(chosen, config, weights, prompts)
    worst = 0.0
    if chosen.check:
        from llama_torch import TorchLlama

        plain = TorchLlama(config, {name: part.float() for name, part in weights.items()})
        worst, answers = largest_difference(session, prompts, chosen.steps, plain.logits)
    else:
        answers = generate(session, prompts, chosen.steps)
    seconds = time.perf_counter() - begin
    for prompt, answer in zip(prompts, answers, strict=True):
        print(f"{','.join(map(str, prompt))} -> {','.join(map(str, answer))}")
    print(f"{len(prompts)} x {chosen.steps} tokens in {seconds:.2f} s, building included")
    limit = LIMITS[dtype]
    if chosen.check:
        verdict = "agree" if worst <= limit else "DISAGREE"
        print(f"logits {verdict} with torch's: largest difference {worst:.1e}, limit {limit:.0e}")
    return int(worst > limit)


if __name__ == "__main__":
    sys.exit(main())
