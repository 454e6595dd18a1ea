"""Which names a spec may use; nothing about what a name stands for."""

from __future__ import annotations

import keyword
import re

from tileops._core.lang.dtypes import BITS

OP_KEY = re.compile(r"[A-Z][A-Za-z0-9]*(Fwd|Bwd)Op")
FAMILY = re.compile(r"[a-z][a-z0-9_]*")
LABEL = re.compile(r"[A-Za-z0-9._-]{1,24}")
RESERVED = frozenset({"out", "self", "target", "dtypes", "instance_key", "inf", "Ellipsis"})
"""The schema of an operator admits no argument called `Ellipsis`."""
MEMBERS = frozenset({
    "built_entries", "compile_op_names", "composition_only", "delegate_for", "delegate_types",
    "eval_roofline", "eval_roofline_read_bytes", "explain", "forward", "held_delegates",
    "injected_parameters", "interfaces", "iter_kernels", "kernel_config", "kernel_for",
    "kernel_for_fields", "kernel_types", "key_for", "last_call", "request_tune", "roof_key",
    "roofline_data_terms", "serving_target",
})  # fmt: skip
"""What every op has beside `dtype`: a parameter is an attribute too, and would hide it."""
RESERVED_FAMILIES = frozenset(
    {"ops", "kernels", "manifest", "backend", "errors", "bench", "cli", "demo", "testing"}
)
"""Modules of the package that are no families."""
BUILTIN_TYPES = frozenset(
    {
        "int",
        "bool",
        "float",
        "str",
        "dict",
        "list",
        "tuple",
        "Number",
        "None",
        "Int",
        "Dim",
        "Bool",
        "Shape",
        "Seq",
        "Maybe",
        "DType",
    }
)
"""Words that types and kinds begin with, which no ADT may be called."""


def key_fault(name: str) -> str | None:
    """Why nothing can be defined under a name, whoever brings it; or None."""
    if not name.isidentifier():
        return f"{name!r} is not an identifier"
    if not name.isascii():
        return f"{name!r} is not ASCII"
    return f"{name!r} is a Python keyword" if keyword.iskeyword(name) else None


def name_fault(name: str) -> str | None:
    """Why a name cannot be declared in a spec, or None."""
    if not name.isidentifier() or not name.isascii():
        return f"{name!r} is not an ASCII identifier"
    if keyword.iskeyword(name):
        return f"{name!r} is a Python keyword"
    if name.startswith("_"):
        return f"{name!r} starts with an underscore"
    if name in RESERVED or name in BITS:
        return f"{name!r} is reserved"
    return None


def parameter_fault(name: str) -> str | None:
    """Why a name cannot be a parameter's, or None."""
    return f"{name!r} is a member of every op" if name in MEMBERS else name_fault(name)


def is_dotted(path: object, least: int) -> bool:
    """Whether this is a dotted name of at least `least` identifiers."""
    if not isinstance(path, str):
        return False
    parts = path.split(".")
    return len(parts) >= least and all(
        part.isidentifier() and part.isascii() and not keyword.iskeyword(part) for part in parts
    )


_ONE_WORD = (
    "W4A16", "W4A8", "W8A8", "FP8", "INT8", "INT4", "C2C", "TopK", "TopP", "MinP", "MoE", "RoPE",
    "YaRN", "MLP", "FFT", "RMS", "NSA", "MLA", "GQA", "SSD", "MHC",
)  # fmt: skip
_WORD = re.compile(
    rf"(?:{'|'.join(_ONE_WORD)})(?![a-z])"  # a name of the field, whatever its capitals
    r"|[A-Z]+(?=[A-Z][a-z])[0-9]*"  # a run of capitals, up to the one that begins a word
    r"|[A-Z]*[a-z]*[0-9]*[a-z0-9]*"
)


def words_of(op: str) -> list[str]:
    """The words of an op's name without its `Op`, in lower case."""
    return [word.lower() for word in _WORD.findall(op.removesuffix("Op")) if word]


def reference_name(op: str) -> str:
    """The name of an op's reference function: in snake case, without `fwd`."""
    return "_".join(word for word in words_of(op) if word != "fwd")
