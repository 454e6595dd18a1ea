"""Specs for these tests, read from YAML text by the reader."""

from __future__ import annotations

from tileops._core.spec.adts import read_adts
from tileops._core.spec.model import OpSpec
from tileops._core.spec.reader import read_spec
from tileops._core.spec.source import Source
from tileops._core.spec.yaml12 import read_yaml

SOURCE = Source("test.yaml", "acme")

TYPES = """
RowStore:
  sum:
    dense: {python: acme.layouts.Dense, fields: {cols: Dim}}
    tiled:
      python: acme.layouts.Tiled
      fields: {tile: Dim, order: "'row' | 'col'", padded: Bool}
      invariant: "tile > 0 and (order == 'row' or not padded)"
"""


def spec_of(signature: str, roofline: str = "{flops: 0}", *, extra: str = "") -> OpSpec:
    """A spec from the text of its signature; `extra` holds further top-level fields."""
    body = "\n".join(f"    {line}" for line in signature.strip("\n").splitlines())
    text = (
        "TestFwdOp:\n  family: test\n  status: implemented\n"
        f"  signature:\n{body}\n  workloads: [{{label: none}}]\n  roofline: {roofline}\n"
    )
    text += "".join(f"  {line}\n" for line in extra.splitlines())
    adts = read_adts(read_yaml(TYPES.encode()).root.value, SOURCE)
    return read_spec("TestFwdOp", read_yaml(text.encode()).root.value["TestFwdOp"], SOURCE, adts)
