"""Printing the source of a class's call entry: binding, and the boundary with its operators.

One unit per class. Names of the unit's own begin with an underscore, which names of a spec never
do. `_bind_call` gives the arguments as inputs, writes and execution arguments. `_key_of` gives the
key of the kind of call that it is, `_fits_N` tells whether a result of an effect branch is plainly
right. With a boundary, `_body_N` is what the operator of a branch runs and `_call_boundary` calls
the operator and assembles the result; where there are several branches, `_call_N` does so for each;
`_bind_call`, which no call needs, is a unit of its own.
Straight-line code: nothing is looped over, looked up or built that is known from the spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileops._core.boundary.parameters import CallParameter, scalar_types, scalars_of
from tileops._core.boundary.warm import (
    ResultTest,
    held_names,
    key_items,
    moves_tensors,
)
from tileops._core.codegen.writer import SourceWriter, identifier
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec


def entry_source(
    spec: OpSpec, parameters: Sequence[CallParameter], branches: Sequence[EffectBranch]
) -> str:
    """The unit for a class.

    Args:
        spec: its spec.
        parameters: those of `forward`.
        branches: its effect branches; an operator is printed for each where it has a boundary.
    """
    writer = SourceWriter()
    writer.line(
        f'"""How calls of {spec.name} enter: printed from its spec, not written by hand."""'
    )
    printer = _EntryPrinter(spec, parameters, writer)
    printer.print_examination()
    if spec.has_boundary:
        printer.print_boundary(branches)
        for number, branch in enumerate(branches):
            if len(branches) > 1:
                printer.print_call(number, branch)
            printer.print_body(number, branch)
            ResultTest(writer, spec, branch).print(f"_fits_{number}")
    else:
        printer.print_bind()
        printer.print_key()
        if len(branches) == 1:
            ResultTest(writer, spec, branches[0]).print("_fits_0")
    return writer.text()


def binding_source(spec: OpSpec, parameters: Sequence[CallParameter]) -> str:
    """The unit of `_bind_call`, for a class with a boundary."""
    writer = SourceWriter()
    writer.line(f'"""How arguments of {spec.name} bind: printed from its spec."""')
    _EntryPrinter(spec, parameters, writer).print_bind()
    return writer.text()


class _EntryPrinter:
    """Prints the functions of one unit."""

    def __init__(
        self, spec: OpSpec, parameters: Sequence[CallParameter], writer: SourceWriter
    ) -> None:
        self.spec = spec
        self.writer = writer
        self.parameters = parameters
        self.names = {parameter.name: identifier(parameter.name) for parameter in parameters}
        self.inputs = [identifier(name) for name in spec.signature.inputs]
        self.execution = scalars_of(parameters)
        self.absentable = [p.name for p in parameters if p.role != "execution" and not p.required]

    def print_bind(self) -> None:
        """Print `_bind_call`."""
        with self.writer.function(
            "_bind_call", self._signature(), "tuple", "The call's arguments, bound."
        ):
            self._print_checks(forms=True)
            if self.spec.has_boundary:
                self._print_tangent_check()
                self._print_gradient_check()
            self._print_held_check()
            self.writer.line(f"return {self._bound()}")

    def _bound(self) -> str:
        """Inputs, writes and execution arguments as one tuple display."""
        writes = '{"out": out} if out is not None else None' if "out" in self.names else "None"
        return f"{_tuple(self.inputs)}, {writes}, {self._execution()}"

    def _execution(self) -> str:
        pairs = {p.name: self.names[p.name] for p in self.execution}
        return _display(pairs) if pairs else "None"

    def _signature(self) -> list[str]:
        """The parameters of `forward`, defaults as names of the unit."""
        listed = ["_op"]
        for parameter in self.parameters:
            if parameter.keyword_only and "*" not in listed:
                listed.append("*")
            name = self.names[parameter.name]
            default = "None" if parameter.role != "execution" else f"_default_{name}"
            listed.append(name if parameter.required else f"{name}={default}")
        return listed

    def print_key(self) -> None:
        """Print `_key_of`, for a class whose calls enter without an operator."""
        doc = "What decides the outcome of the check beside the instance; None if more does."
        arguments = ["_op", "_inputs", "_arguments", "_held"]
        with self.writer.function("_key_of", arguments, "tuple", doc):
            items = key_items(self.spec, has_out=False)
            if not items:
                self.writer.line("return None")
                return
            self.writer.line(f"{_targets(self.inputs)} = _inputs")
            if "out" in self.names:
                with self.writer.block("if 'out' in _arguments"):
                    self.writer.line("out = _arguments['out']")
                    self.writer.items("return (", key_items(self.spec, has_out=True), ")")
            self.writer.items("return (", items, ")")

    def print_examination(self) -> None:
        """Print `_examine`: admit or refuse tensors that are not plainly ordinary."""
        tensors = self._named_tensors()
        doc = "Refuse tensors that no kernel takes, and fake ones beside real ones."
        with self.writer.function("_examine", ["_op", *tensors.values()], "None", doc):
            for parameter in self._tensors():
                name = self.names[parameter.name]
                present = "" if parameter.required else f"{name} is not None and "
                test = "_is_writable" if self._is_written(parameter) else "_is_ordinary"
                refusal = (
                    "_refuse_out(_op, "
                    if parameter.role == "out"
                    else (f"_refuse_input(_op, {name!r}, ")
                )
                with self.writer.block(f"if {present}not {test}({name})"):
                    self.writer.line(f"{refusal}{name})")
            if len(tensors) > 1:
                # Torch would name an operator that nobody wrote.
                tests = " or ".join(f"_type({name}) is _FakeTensor" for name in tensors.values())
                with self.writer.block(f"if {tests}"):
                    self.writer.line(f"_refuse_mixture(_op, {_display(tensors)})")

    def _tensors(self) -> list[CallParameter]:
        """The inputs and `out`."""
        return [parameter for parameter in self.parameters if parameter.role != "execution"]

    def _is_written(self, parameter: CallParameter) -> bool:
        """Whether some call writes the tensor."""
        inputs = self.spec.signature.inputs
        return parameter.role == "out" or inputs[parameter.name].mutated is not False

    def _print_checks(self, *, forms: bool) -> None:
        """Examine what is not plainly an ordinary tensor; refuse execution arguments by type.

        In a trace the fake examines the tensors: each name that is read here would be guarded.

        Args:
            forms: whether the forms of tensors are looked at; else the operator's body does so.
        """
        self.writer.line("_is_traced = _is_dynamo_compiling()")
        doubts = [self._doubt(parameter, forms) for parameter in self._tensors()]
        with self.writer.block(f"if not _is_traced and ({' or '.join(doubts)})"):
            self.writer.line(f"_examine(_op, {', '.join(self._named_tensors().values())})")
        for parameter in self.execution:
            if parameter.kind is not None:
                name, kind = self.names[parameter.name], parameter.kind.__name__
                with self.writer.block(f"if not _is_{kind}({name})"):
                    self.writer.line(f"_refuse_execution(_op, {parameter.name!r}, _{kind}, {name})")

    def _doubt(self, parameter: CallParameter, forms: bool) -> str:
        """The test of whether a tensor that is there may be none that kernels take."""
        name = self.names[parameter.name]
        doubt = f"_type({name}) not in _PLAIN"
        if self._is_written(parameter):
            doubt += f" or not _is_writable({name})"
        elif forms:
            doubt += f" or {_form_doubt(name)}"
        return _where_there(name, doubt, required=parameter.required)

    def _print_form_checks(self, branch: EffectBranch) -> None:
        """Examine tensors that are only read; the others were looked at by the caller."""
        read = [p for p in self._tensors() if not self._is_written(p)]
        doubts = [
            _where_there(name, _form_doubt(name), required=p.required)
            for p in read
            for name in [self.names[p.name]]
        ]
        if doubts:
            passed = [
                name if p.role != "out" or branch.has_out else "None"
                for p in self._tensors()
                for name in [self.names[p.name]]
            ]
            with self.writer.block(f"if {' or '.join(doubts)}"):
                self.writer.line(f"_examine(_op, {', '.join(passed)})")

    def print_boundary(self, branches: Sequence[EffectBranch]) -> None:
        """Print `_call_boundary`; it calls the operator itself where there is one only."""
        doc = "Enter through the operator of the call's effect branch."
        with self.writer.function("_call_boundary", self._signature(), "object", doc):
            self._print_checks(forms=False)
            self._print_tangent_check()
            self._print_gradient_check()
            self._print_held_check()
            if len(branches) == 1:
                self._print_operator_call(0, branches[0], "_op._instance_key")
                return
            # A trace must not read a table that later calls fill: its guard would fail then.
            self.writer.line(f"_presence = {_tuple([f'{n} is not None' for n in self.absentable])}")
            self.writer.line("_call = None if _is_traced else _op._effect_branches.get(_presence)")
            with self.writer.block("if _call is None"):
                self.writer.line("_call = _find_call(_op, _presence)")
            given = ", ".join([*self.names.values(), "_op._instance_key"])
            self.writer.line(f"return _call({given})")

    def _print_tangent_check(self) -> None:
        """Refuse inputs with tangents: the dispatcher would drop these without a word."""
        with self.writer.block("if _forward_mode._current_level >= 0"):
            self.writer.line(f"_refuse_tangents(_op, {_display(self._named_inputs())})")

    def _named_inputs(self) -> dict[str, str]:
        """What holds each input, by the input's name."""
        return dict(zip(self.spec.signature.inputs, self.inputs, strict=True))

    def _named_tensors(self) -> dict[str, str]:
        """What holds each input and, where the op takes a buffer, `out`."""
        return {p.name: self.names[p.name] for p in self.parameters if p.role != "execution"}

    def _print_gradient_check(self) -> None:
        """Refuse tensors that require grad, except where a backward op computes the gradient.

        In a transform that is traced, a compiler takes what is differentiated for a constant.
        """
        with self.writer.block("if _is_traced and _is_transformed() and _is_grad_enabled()"):
            self.writer.line(f"_refuse_differentiated(_op, {_display(self._named_tensors())})")
        backward = self.spec.backward
        given = set(backward.outputs.values()) if backward is not None else set()
        tensors = self._named_tensors()
        tests = {name: self._requires_grad(name) for name in tensors}
        refused = [test for name, test in tests.items() if name not in given]
        if "out" in tensors and given:
            refused.remove(tests["out"])
            refused.append(f"out is not None and ({' or '.join(tests.values())})")
        if refused:
            with self.writer.block(f"if _is_grad_enabled() and ({' or '.join(refused)})"):
                self.writer.line(f"_refuse_gradient(_op, {_display(tensors)})")
        if given:
            self.writer.line(f"_is_wanted = {self._wants_gradient()}")
            with self.writer.block("if _is_wanted and _is_transformed()"):
                self.writer.line(f"_refuse_transform(_op, {_display(self._named_inputs())})")

    def _requires_grad(self, name: str) -> str:
        """The test of whether a tensor is passed and requires grad."""
        required = any(p.required for p in self.parameters if p.name == name)
        present = "" if required else f"{self.names[name]} is not None and "
        return f"{present}{self.names[name]}.requires_grad"

    def _print_held_check(self) -> None:
        """Refuse construction-time tensors that require grad: no gradient reaches them."""
        held = held_names(self.spec)
        if held:
            with self.writer.block("if _is_grad_enabled() and not _is_compiled()"):
                self.writer.line(f"_refuse_held(_op, {held!r})")

    def print_call(self, number: int, branch: EffectBranch) -> None:
        """Print `_call_N`: the operator's call and the result as the caller gets it."""
        arguments = [*self.names.values(), "_key"]
        doc = f"Call the operator {branch_text(branch)}."
        with self.writer.function(f"_call_{number}", arguments, "object", doc):
            self.writer.line("_is_traced = _is_dynamo_compiling()")
            if has_formula(self.spec, branch):
                self.writer.line(f"_is_wanted = {self._wants_gradient()}")
            self._print_operator_call(number, branch, "_key")

    def _print_operator_call(self, number: int, branch: EffectBranch, key: str) -> None:
        """Call the operator and return its results beside the caller's own tensors.

        Where neither a compiler nor autograd has to see the operator, a shorter way leads to it.
        """
        outputs = self.spec.signature.outputs
        returned = returned_outputs(self.spec, branch)
        values = {name: f"_value_{name}" for name in returned}
        is_whole = [*outputs] == returned
        target = "return " if is_whole else f"{', '.join(values.values())} = " if returned else ""
        passed = ", ".join([*self._passed(branch), key])
        if has_formula(self.spec, branch):
            with self.writer.block("if _is_traced or _is_wanted"):
                self.writer.line(f"{target}_operator_{number}({passed})")
            with self.writer.block("else"):
                # The guard holds while it exists; as a context it would cost twice as much.
                self.writer.line("_guard = _below_autograd()")
                with self.writer.block("try"):
                    self.writer.line(f"{target}_direct_{number}({passed})")
                with self.writer.block("finally"):
                    self.writer.line("del _guard")
        else:
            entered = f"(_operator_{number} if _is_traced else _direct_{number})"
            self.writer.line(f"{target}{entered}({passed})")
        parts = [
            values.get(name) or branch.callers_tensor(output) or "None"
            for name, output in outputs.items()
        ]
        if parts and not is_whole:
            self.writer.line(f"return {parts[0] if len(parts) == 1 else _tuple(parts)}")

    def _wants_gradient(self) -> str:
        """The test of whether autograd will ask for a gradient of some input."""
        assert self.spec.backward is not None
        given = set(self.spec.backward.outputs.values())
        wanted = " or ".join(self._requires_grad(n) for n in self._named_inputs() if n in given)
        return f"_is_grad_enabled() and ({wanted})"

    def print_body(self, number: int, branch: EffectBranch) -> None:
        """Print `_body_N`: find the instance, run the seven steps, return what the schema does."""
        arguments = [*self._passed(branch), "_key"]
        doc = "Run the call on the instance of this key."
        with self.writer.function(f"_body_{number}", arguments, "object", doc):
            self.writer.line("_op = _instances.get(_key, _gone)()")
            with self.writer.block("if _op is None"):
                self.writer.line("_op = _find_instance(_key)")
            if self.execution:
                self._print_scalar_check()
            if not has_formula(self.spec, branch):
                self._print_graph_check(branch)
            if moves_tensors(self.spec):
                self.writer.comment("Read once: calls of other threads may bind others.")
                self.writer.line("_held = _op._held_now()")
            self._print_run(number, branch)

    def _print_scalar_check(self) -> None:
        """Refuse an instance of a class with other execution arguments.

        The dispatcher converts an int to a float and a bool to an int without a word.
        """
        with self.writer.block(f"if _op._call_entry.scalars != {scalar_types(self.parameters)!r}"):
            self.writer.line("raise _outdated(_op)")

    def _print_graph_check(self, branch: EffectBranch) -> None:
        """Refuse what requires grad where an exported graph, not a call, reached the operator."""
        tensors = self._named_tensors() if branch.has_out else self._named_inputs()
        tests = " or ".join(map(self._requires_grad, tensors))
        with self.writer.block(f"if ({tests}) and _is_grad_enabled()"):
            self.writer.line(f"_refuse_gradient(_op, {_display(tensors)})")

    def _print_run(self, number: int, branch: EffectBranch) -> None:
        """Print the kind of the call, the run, and what of its result the schema returns."""
        self._print_kind(branch)
        others = {"out": "out"} if branch.has_out else {}
        others |= {p.name: self.names[p.name] for p in self.execution}
        passed = [
            _tuple(self.inputs),
            "_op.forward",
            _display(others) if others else "_nothing",
            "_kind, _kind_key",
            f"_fits_{number}",
            *(["_held"] if moves_tensors(self.spec) else []),
        ]
        run = f"_op._run_call({', '.join(passed)})"
        touched = [*branch.writes, *(["out"] if branch.has_out else [])]
        outputs = list(self.spec.signature.outputs)
        returned = returned_outputs(self.spec, branch)
        if not touched and outputs == returned:
            self.writer.line(f"return {run}")
            return
        self.writer.line(f"_result = {run}")
        if touched:
            self.writer.line(f"_mark_written({', '.join(touched)})")
        if not returned:
            self.writer.line("return None")
        elif outputs == returned:
            self.writer.line("return _result")
        else:
            parts = [f"_result[{outputs.index(name)}]" for name in returned]
            self.writer.line(f"return {parts[0] if len(parts) == 1 else _tuple(parts)}")

    def _print_kind(self, branch: EffectBranch) -> None:
        """Print the search for the kind of the call: by a look at the inputs, or by its key."""
        items = key_items(self.spec, branch.has_out)
        told = self._looked_at() if items and self._is_told(branch) else []
        self.writer.line(f"_kind, _kind_key = {'_op._latest_kind' if told else 'None'}, None")
        if not told:
            self._print_form_checks(branch)
            if items:
                self.writer.items("_kind_key = (", items, ")")
                self.writer.line("_kind = _op._recall(_kind_key)")
            return
        with self.writer.block(f"if not _kind.admits({', '.join(told)})"):
            self._print_form_checks(branch)
            self.writer.items("_kind_key = (", items, ")")
            self.writer.line(f"_kind = _op._recall(_kind_key, {_tuple(told)})")

    def _is_told(self, branch: EffectBranch) -> bool:
        """Whether the inputs alone tell the kind of a call."""
        return not branch.has_out and not held_names(self.spec)

    def _looked_at(self) -> list[str]:
        """The inputs, with what stands for one that is absent."""
        inputs = zip(self.spec.signature.inputs.values(), self.inputs, strict=True)
        return [
            name if tensor.optional is False else f"_absent if {name} is None else {name}"
            for tensor, name in inputs
        ]

    def _passed(self, branch: EffectBranch) -> list[str]:
        """The operator's arguments before the key."""
        out = ["out"] if branch.has_out else []
        return [*self.inputs, *out, *(self.names[p.name] for p in self.execution)]


