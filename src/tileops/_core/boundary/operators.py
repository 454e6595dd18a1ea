"""Registered operators: one per effect branch, defined through the low-level library.

The body runs on real tensors and enters the instance; the fake checks and makes empty results.
Defining an operator again under the same class name replaces it, which is harmless because both
act on the instance that the key names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tileops._core.boundary.autograd import Formula
from tileops._core.boundary.faults import refuse_batching
from tileops._core.boundary.naming import NAMESPACE
from tileops._core.locks import make_lock
from tileops._core.notes import add_note
from tileops.errors import SignatureError


class OperatorParts(NamedTuple):
    """What one operator is made of; `text` is the source that its body was compiled from."""

    name: str
    schema: str
    text: str
    body: Callable[..., Any]
    fake: Callable[..., Any]
    formula: Formula | None


class _Registered(NamedTuple):
    owner: str
    schema: str
    text: str
    library: torch.library.Library


_lock = make_lock()
_registered: dict[str, _Registered] = {}
_kept: dict[str, torch.library.Library] = {}
"""What keeps the dispatcher's entries of operators that were defined again."""


def register_operator(
    owner: str, parts: OperatorParts, foreign: str | None = None
) -> torch._ops.OpOverload:
    """Define the operator for the class named `owner` and return it.

    Args:
        owner: name of the class.
        parts: what makes the operator.
        foreign: how errors call a class that shares its name with the op's own; it may use the
            operator, but not replace it.

    Raises:
        TypeError: another class has an operator of this name.
    """
    with _lock:
        known = _registered.get(parts.name)
        same = known is not None and (known.schema, known.text) == (parts.schema, parts.text)
        if known is not None and (known.owner != owner or (foreign and not same)):
            raise TypeError(
                f"{foreign or owner} and {known.owner} would both register the operator "
                f"{NAMESPACE}::{parts.name}"
            )
        if not same:
            if known is not None:
                _keep_entry(parts.name)
                known.library._destroy()
            _registered[parts.name] = _Registered(
                owner, parts.schema, parts.text, _define(owner, parts)
            )
    overload: torch._ops.OpOverload = getattr(torch.ops.tileops, parts.name).default
    return overload


def is_registered(name: str, schema: str) -> bool:
    """Whether the operator of this name still has this schema."""
    return _registered[name].schema == schema


def _define(owner: str, parts: OperatorParts) -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(parts.name + parts.schema, tags=(torch.Tag.needs_exact_strides,))
    library.impl(parts.name, parts.body, "CompositeExplicitAutograd")
    # Registered as by torch: asked who else does so, `inspect` would see after each module's file.
    torch.library.register_fake(
        f"{NAMESPACE}::{parts.name}", parts.fake, lib=library, _stacklevel=0
    )
    torch.library.register_vmap(f"{NAMESPACE}::{parts.name}", refuse_batching(owner), lib=library)
    for device in ("CPU", "CUDA"):
        library.impl(parts.name, _as_declared(parts.name), f"Autocast{device}", with_keyset=True)
    if parts.formula is not None:
        torch.library.register_autograd(
            f"{NAMESPACE}::{parts.name}",
            parts.formula.backward,
            setup_context=parts.formula.setup_context,
            lib=library,
        )
    return library


def _keep_entry(name: str) -> None:
    """Keep the dispatcher's entry of an operator that is about to be undefined.

    Instances of the class as it was go on calling it, and would call what is freed. An entry lives
    for as long as it has a kernel, even one for a device that nothing runs on.
    """
    if name not in _kept:
        _kept[name] = torch.library.Library(NAMESPACE, "IMPL")
        _kept[name].impl(name, lambda *_: None, "PrivateUse3")


_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)


_MIXED = (
    "torch.autocast is enabled: it converts nothing for an op, other calls may return its dtype"
)


def _as_declared(name: str) -> Callable[..., Any]:
    """The operator under automatic mixed precision: all dtypes are those of the signature.

    Without it, products in a kernel that is made of torch would change their dtype.
    """

    def call(_keyset: torch._C.DispatchKeySet, *arguments: Any) -> Any:
        try:
            with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
                return getattr(torch.ops.tileops, name).default(*arguments)
        except SignatureError as error:
            if "dtype" in error.declaration:
                add_note(error, _MIXED)
            raise

    return call


def short_way(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """What the overload wraps: one step less, which only a compiler needs to see."""
    direct: Callable[..., Any] = getattr(operator, "_op", operator)
    return direct


def mark_written(*tensors: torch.Tensor | None) -> None:
    """Tell autograd that tensors were written, whatever a kernel wrote them with."""
    for tensor in tensors:
        if tensor is not None and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
