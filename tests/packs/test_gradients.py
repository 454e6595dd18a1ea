"""The generated tests of gradients pass on a right pair of ops and find a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources import pack
from test_generated import run

SPEC = """\
{op}FwdOp:
  family: acme
  status: implemented
  signature:
    forall: {{S: Shape, T: "DType[float32 | float64]"}}
    inputs:
      x: {{dtype: T, shape: "[*S]"}}
    outputs:
      y: {{dtype: T, shape: "[*S]"}}
  workloads:
  - {{S: [4, 8], dtype_cases: [{{T: float32}}, {{T: float64}}], label: small}}
  roofline: {{flops: "prod(S)"}}
  backward: {{op: {op}BwdOp, inputs: {{dy: grad(y), x: x}}, outputs: {{dx: x}}}}
{op}BwdOp:
  family: acme
  status: implemented
  signature:
    forall: {{S: Shape, T: "DType[float32 | float64]"}}
    inputs:
      dy: {{dtype: T, shape: "[*S]"}}
      x: {{dtype: T, shape: "[*S]"}}
    outputs:
      dx: {{dtype: T, shape: "[*S]"}}
  workloads:
  - {{S: [4, 8], dtype_cases: [{{T: float32}}, {{T: float64}}], label: small}}
  roofline: {{flops: "2 * prod(S)"}}
"""

OPS = """\
class {op}FwdOp(Op):
    def forward(self, x):
        return x * x


class {op}BwdOp(Op):
    def forward(self, dy, x):
        return {factor} * x * dy
"""

REFERENCE = """\
def {function}(x):
    return x * x


def {function}_bwd(dy, x):
    return 2 * x * dy
"""


PAIRS = [("Square", "square", 2), ("Wrong", "wrong", 3)]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with two pairs of ops, of which one computes a wrong gradient."""
    ops, specs, references = "from tileops import Op\n", "", ""
    for op, function, factor in PAIRS:
        specs += SPEC.format(op=op)
        ops += OPS.format(op=op, factor=factor)
        references += REFERENCE.format(function=function)
    files = pack("acme_pair") | {"acme_pair/spec.yaml": specs, "acme_pair/ops.py": ops}
    files["acme_pair/reference.py"] = references
    files["acme-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
    files["acme-1.0.dist-info/entry_points.txt"] = "[tileops.ops]\nacme = acme_pair:SPEC\n"
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "site"


def test_gradients_of_pairs_are_judged(site: Path, tmp_path: Path) -> None:
    words = "gradients_agree or compiled_gradients or differences"
    code, text = run(site, tmp_path, "--tileops-ops", "acme_pair", "-v", "-k", words)
    assert code == 1, text
    for op, word in (("SquareFwdOp", "PASSED"), ("WrongFwdOp", "FAILED")):
        assert f"test_gradients_agree_with_those_of_the_reference[{op}] {word}" in text
        assert f"test_gradients_agree_with_differences[{op}] {word}" in text
        assert f"test_compiled_gradients_are_those_of_eager_calls[{op}] PASSED" in text


TARGET = """\
from tileops import backend

def build(x):
    return lambda x: x * x

backend.register_detector(target="ahead", detect=lambda device: device.type == "cpu")
for op in ("SquareFwdOp", "WrongFwdOp"):
    backend.register_kernel_builder(op=op, target="ahead", build_kernel=build)
"""


def test_a_target_need_not_serve_gradients(site: Path, tmp_path: Path) -> None:
    (site / "acme_ahead.py").write_text(TARGET, encoding="utf-8")
    points = site / "acme-1.0.dist-info" / "entry_points.txt"
    with points.open("a", encoding="utf-8") as file:
        file.write("[tileops.backends]\nahead = acme_ahead\n")
    code, text = run(site, tmp_path, "--tileops-ops", "WrongFwdOp", "-v", "-k", "gradients")
    assert code == 0, text
    assert "test_gradients_that_a_target_lacks_are_refused[WrongFwdOp] PASSED" in text
