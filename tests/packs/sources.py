"""Files of small packs, as text."""

from __future__ import annotations

SPEC = """\
{op}:
  family: {package}
  status: implemented
  signature:
    forall: {{S: Shape, T: "DType[float32 | float16]"}}
    inputs:
      x: {{dtype: T, shape: "[*S]"}}
    outputs:
      y: {{dtype: T, shape: "[*S]"}}
  workloads:
  - {{S: [4, 8], dtype_cases: [{{T: float32}}], label: small}}
  roofline: {{flops: "prod(S)"}}
"""

OPS = """\
from dataclasses import dataclass

import torch

from tileops import Op
from tileops.kernels import CallSpec, KernelInterface, PortableKernel

__all__ = ["{op}"]


@dataclass(frozen=True)
class Call(CallSpec):
    n: int
    dtype: torch.dtype


class Interface(KernelInterface):
    request = Call

    def forward(self, x):
        '''Twice `x`.'''


class TorchKernel(PortableKernel, Interface):
    '''Twice, by torch.'''

    def forward(self, x):
        return x * 2


class {op}(Op):
    kernel_types = {{"torch": TorchKernel}}
    interfaces = {{"twice": Interface}}

    def forward(self, x):
        x = x.contiguous()
        return self.kernel_for("twice", Call(x.numel(), x.dtype, device=x.device))(x)
"""

REFERENCE = """\
def {function}(x):
    return x * 2
"""

INIT = """\
from pathlib import Path

SPEC = Path(__file__).with_name("spec.yaml")
"""


def pack(package: str, op: str = "TwiceFwdOp", function: str = "twice") -> dict[str, str]:
    """A pack of one op that doubles its input; its entry point is `<package>:SPEC`."""
    names = {"package": package, "op": op, "function": function}
    return {
        f"{package}/__init__.py": INIT,
        f"{package}/spec.yaml": SPEC.format(**names),
        f"{package}/ops.py": OPS.format(**names),
        f"{package}/reference.py": REFERENCE.format(**names),
    }
