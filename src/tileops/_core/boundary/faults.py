"""Arguments that a call refuses before anything else happens.

These faults are found before the dispatcher sees the arguments; its own complaint would be a bare
`RuntimeError` that names an operator nobody wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor, fake_tensor_tls
from torch.autograd import forward_ad

from tileops._core.boundary.parameters import CallParameter
from tileops._core.boundary.scalars import unfit
from tileops._core.lang.values import shown, shown_with_type
from tileops._core.runtime.placement import requires_grad
from tileops._core.runtime.tensors import name_of_dtype, unusual
from tileops._core.runtime.tracing import active_fake_mode
from tileops.errors import SignatureError, SignatureTypeError


def signature_text(parameters: Sequence[CallParameter]) -> str:
    """The parameters as a caller writes them."""
    parts = []
    for place, parameter in enumerate(parameters):
        if parameter.keyword_only and not (place and parameters[place - 1].keyword_only):
            parts.append("*")
        default = "" if parameter.required else f"={shown(parameter.default)}"
        parts.append(f"{parameter.name}{default}")
    return f"({', '.join(parts)})"


def refuse_input(op: Any, name: str, value: object) -> NoReturn:
    """Refuse an input that is None but required, no tensor, or none that kernels take."""
    if value is None:
        expected = signature_text(op._call_parameters)
        raise _type_error(op, f"inputs.{name}", f"required, got None\n  expected {expected}")
    _refuse_tensor(op, f"inputs.{name}", value)


def refuse_out(op: Any, value: object) -> NoReturn:
    """Refuse an `out` that is no tensor, or none that kernels can write."""
    _refuse_tensor(op, "out", value)


def unserved_input(
    op: Any, args: Sequence[object], kwargs: Mapping[str, object]
) -> SignatureError | None:
    """The fault of the first input of a form that the dispatcher knows no kernel for, or None."""
    for name, value in _by_name(op, args, kwargs).items():
        fault = unusual(value) if isinstance(value, torch.Tensor) else None
        if fault is not None:
            return _value_error(op, f"inputs.{name}", fault)
    return None


def _by_name(op: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call that bind."""
    names = [parameter.name for parameter in op._call_parameters]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _refuse_tensor(op: Any, path: str, value: object) -> NoReturn:
    if not isinstance(value, torch.Tensor):
        raise _type_error(op, path, f"expected a tensor, got {shown_with_type(value)}")
    fault = unusual(value, written=True)
    assert fault is not None
    raise _value_error(op, path, fault)


def refuse_mixture(op: Any, tensors: Mapping[str, torch.Tensor | None]) -> None:
    """Refuse fake tensors beside real ones or those of another mode, unless theirs admits it."""
    there = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    modes = {id(mode): mode for mode in map(_mode_of, there.values()) if mode is not None}
    if len(modes) == 1:
        (mode,) = modes.values()
        if _admits_real_tensors(mode) or all(
            _mode_of(tensor) is not None for tensor in there.values()
        ):
            return
    numbers = {key: f" of mode {number}" for number, key in enumerate(modes, 1)}
    listed = []
    for name, tensor in there.items():
        mode = _mode_of(tensor)
        which = numbers[id(mode)] if len(modes) > 1 and mode is not None else ""
        listed.append(f"{'real' if mode is None else 'fake'}{which} ({name})")
    wanted = "real tensors alone, or fake ones of one mode"
    raise _value_error(op, "inputs", f"expected {wanted}, got {', '.join(listed)}")


def stray_real_tensors(
    op: Any, args: Sequence[object], kwargs: Mapping[str, object]
) -> SignatureError | None:
    """The fault of real tensors that a call takes into an active fake mode, or None."""
    mode = active_fake_mode()
    if mode is None or _admits_real_tensors(mode):
        return None
    real = [
        name
        for name, value in _by_name(op, args, kwargs).items()
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
    ]
    if not real:
        return None
    listed = ", ".join(f"real ({name})" for name in real)
    return _value_error(op, "inputs", f"expected fake tensors under a fake mode, got {listed}")


