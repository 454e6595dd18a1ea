"""Raising what a generated function found: parameters, failed steps, results, formulas.

One `Faults` serves one plan in one phase. A generated function names a step by its number and
hands over its variables; everything an error says is worked out here, after the check failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from tileops._core.lang.evaluate import evaluate
from tileops._core.lang.faults import EvaluationFault
from tileops._core.lang.members import Accepted
from tileops._core.lang.values import shown
from tileops._core.runtime.algebraic import AdtScope, Classes, bad_field
from tileops._core.runtime.defensive_copies import owned, owned_algebraic
from tileops._core.runtime.record import SignatureCall
from tileops._core.runtime.symbolic import demand
from tileops._core.signature.plan import CheckParam, Plan
from tileops._core.spec.model import Constructor, Location, Param
from tileops.errors import ManifestError, Phase, SignatureError, SignatureTypeError

if TYPE_CHECKING:
    from tileops._core.runtime.wording import Reason

_MISSING: Any = object()


class Faults:
    """What generated source asks for when something is wrong.

    Args:
        plan: the plan of the class.
        phase: the step list that the numbers refer to.
        target: the target whose kernel returned the result that is judged; None for no target.
    """

    def __init__(self, plan: Plan, phase: Phase, target: str | None = None) -> None:
        self.plan = plan
        self.phase = phase
        self.target = target
        self._targets: dict[str, Faults] = {}
        self._steps = plan.construction if phase == "construction" else plan.call
        self._classes = Classes(plan.spec.adts)

    # Steps

    def hold(self, ok: Any, number: int, variables: Mapping[str, Any]) -> None:
        """Demand a truth; a symbolic one becomes an assertion of the traced program.

        Raises:
            SignatureError: it does not hold.
        """
        if isinstance(ok, torch.SymBool):
            demand(ok, lambda: self.error(number, variables))
        elif not ok:
            raise self.error(number, variables)

    def error(
        self, number: int, variables: Mapping[str, Any], reason: Reason = None
    ) -> SignatureError:
        """The error of a step that failed."""
        from tileops._core.runtime.known import Known
        from tileops._core.runtime.wording import fault_of

        known = Known(self.plan, self.phase, number, variables)
        fault = fault_of(self._steps[number], known, reason)
        return fault.error(
            self.plan.spec.name,
            self.phase,
            fault.path,
            fault.text,
            fault.fault,
            bindings=tuple(known.bindings()),
            origin=str(fault.location),
        )

    def inference(
        self, name: str, variables: Mapping[str, Any], reason: BaseException
    ) -> SignatureError:
        """The error of an output's shape that could not be evaluated."""
        from tileops._core.runtime.known import Known
        from tileops._core.runtime.wording import fault_of_output

        known = Known(self.plan, self.phase, len(self._steps), variables)
        shape = self.plan.spec.signature.outputs[name].shape
        fault = fault_of_output(known, name, reason)
        return SignatureError(
            self.plan.spec.name,
            self.phase,
            f"outputs.{name}.shape",
            shape.text,
            fault,
            bindings=tuple(known.bindings()),
            origin=str(shape.location),
        )

    # Parameters

    def attribute(self, op: Any, name: str) -> Any:
        """What a constructor stored under a parameter's name.

        Raises:
            SignatureTypeError: nothing is stored there.
        """
        value = getattr(op, name, _MISSING)
        if value is _MISSING:
            declared = self.plan.spec.signature.params[name]
            fault = f"not stored: assign self.{name} before super().__init__()"
            raise self._plain(SignatureTypeError, f"params.{name}", fault, declared.location)
        return value

    def given(
        self, path: str, fault: str, error: type[SignatureError] = SignatureTypeError
    ) -> SignatureError:
        """The error of a shape or a dtype given in place of a tensor."""
        return self._plain(error, path, fault, self.plan.spec.location)

    def held(
        self, name: str, fault: str, error: type[SignatureError] = SignatureError
    ) -> Exception:
        """The error of a construction-time tensor that the call cannot use."""
        declared = self.plan.spec.signature.params[name]
        return self._plain(error, f"params.{name}", fault, declared.location)

    def parameter(self, op: Any, number: int) -> Any:
        """A parameter's value as expressions see it, which nobody else can change.

        Raises:
            SignatureError: its type, its value or an invariant of it is wrong.
            ManifestError: its type names a class that cannot be used.
        """
        step = self._steps[number]
        assert isinstance(step, CheckParam)
        param = self.plan.spec.signature.params[step.name]
        assert isinstance(param, Param)
        value = self.attribute(op, step.name)
        try:
            return self._accepted(param, value)
        except ManifestError as error:
            path = f"{self.plan.spec.name} params.{step.name}.type"
            raise ManifestError(f"{path}: {error}") from error

    def _accepted(self, param: Param, value: Any) -> Any:
        assert param.type.node is not None
        verdict = param.type.node.accept(value, self._classes)
        if not isinstance(verdict, Accepted):
            error = SignatureError if verdict.type_fits else SignatureTypeError
            path, text = f"params.{param.name}.type", param.type.text
            raise self._plain(error, path, verdict.reason, param.type.location, text)
        if param.name == "device":
            self._check_device(param, verdict.value)
        constructor = self._classes.constructor_of(verdict.value, param.type.node)
        if constructor is not None:
            self._check_algebraic(param, constructor, verdict.value)
            return owned_algebraic(verdict.value)
        return owned(verdict.value)

    def _check_device(self, param: Param, value: Any) -> None:
        """A device given by name must be one that torch knows the form of."""
        try:
            torch.device(value if isinstance(value, str) else "cpu")
        except RuntimeError as error:
            fault = f"expected a device, got {shown(value)}"
            path, text = "params.device.type", param.type.text
            raise self._plain(SignatureError, path, fault, param.type.location, text) from error

    def _check_algebraic(self, param: Param, constructor: Constructor, value: Any) -> None:
        """The fields of an algebraic value, and its invariant."""
        fault = bad_field(constructor, value)
        if fault is not None:
            path, text = f"params.{param.name}.type", param.type.text
            raise self._plain(SignatureError, path, fault, param.type.location, text)
        invariant = constructor.invariant
        if invariant is None or invariant.node is None:
            return
        scope = AdtScope(constructor, value)
        try:
            if evaluate(invariant.node, scope):
                return
            reason = None
        except EvaluationFault as failure:
            reason = failure.message
        listed = [f"{param.name}.{name}={shown(scope.value(name))}" for name in constructor.fields]
        fields = ", ".join(listed)
        fault = f"does not hold: {fields}" if reason is None else f"{reason} ({fields})"
        path, text = invariant.path, invariant.text
        raise self._plain(SignatureError, path, fault, invariant.location, text)

    # Results and formulas

    def of_target(self, target: str) -> Faults:
        """The same, for results of a target's kernels."""
        found = self._targets.get(target)
        if found is None:
            found = self._targets[target] = Faults(self.plan, self.phase, target)
        return found

    def _named(self, fault: str) -> str:
        """A fault of a result, with the target that is to blame."""
        if self.target is None:
            return fault
        return f"{fault}; the kernel of target {self.target!r} returned it"

    def result(self, path: str, fault: str, text: str | None = None) -> SignatureError:
        """The error of a returned value of the wrong form."""
        location = self._output_location(path)
        return self._plain(SignatureError, path, self._named(fault), location, text)

    def result_type(self, path: str, fault: str) -> SignatureError:
        """The error of a returned value that is no tensor."""
        location = self._output_location(path)
        return self._plain(SignatureTypeError, path, self._named(fault), location)

    def unwanted(self, name: str, fault: str) -> SignatureError:
        """The error of a value returned for an output that is absent."""
        nullable = self.plan.spec.signature.outputs[name].nullable
        assert nullable is not None
        path = f"outputs.{name}.nullable"
        named = self._named(fault)
        return self._plain(SignatureError, path, named, nullable.location, nullable.text)

    def output(self, name: str, aspect: str, fault: str) -> SignatureError:
        """The error of a returned tensor whose shape, dtype, device or layout is wrong."""
        output = self.plan.spec.signature.outputs[name]
        text = {"shape": output.shape.text, "dtype": output.dtype.text}.get(aspect)
        path = f"outputs.{name}.{aspect}"
        return self._plain(SignatureError, path, self._named(fault), output.location, text)

    def extent(self, name: str, fault: str) -> SignatureError:
        """The error of a tensor that the signature admits and torch cannot hold."""
        signature = self.plan.spec.signature
        sections = {"inputs": signature.inputs, "params": signature.params}
        section = next((key for key, group in sections.items() if name in group), "outputs")
        shape = getattr(signature, section)[name].shape
        path = f"{section}.{name}.shape"
        return self._plain(SignatureError, path, fault, shape.location, shape.text)

    def formula(
        self, path: str, record: SignatureCall, reason: BaseException | str
    ) -> SignatureError:
        """The error of a roofline formula that gave no number of the right kind."""
        roofline = self.plan.spec.roofline
        assert roofline is not None
        declared = {"roofline.flops": roofline.flops, "roofline.bytes": roofline.bytes}.get(path)
        text = roofline.func if declared is None else declared.text
        shapes = ", ".join(f"{name}: {shown(s)} {d}" for name, (s, d) in record.tensors.items())
        fault = f"{reason} ({shapes})"
        return self._plain(SignatureError, path, fault, roofline.location, text)

    def count(self, path: str, record: SignatureCall, value: object) -> None:
        """Demand that a formula gave an integer of at least 0.

        Raises:
            SignatureError: it did not.
        """
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.formula(path, record, f"expected an int >= 0, got {shown(value)}")

    def _output_location(self, path: str) -> Location:
        parts = path.split(".")
        output = self.plan.spec.signature.outputs.get(parts[1]) if len(parts) > 1 else None
        return self.plan.spec.location if output is None else output.location

    def _plain(
        self,
        error: type[SignatureError],
        path: str,
        fault: str,
        location: Location,
        text: str | None = None,
    ) -> SignatureError:
        return error(self.plan.spec.name, self.phase, path, text, fault, origin=str(location))
