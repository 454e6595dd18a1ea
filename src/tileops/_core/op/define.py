"""What the definition of an op class installs on it.

Everything is decided from the class's name: its spec is looked up leniently, so that faults of
other specs do not matter. A spec that is registered later changes nothing. `ABCMeta` computes the
abstract methods after these steps, so generated members count as implemented.
"""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from tileops._core.boundary.boundary import make_boundary, make_entry
from tileops._core.boundary.parameters import call_parameters, call_signature
from tileops._core.op.calls import Calls, calling
from tileops._core.op.stack import NOTHING, held_tensor
from tileops._core.runtime.plan import signature_plan_for
from tileops._core.spec.model import Param
from tileops._core.spec.registry import lookup
from tileops.errors import ManifestError

if TYPE_CHECKING:
    from tileops._core.op.base import Op
    from tileops._core.runtime.construction import Constructed
    from tileops._core.runtime.plan import _SignaturePlan
    from tileops._core.spec.model import OpSpec

_CALL = calling(Calls._enter_call).__code__
"""What every `__call__` runs that is not written by hand."""
_DECLARATIONS = frozenset({"kernel_types", "interfaces", "delegate_types"})

_classes: weakref.WeakValueDictionary[str, type[Op]] = weakref.WeakValueDictionary()


def find_class(name: str) -> type[Op] | None:
    """The op class of this name that was defined last, where its spec has its home."""
    return _classes.get(name)


def define(cls: type[Op]) -> None:
    """Install what the spec of `cls` gives it; what it declares is read-only from here on.

    Raises:
        TypeError: `forward` does not follow the spec, or an operator name is taken.
    """
    for name in _DECLARATIONS & vars(cls).keys():
        declared = vars(cls)[name]
        if isinstance(declared, dict):
            setattr(cls, name, MappingProxyType(dict(declared)))
    written = dict(vars(cls))
    cls._parameter_names = ()
    spec = lookup(cls.__name__)
    if spec is None or spec.is_for(cls.__module__):
        _classes[cls.__name__] = cls
    if spec is not None:
        _install_all(cls, spec)
    now = vars(cls)
    cls._replaced_members = tuple(name for name in written if now[name] is not written[name])
    if "_signature" in now:
        _install_held(cls)


def _install_all(cls: type[Op], spec: OpSpec) -> None:
    """The members that a class with a spec gets."""
    cls._spec = spec
    cls.compile_op_names = ()
    try:
        plan = signature_plan_for(cls.__name__)
    except ManifestError as error:
        _install_refusal(cls, str(error))
        return
    assert plan is not None
    cls._parameter_names = tuple(plan.parameter_names)
    values = (name for name, p in spec.signature.params.items() if isinstance(p, Param))
    cls._fixed_names = frozenset({"target", *values})
    _install_checks(cls, plan)
    if spec.roofline is not None:
        _install_roofline(cls, plan)
    if not getattr(cls.forward, "__isabstractmethod__", False):
        _install_entry(cls, spec, plan)


def _install_checks(cls: type[Op], plan: _SignaturePlan) -> None:
    def _check_construction(self: Op) -> Constructed:
        """Check what construction decides and return the solved values."""
        return plan.check_construction(self)

    def _infer_output_shapes(
        self: Op, *shapes: Any, dtypes: Mapping[str, str] | None = None, **named: Any
    ) -> Any:
        """Output shapes from input shapes, given in order or by name, None where absent."""
        self._demand_constructed()
        count = len(plan.input_names)
        if len(shapes) > count:
            raise plan.misuse(f"takes the shapes of {count} inputs, got {len(shapes)}")
        given = dict(zip(plan.input_names, shapes, strict=False))
        twice = [name for name in named if name in given]
        if twice:
            raise plan.misuse(f"the shape of {twice[0]} is given twice")
        given |= named
        return plan.output_shapes(self, given, dtypes)

    cls._signature = plan
    _install(cls, _check_construction)
    _install(cls, _infer_output_shapes)


def _install_held(cls: type[Op]) -> None:
    """The attributes of construction-time tensors that calls may move.

    One that the class keeps in a slot or makes a property of is the same to all threads.
    """
    for name in cls._signature.moved_names:
        default = inspect.getattr_static(cls, name, NOTHING)
        if not hasattr(type(default), "__set__"):
            setattr(cls, name, held_tensor(name, default))


def _install_roofline(cls: type[Op], plan: _SignaturePlan) -> None:
    def eval_roofline(self: Op) -> tuple[int, int]:
        """FLOPs and bytes of the last completed call, by the spec's formulas."""
        return self._evaluated(plan)

    _install(cls, eval_roofline)


def _install_entry(cls: type[Op], spec: OpSpec, plan: _SignaturePlan) -> None:
    parameters = call_parameters(cls, spec, bounded=spec.has_boundary)
    cls._call_parameters = parameters
    enter: Callable[..., Any] = Calls._enter_call
    if spec.has_boundary:
        boundary = make_boundary(spec, parameters, plan.effects, cls.__module__)
        cls._call_entry, enter = boundary, boundary.call
        _install(cls, enter)
        cls.compile_op_names = tuple(sorted(boundary.operator_names))
    else:
        cls._call_entry = make_entry(spec, parameters, plan.effects)
    if "__call__" not in vars(cls):
        # Found on the class itself, it takes one guard in a trace and not one for each base.
        inherited: Any = cls.__call__
        is_ours = inherited.__code__ is _CALL
        call: Any = calling(enter) if is_ours else _copied(inherited)
        call.__signature__ = call_signature(spec, parameters)
        cls.__call__ = call  # type: ignore[method-assign]


def _copied(function: Any) -> Any:
    """A copy of a function, running the same code."""
    copied = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__doc__, copied.__qualname__ = function.__doc__, function.__qualname__
    return copied


def _install_refusal(cls: type[Op], fault: str) -> None:
    """Members that refuse construction, for a spec that yields no plan."""

    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise ManifestError(fault)

    for name in ("_check_construction", "_infer_output_shapes"):
        setattr(cls, name, refuse)
    warnings.warn(f"{cls.__name__} cannot be constructed: {fault}", RuntimeWarning, stacklevel=4)


def _install(cls: type[Op], function: Callable[..., Any]) -> None:
    function.__qualname__ = f"{cls.__qualname__}.{function.__name__}"
    function.__module__ = cls.__module__
    setattr(cls, function.__name__, function)
