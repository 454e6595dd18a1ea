"""Types of the public API, asserted by the type checker; never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import assert_type

import tileops
import tileops.ops
from tileops import backend, manifest
from tileops.gemm import GemmFwdOp
from tileops.kernels import Kernel
from tileops.norm import RMSNormFwdOp

norm = RMSNormFwdOp(normalized_shape=[64], eps=1e-6, target=backend.BUILTIN)
assert_type(norm, RMSNormFwdOp)
assert_type(norm.serving_target, str | None)
assert_type(norm.eval_roofline(), tuple[int, int])
assert_type(norm.eval_roofline_read_bytes(), int | None)
assert_type(norm.roof_key(), str)
assert_type(norm.kernel_config(), Mapping[str, Any] | None)
assert_type(norm.held_delegates(), tuple[tileops.Op, ...])
assert_type(next(norm.iter_kernels()), Kernel)
assert_type(norm.last_call.indices, Mapping[str, Any])
assert_type(norm.last_call.device, torch.device | None)
assert_type(str(norm.explain(torch.ones(2, 64))), str)

assert_type(GemmFwdOp.compile_op_names, tuple[str, ...])
GemmFwdOp(trans_a="yes")  # type: ignore[arg-type]
GemmFwdOp(transpose=True)  # type: ignore[call-arg]

assert_type(tileops.FAMILIES, tuple[str, ...])
assert_type(tileops.list_ops("norm", "implemented"), list[str])
assert_type(tileops.ops.RMSNormFwdOp([64]), RMSNormFwdOp)
assert_type(manifest.validate("RMSNormFwdOp").ok, bool)
assert_type(backend.registered_targets(), tuple[str, ...])