def _admits_real_tensors(mode: Any) -> bool:
    override: bool | None = fake_tensor_tls.allow_non_fake_inputs_override
    return bool(mode.allow_non_fake_inputs) if override is None else override


def _mode_of(tensor: torch.Tensor) -> Any:
    """The mode of a fake tensor, None for a real one."""
    return tensor.fake_mode if isinstance(tensor, FakeTensor) else None


def refuse_execution(op: Any, name: str, kind: type, value: object) -> NoReturn:
    """Refuse an execution argument of the wrong type, or a value that no operator takes."""
    wanted = None if isinstance(value, bool) else unfit(value, kind)
    if wanted is None:
        raise _type_error(op, name, f"expected {kind.__name__}, got {shown_with_type(value)}")
    raise _value_error(op, name, f"expected {wanted}, got {shown(value)}")


def outdated(op: Any) -> RuntimeError:
    """The fault of an instance whose class has operators of other arguments by now."""
    return RuntimeError(
        f"{op._spec.name} was defined again with other arguments, and its operators with it: "
        "construct the op again, and compile again what was compiled with it"
    )


def refuse_gradient(op: Any, tensors: Mapping[str, Any]) -> NoReturn:
    """Refuse tensors that require grad where no gradient can be computed."""
    names = [
        name for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad
    ]
    backward, cause = op._spec.backward, "the spec names no backward op"
    if backward is not None and tensors.get("out") is not None:
        cause = f"{cause} for calls with out"
    elif backward is not None:
        names = [name for name in names if name not in backward.outputs.values()]
        cause = f"{backward.op} gives no gradient of it"
    raise _no_gradient(op, ", ".join(names), cause)


def refuse_gradient_dtype(op: Any, name: str, tensor: torch.Tensor) -> NoReturn:
    """Refuse an input that requires grad in a dtype in which the backward op gives none."""
    dtype = name_of_dtype(tensor.dtype)
    raise _no_gradient(op, name, f"{op._spec.backward.op} gives no gradient in {dtype}")


def _no_gradient(op: Any, names: str, cause: str) -> RuntimeError:
    mirrored = op._spec.ref_api or ""
    instead = f", or {mirrored}, which it mirrors" if mirrored.startswith("torch.") else ""
    return RuntimeError(
        f"{op._spec.name}: {names} requires grad, but {cause}; call it under torch.no_grad() for "
        f"detached results{instead}"
    )


def refuse_second_derivative(op: Any, backward: Any, tensors: Mapping[str, Any]) -> None:
    """Refuse a gradient that is to be differentiated in turn where the backward op has none."""
    leaves = [tensor for tensor in tensors.values() if tensor is not None and tensor.requires_grad]
    if leaves and backward._spec.backward is None:
        raise RuntimeError(
            f"{op._spec.name}: a second derivative goes through {backward._spec.name}, whose spec "
            "names no backward op; compute the gradient without create_graph=True"
        )


def refuse_held(op: Any, names: Sequence[str]) -> None:
    """Refuse construction-time tensors that require grad, if any does.

    A trace that looked at them would make them its inputs: there the fake asks.
    """
    found = [name for name in names if requires_grad(op, name)]
    if found:
        raise RuntimeError(
            f"{op._spec.name}: {', '.join(found)} requires grad, but no gradient reaches a tensor "
            "that was passed at construction; detach it, or call the op under torch.no_grad() for "
            "detached results"
        )


def refuse_tangents(op: Any, tensors: Mapping[str, Any]) -> None:
    """Refuse inputs that carry a tangent, if any does."""
    names = [
        name
        for name, tensor in tensors.items()
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None
    ]
    if names:
        raise RuntimeError(
            f"{op._spec.name}: {', '.join(names)} carries a tangent, but ops have no forward-mode "
            "derivatives; detach what is to count as a constant"
        )


