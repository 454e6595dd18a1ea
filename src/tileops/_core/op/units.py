"""Names of the compute units that price FLOPs, as hardware profiles spell them."""

from __future__ import annotations

_TENSOR_CORE = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
}


def tensor_core(dtype: str) -> str:
    """The tensor-core unit of contractions whose operands have this dtype, by its name."""
    return f"tensor_core.{_TENSOR_CORE[dtype]}"
