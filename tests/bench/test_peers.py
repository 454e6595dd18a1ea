"""Published rows line up with rows of ours of the same op, size and dtype, and with no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.samples import published_table, row
from tileops import reduction
from tileops._core.spec import registry
from tileops.bench.peers import peer_matches
from tileops.bench.published import PeerFault, read_rules

Write = Callable[..., Path]


@pytest.fixture
def published(tmp_path: Path) -> Write:
    """Writes a record of published times with some rows."""
    return partial(published_table, tmp_path / "times.csv")


def norm(**changes: Any) -> dict[str, Any]:
    dims = {"x_shape": [2048, 4096], "normalized_shape": [4096]}
    return {
        "op": "RMSNormFwdOp", "case": "prefill", "dims": dims, "dtype": "bfloat16",
        "peer_tileops_ms": "0.012", "best_other": "flashinfer", "best_other_ms": "0.011",
        "bytes": 33_562_624, **changes,
    }  # fmt: skip


def test_the_same_op_size_and_dtype_line_up(published: Write) -> None:
    (found,) = peer_matches([row("RMSNormFwdOp", "prefill-bfloat16")], published(norm()))
    assert (found.op, found.case, found.ours) == ("RMSNormFwdOp", "prefill-bfloat16", 1e-5)
    assert (found.peer, found.other) == pytest.approx((1.2e-5, 1.1e-5))
    assert found.other_name == "flashinfer"


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "float16"},
        {"op": "LayerNormFwdOp"},
        {"dims": {"x_shape": [2048, 8192], "normalized_shape": [4096]}},
        {"dims": {"x_shape": [2048, 4096], "normalized_shape": [2048, 4096]}},
        {"dims": {"x_shape": [2048, 4096], "bias_shape": [4096]}},
        {"dims": {"x_shape": [2048, 4096], "centred": True}},
        {"peer_tileops_ms": "", "best_other_ms": ""},
    ],
)
def test_anything_else_does_not(published: Write, changes: dict[str, Any]) -> None:
    assert peer_matches([row("RMSNormFwdOp", "x")], published(norm(**changes))) == []


def test_of_several_the_one_of_its_size_is_taken(published: Write) -> None:
    rows = [row("RMSNormFwdOp", "with-weight", bytes=33_562_624), row("RMSNormFwdOp", "without")]
    (found,) = peer_matches(rows, published(norm()))
    assert found.case == "with-weight"


def test_rows_that_are_wrong_line_up_with_nothing(published: Write) -> None:
    wrong = row("RMSNormFwdOp", "x", state="wrong", timing=None)
    assert peer_matches([wrong], published(norm())) == []


def test_rules_rename_ops_shapes_and_parameters(published: Write) -> None:
    tensors = {"q": "float16[32, 1, 8, 64]", "k": "float16[32, 9, 2, 64]", "s": "float16[]"}
    ours = row("DenseFwdOp", "decode", tensors=tensors, bindings={"B": "32", "cap": "None"})
    rule = """
    DecodeFwdOp:
    - op: DenseFwdOp
      only: {kind: short}
      shapes: {q: [q_shape.0, 1, q_shape.1, q_shape.2], k: kv_shape, s: []}
      bindings: {batch: B}
      given: {cap: null}
      ignored: [backend]
    """
    mapping = published().with_name("mapping.yaml")
    mapping.write_text(rule)
    dims = {"q_shape": [32, 8, 64], "kv_shape": [32, 9, 2, 64], "batch": 32, "kind": "short",
            "backend": "x"}  # fmt: skip
    there = norm(op="DecodeFwdOp", dims=dims, dtype="float16")
    assert len(peer_matches([ours], published(there), mapping)) == 1
    long = norm(op="DecodeFwdOp", dims={**dims, "kind": "long"}, dtype="float16")
    assert peer_matches([ours], published(long), mapping) == []


def test_rows_made_from_a_published_one_come_first(published: Write) -> None:
    rows = [
        row("RMSNormFwdOp", "with-weight", bytes=33_562_624),
        row("RMSNormFwdOp", "RMSNormFwdOp/prefill"),
    ]
    (found,) = peer_matches(rows, published(norm()))
    assert found.case == "RMSNormFwdOp/prefill"


def test_tensors_without_a_stated_shape_can_be_demanded(published: Write) -> None:
    mapping = published().with_name("mapping.yaml")
    mapping.write_text("RMSNormFwdOp: {op: RMSNormFwdOp, passed: [weight]}")
    ours = row("RMSNormFwdOp", "x")
    assert len(peer_matches([ours], published(norm()), mapping)) == 1
    del ours["tensors"]["weight"]
    assert peer_matches([ours], published(norm()), mapping) == []


def test_no_rules_is_no_op_of_ours(published: Write) -> None:
    mapping = published().with_name("mapping.yaml")
    mapping.write_text("RMSNormFwdOp: []")
    assert peer_matches([row("RMSNormFwdOp", "x")], published(norm()), mapping) == []


def test_rules_multiply_extents(published: Write) -> None:
    tensors = {"q": "float16[64, 8, 32]", "s": "float16[1]"}
    ours = row("PackedFwdOp", "x", tensors=tensors, bindings={"B": "4"})
    mapping = published().with_name("mapping.yaml")
    shapes = "{q: [q_shape.0*q_shape.1, q_shape.2, 32]}"
    mapping.write_text(
        f"BatchFwdOp: {{op: PackedFwdOp, shapes: {shapes}, sizes: {{B: q_shape.0}}}}"
    )
    there = norm(op="BatchFwdOp", dims={"q_shape": [4, 16, 8, 32]}, dtype="float16")
    assert len(peer_matches([ours], published(there), mapping)) == 1
    other = norm(op="BatchFwdOp", dims={"q_shape": [8, 8, 8, 32]}, dtype="float16")
    assert peer_matches([ours], published(other), mapping) == []
    nothing = norm(op="BatchFwdOp", dims={}, dtype="float16")
    assert peer_matches([ours], published(nothing), mapping) == []


def test_the_mapping_names_ops_of_the_tree() -> None:
    named = {rule.op for rules in read_rules().values() for rule in rules}
    assert named <= set(registry.specs())


def test_files_of_another_form_are_refused(tmp_path: Path, published: Write) -> None:
    table = published()
    with pytest.raises(PeerFault, match="No such file"):
        peer_matches([], tmp_path / "none.csv")
    with pytest.raises(PeerFault, match="none.yaml: No such file"):
        peer_matches([], table, tmp_path / "none.yaml")
    mapping = tmp_path / "mapping.yaml"
    for text in (
        "A: {shape: 1}",
        "[]",
        "A: [",
        "A: 3",
        "A: {op: 3}",
        "A: {op: B, shapes: 3}",
        "A: {op: B, ignored: x}",
    ):
        mapping.write_text(text)
        with pytest.raises(PeerFault, match="not a mapping of published ops"):
            peer_matches([], table, mapping)
    table.write_text("op,case\n")
    with pytest.raises(PeerFault, match="misses the columns best_other, best_other_ms, bytes, "):
        peer_matches([], table)
    header, whole = published(norm()).read_text().splitlines()
    table.write_text(f"{header}\n{whole}\nRMSNormFwdOp,cut\n")
    with pytest.raises(PeerFault, match="times.csv: line 3 ends too early"):
        peer_matches([], table)
    with pytest.raises(PeerFault, match=r"times.csv: line 2 has the dims \[1\], no object"):
        peer_matches([], published(norm(dims=[1])))
    for time in ("0", "nan", "-1"):
        with pytest.raises(PeerFault, match=f"times.csv: {time} ms is no time"):
            peer_matches([], published(norm(peer_tileops_ms=time)))


@pytest.mark.parametrize(
    "rule",
    [
        "shapes: {x: [x_shape.9, 4096]}",
        "shapes: {x: [x_shape.a]}",
        "shapes: {x: [normalized_shape.0/0]}",
        "shapes: {x: [null]}",
        "shapes: {x: 3}",
        "lengths: {lens: [1, 2, 3]}",
        "sizes: {B: x_shape*x_shape}",
    ],
)
def test_rules_that_do_not_suit_a_row_are_told(tmp_path: Path, published: Write, rule: str) -> None:
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(f"RMSNormFwdOp: {{op: RMSNormFwdOp, {rule}}}")
    told = 'a rule for RMSNormFwdOp does not suit {"x_shape": '
    with pytest.raises(PeerFault, match=re.escape(told)):
        peer_matches([row("RMSNormFwdOp", "x")], published(norm()), mapping)


def test_what_is_published_without_axes_is_along_the_last() -> None:
    rules = read_rules()
    stated = {"ArgmaxFwdOp", "ArgminFwdOp"}
    named_otherwise = {"VectorNormFwdOp", "SoftmaxBwdOp", "LogSoftmaxBwdOp"}
    for name in reduction.__all__:
        param = registry.lookup(name).signature.params.get("dim")
        if getattr(param, "default", 0) is None:
            assert (name in rules) != (name in stated | named_otherwise), name
            assert all(rule.given["dim"] == -1 for rule in rules.get(name, ())), name