def refuse_unbacked(op: Any, error: RuntimeError) -> None:
    """Say what to do where torch refuses to decide by a size that has no value in a trace.

    The type stays: a compiler that may break its graph does so there.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode  # late: slow

    if isinstance(error, GuardOnDataDependentSymNode):
        (reason, *_) = str(error).splitlines()
        raise GuardOnDataDependentSymNode(
            error.cond,
            f"{op._spec.name}: its signature depends on the length of an axis that has no value in "
            "a trace; mark the axis by mark_dynamic instead of mark_unbacked, or call the op "
            f"outside the graph where a node computes the length\n  {reason}",
        ) from error


def is_transformed() -> bool:
    """Whether a call is inside a transform of `torch.func`; a constant of a trace."""
    return bool(torch._C._are_functorch_transforms_active())


# As by `torch.compiler.assume_constant_result`, which would import the compiler.
is_transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]


def refuse_transform(op: Any, tensors: Mapping[str, Any]) -> NoReturn:
    """Refuse inputs by which `torch.func` differentiates: it takes no formula of an operator."""
    names = [
        name for name, tensor in tensors.items() if tensor is not None and tensor.requires_grad
    ]
    raise RuntimeError(
        f"{op._spec.name}: torch.func cannot differentiate an op by {', '.join(names)}; call "
        "torch.autograd.grad or backward()"
    )


def refuse_differentiated(op: Any, tensors: Mapping[str, Any]) -> None:
    """Refuse inputs by which a transform that is traced differentiates, if any is.

    Views tell what the tensors themselves do not: for a compiler these are as outside.
    """
    views = {name: t if t is None else t.view_as(t) for name, t in tensors.items()}
    if any(view is not None and view.requires_grad for view in views.values()):
        refuse = refuse_gradient if op._spec.backward is None else refuse_transform
        refuse(op, views)


def refuse_batching(owner: str) -> Callable[..., NoReturn]:
    """The batching rule of an operator of the class named `owner`: there is none."""

    def refuse(*_arguments: object) -> NoReturn:
        raise RuntimeError(
            f"{owner}: torch.func.vmap cannot look into an op; call it on the whole batch where "
            "its shapes allow that, or in a loop"
        )

    return refuse


def binding_fault(
    op: Any, args: Sequence[object], kwargs: Mapping[str, object]
) -> SignatureTypeError | None:
    """The fault for which arguments do not bind to `forward`, or None when they do."""
    parameters: Sequence[CallParameter] = op._call_parameters
    expected = f"\n  expected {signature_text(parameters)}"
    positional = [parameter for parameter in parameters if not parameter.keyword_only]
    if len(args) > len(positional):
        count = f"takes {len(positional)} positional arguments, got {len(args)}"
        return _type_error(op, "", f"{count}{expected}")
    names = {parameter.name for parameter in parameters}
    for name in kwargs:
        if name == "out" and name not in names:
            return _type_error(op, "out", f"no output takes a buffer{expected}")
        if name not in names:
            return _type_error(op, "", f"unknown argument {shown(name)}{expected}")
    given = {parameter.name for parameter in positional[: len(args)]}
    for name in kwargs:
        if name in given:
            return _type_error(op, "", f"argument {name!r} is given twice{expected}")
    for parameter in parameters:
        if parameter.required and parameter.name not in given and parameter.name not in kwargs:
            if parameter.role == "input":
                fault = f"required, got None{expected}"
                return _type_error(op, f"inputs.{parameter.name}", fault)
            return _type_error(op, parameter.name, f"required argument is missing{expected}")
    return None


def _type_error(op: Any, path: str, fault: str) -> SignatureTypeError:
    spec = op._spec
    return SignatureTypeError(spec.name, "call", path, None, fault, origin=str(spec.location))


def _value_error(op: Any, path: str, fault: str) -> SignatureError:
    spec = op._spec
    return SignatureError(spec.name, "call", path, None, fault, origin=str(spec.location))
