"""The decoder of `examples/llama.py`: its logits, its cache, its choices, its command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import llama
import pytest
import torch
from llama_torch import TorchLlama
from safetensors.torch import save_file

CONFIG = llama.SIZES["small"]
PROMPTS = [[1, 2, 3, 4, 5], [7], list(range(20, 57))]


# Waves of 64 channels are slowed down, blended and kept; positions pass the original length.
SCALING = llama.Scaling(8.0, 1.0, 4.0, 32)


def session(
    config=CONFIG, weights=None, *, dtype=torch.float32, page=16, prompts=PROMPTS, rows=64,
    forward=None, **choice,
) -> llama.Session:  # fmt: skip
    if weights is None:
        weights = llama.random_weights(config, dtype, "cpu")
    model = llama.Llama(config, weights, page=page, longest=max(map(len, prompts)))
    cache = llama.Cache(config, len(prompts), rows, dtype, "cpu", page)
    sampler = llama.Sampler(len(prompts), "cpu", **choice)
    return llama.Session(model, cache, sampler, forward(model) if forward else None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("page", [16, 64])
def test_logits_agree_with_plain_torch_at_every_step(dtype, page) -> None:
    weights = llama.random_weights(CONFIG, dtype, "cpu", seed=3)
    plain = TorchLlama(CONFIG, {name: part.float() for name, part in weights.items()})
    run = session(weights=weights, dtype=dtype, page=page)
    worst, answers = llama.largest_difference(run, PROMPTS, 12, plain.logits)
    assert worst <= llama.LIMITS[dtype]
    assert [len(answer) for answer in answers] == [12] * len(PROMPTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": 6, "kv_heads": 6, "head_dim": 16},
        {"heads": 8, "kv_heads": 1, "head_dim": 64, "layers": 1},
        {"scaling": SCALING, "head_dim": 64},
        {"rope_base": 1e4, "eps": 1e-3, "vocabulary": 101, "hidden": 96, "inner": 40},
    ],
)
def test_any_extents(changes) -> None:
    config = replace(CONFIG, **changes)
    weights = llama.random_weights(config, torch.float32, "cpu", seed=1)
    plain = TorchLlama(config, weights)
    worst, _ = llama.largest_difference(session(config, weights), PROMPTS, 4, plain.logits)
    assert worst <= llama.LIMITS[torch.float32]


@pytest.mark.parametrize("scaling", [None, SCALING])
def test_one_graph_serves_prompts_and_one_serves_steps(scaling) -> None:
    graphs = []

    def counted(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    config = replace(CONFIG, scaling=scaling)
    eager = llama.generate(session(config), PROMPTS, 6)
    run = session(config, forward=lambda model: llama.compiled(model, counted))
    assert llama.generate(run, PROMPTS, 6) == eager
    assert len(graphs) == 2


def test_the_likeliest_token_is_taken() -> None:
    run = session()
    tokens = run.prefill(PROMPTS)
    assert torch.equal(tokens, run.logits.argmax(-1))


def test_draws_stay_among_the_likeliest_and_depend_on_the_seed() -> None:
    answers = []
    for seed in (1, 1, 2):
        run = session(top_k=3, top_p=0.99, seed=seed)
        tokens = [run.prefill(PROMPTS)]
        for _ in range(8):
            assert (run.logits.topk(3).indices == tokens[-1][:, None]).any(-1).all()
            tokens.append(run.step())
        answers.append(torch.stack(tokens))
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


def test_a_small_share_or_temperature_leaves_one_token() -> None:
    greedy = llama.generate(session(), PROMPTS, 5)
    assert llama.generate(session(top_k=50, top_p=1e-6), PROMPTS, 5) == greedy
    assert llama.generate(session(top_k=50, temperature=1e-3), PROMPTS, 5) == greedy


def test_kept_keys_and_values_of_torch_give_what_whole_texts_give() -> None:
    model = TorchLlama(CONFIG, llama.random_weights(CONFIG, torch.float32, "cpu"))
    model.reserve(2, 16)
    texts = torch.randint(CONFIG.vocabulary, (2, 9))
    model.prefill(texts[:, :8])
    stepped = model.step(texts[:, 8:], torch.tensor([8]))
    whole = torch.stack([model.logits(text) for text in texts])
    torch.testing.assert_close(stepped, whole, rtol=1e-4, atol=1e-4)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint in two files, the head tied to the embedding."""
    weights = llama.random_weights(CONFIG, torch.float32, "cpu", seed=5)
    del weights["lm_head.weight"]
    names = sorted(weights)
    for part in range(2):
        file = tmp_path / f"model-{part}.safetensors"
        save_file({name: weights[name] for name in names[part::2]}, file)
    data = {
        "model_type": "llama", "vocab_size": CONFIG.vocabulary, "hidden_size": CONFIG.hidden,
        "num_hidden_layers": CONFIG.layers, "num_attention_heads": CONFIG.heads,
        "num_key_value_heads": CONFIG.kv_heads, "intermediate_size": CONFIG.inner,
        "max_position_embeddings": CONFIG.max_position, "rope_theta": CONFIG.rope_base,
        "rms_norm_eps": CONFIG.eps, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(data))
    return tmp_path


def test_a_checkpoint_is_read(checkpoint: Path, capsys) -> None:
    config, weights = llama.load_checkpoint(checkpoint, torch.float32, "cpu")
    assert config == CONFIG
    assert weights["lm_head.weight"] is weights["model.embed_tokens.weight"]
    assert llama.main(["--checkpoint", str(checkpoint), "--eager", "--check", "--steps", "3"]) == 0
    assert "logits agree with torch's" in capsys.readouterr().out


SCALED = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip


