"""What an op's classes define: names perhaps mistyped, kernels and call specs left unfinished (52).

A member that nothing reads is no fault by itself, so that it is only remarked where its name is
near one that a base declares, and where the class itself reads it nowhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeGuard

import tileops
from tileops._core.lang.spelling import suggest
from tileops._core.spec.model import Finding, OpSpec

if TYPE_CHECKING:
    from tileops.kernels import Kernel


def check_members(spec: OpSpec, cls: type[Any]) -> Iterator[Finding]:
    """Findings about an op class, its kernel types, its interfaces and their call specs."""
    roles = tileops.kernels
    kernels = {key: each for key, each in cls.kernel_types.items() if _is(each, roles.Kernel)}
    interfaces = [each for each in cls.interfaces.values() if _is(each, roles.KernelInterface)]
    for owner in dict.fromkeys([cls, *kernels.values(), *interfaces]):
        yield from _check_names(spec, owner, of_op=owner is cls)
    for key, kernel in kernels.items():
        yield from _check_kernel(spec, key, kernel)
    for interface in interfaces:
        yield from _check_request(spec, getattr(interface, "request", None))


def _check_names(spec: OpSpec, owner: type[Any], *, of_op: bool) -> Iterator[Finding]:
    """Names that a class defines, that nothing is seen to read, and that are near a declared one.

    What a spec calls a parameter or a tensor is a name of the op's own.
    """
    declared = {
        name
        for base in owner.__mro__
        if _is_ours(base)
        for name in (*vars(base), *inspect.get_annotations(base))
        if not name.startswith("_")
    }
    own = [base for base in owner.__mro__ if not _is_ours(base)]
    read = {name for base in own for value in vars(base).values() for name in _names_in(value)}
    named = {*spec.signature.params, *spec.signature.inputs} if of_op else set()
    for base in own:
        for name in vars(base):
            if name.startswith("_") or name in {*declared, *read, *named}:
                continue
            hint = suggest(name, declared, cutoff=0.85)
            if hint:
                message = f"{base.__name__} defines {name!r}, which nothing reads{hint}"
                yield Finding.of(spec.name, "", 52, message, "advisory")


def _is_ours(base: type[Any]) -> bool:
    """Whether a class is one that all ops, kernels or interfaces derive from."""
    roles = tileops.kernels
    bases = (tileops.Op, roles.Kernel, roles.KernelInterface)
    return any(base in root.__mro__ for root in bases)


def _names_in(value: Any) -> tuple[str, ...]:
    """The attributes that a method or a property reads."""
    parts = (value.fget, value.fset) if isinstance(value, property) else (value,)
    functions = [inspect.unwrap(getattr(part, "__func__", part)) for part in parts if part]
    return tuple(
        name
        for function in functions
        if isinstance(function, FunctionType)
        for name in function.__code__.co_names
    )


def _check_kernel(spec: OpSpec, key: str, kernel: type[Kernel]) -> Iterator[Finding]:
    """A kernel type can be constructed, and makes the program that it launches."""
    place = f"kernel type {key!r}: {kernel.__name__}"
    lacking = sorted(getattr(kernel, "__abstractmethods__", ()))
    if lacking:
        message = f"{place} cannot be constructed, it defines no {', '.join(lacking)}"
        yield Finding.of(spec.name, "", 52, message)
    base = tileops.kernels.Kernel
    if kernel.make_program is base.make_program and kernel.program is base.program:
        asking = (vars(each).get("forward") for each in kernel.__mro__ if each is not base)
        if any("program" in _names_in(forward) for forward in asking):
            message = f"{place} launches self.program(), but defines no make_program"
            yield Finding.of(spec.name, "", 52, message)


def _check_request(spec: OpSpec, request: object) -> Iterator[Finding]:
    """Fields of a call spec are fields: annotations alone make none."""
    if not _is(request, tileops.kernels.CallSpec):
        return
    own = [name for name in inspect.get_annotations(request) if not name.startswith("_")]
    if own and "__dataclass_params__" not in vars(request):
        message = f"{request.__name__} is no dataclass, so that {own[0]!r} is no field of it"
        yield Finding.of(spec.name, "", 52, f"{message}; @dataclass(frozen=True) stands above it")


def _is(value: object, base: type[Any]) -> TypeGuard[type[Any]]:
    return isinstance(value, type) and base in value.__mro__