def returned_outputs(spec: OpSpec, branch: EffectBranch) -> list[str]:
    """The outputs that the branch's operator returns: those that are not the caller's own."""
    outputs = spec.signature.outputs.values()
    return [o.name for o in outputs if o.name in branch.emits and not branch.callers_tensor(o)]


def has_formula(spec: OpSpec, branch: EffectBranch) -> bool:
    """Whether the branch's operator has a gradient formula; one that writes has none."""
    return spec.backward is not None and not branch.writes and not branch.has_out


def branch_text(branch: EffectBranch) -> str:
    """The branch in words."""
    writes = f"that writes {', '.join(branch.writes)}" if branch.writes else "that writes no input"
    return f"{writes}, {'with' if branch.has_out else 'without'} out"


def _form_doubt(name: str) -> str:
    """The test of whether a tensor is more than sizes and strides."""
    return f"{name}.layout is not _strided or {name}.is_nested"


def _where_there(name: str, test: str, *, required: bool) -> str:
    """A test of a tensor that may be absent, as one of several."""
    if required:
        return test
    return f"{name} is not None and ({test})"


def _targets(names: Sequence[str]) -> str:
    """Names as what a tuple is unpacked to."""
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _display(items: Mapping[str, str]) -> str:
    """A dict display of expressions by name."""
    return f"{{{', '.join(f'{name!r}: {text}' for name, text in items.items())}}}"