def change(checkpoint: Path, changes: dict[str, object]) -> None:
    file = checkpoint / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "scaling", "base"),
    [
        ({"rope_scaling": SCALED}, SCALING, CONFIG.rope_base),
        ({"rope_parameters": {**SCALED, "rope_theta": 1e4}}, SCALING, 1e4),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, None, 1e4),
        ({"rope_scaling": None}, None, CONFIG.rope_base),
    ],
)
def test_positions_are_scaled_as_a_checkpoint_says(checkpoint, capsys, changes, scaling, base):
    change(checkpoint, changes)
    config, _ = llama.load_checkpoint(checkpoint, torch.float32, "cpu")
    assert config == replace(CONFIG, scaling=scaling, rope_base=base)
    prompt = ",".join(map(str, range(40)))  # beyond the original length
    arguments = ["--eager", "--check", "--steps", "3", "--prompt", prompt, "--prompt", "7"]
    assert llama.main(["--checkpoint", str(checkpoint), *arguments]) == 0
    assert "logits agree with torch's" in capsys.readouterr().out


def test_a_checkpoint_with_biases_is_refused(checkpoint: Path) -> None:
    save_file({"model.norm.bias": torch.zeros(CONFIG.hidden)}, checkpoint / "more.safetensors")
    with pytest.raises(SystemExit, match="model.norm.bias is added, and Llama adds nothing"):
        llama.load_checkpoint(checkpoint, torch.float32, "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "a checkpoint of bert, not of llama"),
        ({"rope_scaling": {"type": "yarn"}}, "positions are scaled by yarn, not as Llama 3.1 does"),
        ({"num_hidden_layers": 3}, "there is no tensor model.layers.2.input_layernorm.weight"),
        ({"hidden_size": None}, "config.json has no hidden_size"),
        ({"rope_scaling": {"type": "llama3"}}, "config.json has no factor"),
        ({"hidden_act": "gelu"}, "gates by gelu, and Llama by silu"),
        ({"vocab_size": 7}, "embed_tokens.weight has shape [512, 128], not [7, 128]"),
    ],
)
def test_other_checkpoints_are_refused(checkpoint: Path, changes, message: str) -> None:
    change(checkpoint, changes)
    with pytest.raises(SystemExit) as refused:
        llama.load_checkpoint(checkpoint, torch.float32, "cpu")
    assert message in str(refused.value)


def test_as_many_key_heads_as_query_heads_are_not_told(checkpoint: Path) -> None:
    change(checkpoint, {"num_key_value_heads": None, "num_attention_heads": CONFIG.kv_heads})
    config, _ = llama.config_of(checkpoint)
    assert config.heads == config.kv_heads == CONFIG.kv_heads


def test_a_checkpoint_without_weights_is_refused(checkpoint: Path) -> None:
    for file in checkpoint.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(SystemExit, match=r"there is no \*.safetensors, in which weights are read"):
        llama.load_checkpoint(checkpoint, torch.float32, "cpu")


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    for written in (None, "{", "[]"):
        if written is not None:
            (tmp_path / "config.json").write_text(written, encoding="utf-8")
        with pytest.raises(SystemExit, match="config.json cannot be read: "):
            llama.main(["--checkpoint", str(tmp_path)])


def test_the_command_answers_and_checks(capsys) -> None:
    arguments = ["--backend", "eager", "--check", "--steps", "4", "--prompt", "1,2,3"]
    torch._dynamo.reset()
    assert llama.main(arguments) == 0
    out, told = capsys.readouterr()
    assert "making a model of " in told
    assert told.endswith(
        "prompts read; now the first step\nfirst step done; the others are quick\n"
    )
    assert out.startswith("1,2,3 -> ")
    assert "logits agree with torch's" in out


def test_disagreement_fails(monkeypatch, capsys) -> None:
    monkeypatch.setattr(llama, "LIMITS", {torch.float32: -1.0})
    assert llama.main(["--eager", "--check", "--steps", "2"]) == 1
    assert "logits DISAGREE with torch's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--graph"], "--graph captures on a CUDA device: give --device cuda"),
        (["--device", "cuda:99"], "--device cuda:99 cannot be used: "),
        (["--device", "toaster"], "--device toaster cannot be used: "),
        (["--steps", "0"], "--steps and --page are positive, --top-k is not negative"),
        (["--layers", "0"], "--layers is positive, and for a random model"),
        (["--layers", "2", "--checkpoint", "."], "--layers is positive, and for a random model"),
        (["--top-p", "0.9"], "--top-p and --temperature are for draws: give --top-k, such as"),
        (["--temperature", "1"], "--top-p and --temperature are for draws: give --top-k, such as"),
        (["--top-k", "5", "--top-p", "1.5"], "--top-p is a probability above 0"),
        (["--backend", "eagr"], "--backend is one of torch.compile's: "),
        (["--top-k", "5", "--temperature", "0"], "--temperature is positive and finite; for the"),
        (["--top-k", "5", "--temperature", "inf"], "--temperature is positive and finite; for the"),
        (["--prompt", "1,b"], "--prompt takes token numbers such as 1,2,3, not ['1,b']"),
        (["--prompt", "512"], "--prompt: this model's tokens are 0 to 511"),
        (["--prompt", "1", "--steps", "600"], "prompt and answer have 601 tokens of at most 512"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message: str, capsys) -> None:
    with pytest.raises(SystemExit):
        llama.main(["--eager", *arguments])
    assert message in " ".join(capsys.readouterr().err.split())


def test_help_tells_what_it_is(capsys) -> None:
    with pytest.raises(SystemExit):
        llama.main(["--help"])
    assert "A decoder in the shape of Llama 3" in capsys.readouterr().out
