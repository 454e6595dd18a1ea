"""The demo as a whole: right embeddings, right ranking, honest report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from tileops import TileOpsError
from tileops.demo import (
    BUILT_IN_SENTENCES,
    DIFFERENCE_LIMIT,
    DemoInputError,
    DemoReport,
    reference,
    run,
    run_demo,
)
from tileops.demo.meter import Meter
from tileops.demo.model import SentenceEncoder
from tileops.demo.weights import EncoderConfig

OPS = {
    "LayerNormFwdOp": 13,
    "GemmFwdOp": 37,
    "AddFwdOp": 50,
    "GeluFwdOp": 6,
    "GroupedQueryAttentionVarlenFwdOp": 6,
    "MeanFwdOp": len(BUILT_IN_SENTENCES),
    "VectorNormFwdOp": 1,
    "DivFwdOp": 1,
}


@pytest.fixture(scope="module")
def report() -> DemoReport:
    return run_demo(BUILT_IN_SENTENCES)


def test_embeddings_agree_with_plain_torch(report: DemoReport) -> None:
    assert report.passed
    assert report.largest_difference < 1e-5


def test_ranking_is_by_meaning(report: DemoReport) -> None:
    assert report.query == BUILT_IN_SENTENCES[0]
    assert [ranked.similarity for ranked in report.ranking] == sorted(
        (ranked.similarity for ranked in report.ranking), reverse=True
    )
    order = [ranked.sentence for ranked in report.ranking]
    about_speed = {BUILT_IN_SENTENCES[index] for index in (1, 2, 5, 7)}
    assert set(order[:4]) == about_speed
    assert set(order[4:]) == set(BUILT_IN_SENTENCES[1:]) - about_speed


def test_every_op_is_counted_and_served(report: DemoReport) -> None:
    assert {use.op: use.calls for use in report.ops} == OPS
    for use in report.ops:
        assert use.kernels
        assert use.target
        assert use.seconds > 0
        assert use.flops > 0
        assert use.bytes > 0


def test_work_is_what_the_formulas_give(report: DemoReport) -> None:
    gemm = next(use for use in report.ops if use.op == "GemmFwdOp")
    tokens, hidden, inner, layers = report.tokens, 384, 1536, 6
    sentences = len(BUILT_IN_SENTENCES)
    products = layers * tokens * hidden * (4 * hidden + 2 * inner)
    assert gemm.flops == 2 * (products + sentences * sentences * hidden)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.01 * DIFFERENCE_LIMIT])
def test_a_wrong_embedding_fails(report: DemoReport, value: float) -> None:
    assert not replace(report, largest_difference=value).passed


def test_a_wrong_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reference.embed
    monkeypatch.setattr(
        run.reference, "embed", lambda *args, **kwargs: right(*args, **kwargs) + 2e-4
    )
    report = run_demo(["one sentence", "another one"])
    assert report.largest_difference == pytest.approx(2e-4, rel=0.05)
    assert not report.passed


def test_a_long_sentence_is_reported_as_cut() -> None:
    long = "tile " * 400
    report = run_demo(["short", long])
    assert report.cut == (long,)
    assert report.passed


@pytest.mark.parametrize("device", ["meta", "nonsense", "cuda:99", "privateuseone", "fpga"])
def test_an_unusable_device_is_refused(device: str) -> None:
    with pytest.raises(TileOpsError, match=f"device {device} cannot be used") as raised:
        run_demo(BUILT_IN_SENTENCES, device)
    assert len(str(raised.value)) < 300, "torch's list of backends is left out"


def test_a_missing_tensor_is_named(
    weights: Mapping[str, torch.Tensor], config: EncoderConfig
) -> None:
    name = "encoder.layer.3.output.dense.bias"
    partial = {key: tensor for key, tensor in weights.items() if key != name}
    device = torch.device("cpu")
    encoder = SentenceEncoder(partial, config, device, Meter(device))
    with pytest.raises(DemoInputError, match=f"lack the tensor {name}"):
        encoder.embed([(101, 2023, 102)])


@pytest.mark.gpu
def test_the_demo_runs_on_a_gpu() -> None:
    report = run_demo(BUILT_IN_SENTENCES, "cuda")
    assert report.passed
