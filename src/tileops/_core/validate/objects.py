"""Whether the classes and functions that a spec names, or is named after, can be used."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tileops._core import plugins
from tileops._core.lang.spelling import suggest
from tileops._core.spec.model import OpSpec
from tileops._core.spec.names import reference_name
from tileops._core.spec.objects import class_of, function_of
from tileops.errors import ManifestError


def unusable_class(path: str) -> str | None:
    """Why a dotted name gives no class, or None."""
    return _fault(class_of, path)


def unusable_function(path: str) -> str | None:
    """Why a dotted name gives no function of one argument, or None."""
    return _fault(function_of, path)


def missing_reference(spec: OpSpec) -> str | None:
    """What the package of an op lacks to judge it by; None where it holds a reference."""
    found = _reference(spec)
    return found if isinstance(found, str) else None


def unfit_reference(spec: OpSpec) -> str | None:
    """Why an op's reference cannot be called with the inputs in order and parameters by name.

    None where it can, or where there is none.
    """
    function = _reference(spec)
    if not inspect.isfunction(function):
        return None  # What is compiled need not show what it takes.
    signature, inputs = inspect.signature(function), list(spec.signature.inputs)
    try:
        signature.bind(*inputs, **dict.fromkeys(spec.signature.params))
    except TypeError as error:
        return f"{signature}: {error}"
    positional = [name for name in list(signature.parameters)[: len(inputs)] if name in inputs]
    if positional != sorted(positional, key=inputs.index):
        return f"{signature}: the spec has the inputs in the order {', '.join(inputs)}"
    return None


def _reference(spec: OpSpec) -> object:
    """The reference of an op, or in words why there is none."""
    name, function = f"{spec.home}.reference", reference_name(spec.name)
    try:
        module = plugins.module(name)
    except ModuleNotFoundError as error:
        if not plugins.is_missing(name, error):
            raise
        return f"there is no module {name}, which would hold the function {function}"
    if hasattr(module, function):
        return getattr(module, function)
    defined = [each for each in vars(module) if inspect.isfunction(getattr(module, each))]
    return f"{name} has no function {function}{suggest(function, defined)}"


def _fault(find: Callable[[str], object], path: str) -> str | None:
    try:
        find(path)
    except ManifestError as error:
        return str(error)
    return None
