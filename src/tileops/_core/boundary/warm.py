"""What makes a warm call cheap: the key of its kind, and a test of its result that goes first.

Calls of one kind get one verdict from the signature's check, so that its outcome is looked up. The
test of a result accepts what is plainly right; whatever it does not accept is judged, and worded,
by the check that follows. Both are printed for one effect branch, where it is known which tensors
are written and which outputs the op makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileops._core.codegen.writer import SourceWriter, identifier
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec, TensorInput, TensorOutput


def held_names(spec: OpSpec) -> tuple[str, ...]:
    """The construction-time tensors."""
    return tuple(identifier(tensor.name) for tensor in spec.signature.held)


def moves_tensors(spec: OpSpec) -> bool:
    """Whether a call may move or convert a tensor that the instance holds."""
    return any(not tensor.on_cpu for tensor in spec.signature.held)


def _held(spec: OpSpec, name: str) -> str:
    """A construction-time tensor of a call; one that calls may move was read before."""
    param = spec.signature.params[name]
    moves = isinstance(param, TensorInput) and not param.on_cpu
    return f"_held[{name!r}]" if moves else f"_op.{name}"


def key_items(spec: OpSpec, has_out: bool) -> list[str]:
    """What decides the outcome of a check beside the instance, as expressions.

    None of them where no input that is always passed settles the call device: the current device
    of the accelerator may decide then, which no tensor shows.
    """
    signature = spec.signature
    inputs = tuple(signature.inputs.values())
    if not any(tensor.optional is False and not tensor.on_cpu for tensor in inputs):
        return []
    items = [item for tensor in inputs for item in _seen(tensor, identifier(tensor.name))]
    held = [_held(spec, name) for name in held_names(spec)]
    for param, name in zip(held_names(spec), held, strict=True):
        # By identity too: a tensor that was bound anew is to be placed anew. What kernels cannot
        # take is left to the check, which refuses it.
        seen = ", ".join(_aspects(signature.params[param], name))  # type: ignore[arg-type]
        items += [f"_id({name})", f"({seen}) if _is_ordinary({name}) else None"]
    if has_out:
        others = ", ".join([*map(identifier, signature.inputs), *held])
        items += ["out.shape", "out.dtype", "out.device", "out.stride()"]
        items.append(f"_shares_storage(out, ({others},))")
    return items


def _aspects(tensor: TensorInput, name: str) -> list[str]:
    """What is seen of a tensor that is there; its layout where the layout is checked."""
    seen = [f"{name}.{aspect}" for aspect in ("shape", "dtype", "device")]
    seen += [f"{name}.is_contiguous()"] if tensor.contiguous else []
    seen += [f"{name}.stride()"] if tensor.mutated is not False else []
    return seen


def _seen(tensor: TensorInput, name: str) -> Iterator[str]:
    """What is seen of an input."""
    seen = _aspects(tensor, name)
    if tensor.optional is False:
        yield from seen
    else:
        yield f"({', '.join(seen)}) if {name} is not None else None"


class ResultTest:
    """Prints the function that tells whether a result is plainly as promised.

    Args:
        writer: receives the function.
        spec: the spec of the op.
        branch: the effect branch of the call.
    """

    def __init__(self, writer: SourceWriter, spec: OpSpec, branch: EffectBranch) -> None:
        self._writer = writer
        self._spec = spec
        self._branch = branch
        self._outputs = tuple(spec.signature.outputs.values())
        single = len(self._outputs) == 1
        self._values = {o.name: "_result" if single else f"_value_{o.name}" for o in self._outputs}
        self._new = [
            output.name
            for output in self._outputs
            if output.name in branch.emits and branch.callers_tensor(output) is None
        ]

    def print(self, function: str) -> None:
        """Print the function under this name."""
        writer = self._writer
        arguments = ["_op", "_kind", "_result", "_inputs", "_arguments"]
        doc = "Whether a result is plainly as promised; the check judges whatever is not."
        with writer.function(function, arguments, "bool", doc):
            if not self._outputs:
                writer.line("return _result is None")
                return
            self._print_unpacking()
            with writer.block("try"):
                self._print_tests(t for output in self._outputs for t in self._others(output))
                if self._new:
                    self._print_form()
                    self._print_storages()
                else:
                    writer.line("return True")
            with writer.block("except _RuntimeError"):
                # A sparse or nested tensor lacks a storage or a shape.
                writer.line("return False")

    def _print_unpacking(self) -> None:
        writer, count = self._writer, len(self._outputs)
        if count > 1:
            with writer.block(f"if _type(_result) is not _tuple or _len(_result) != {count}"):
                writer.line("return False")
            writer.line(f"{', '.join(self._values.values())} = _result")
        inputs = [identifier(name) for name in self._spec.signature.inputs]
        if inputs:
            writer.line(f"{', '.join(inputs)}{',' if len(inputs) == 1 else ''} = _inputs")
        if self._branch.has_out:
            writer.line("out = _arguments['out']")

    def _print_tests(self, tests: Iterable[str]) -> None:
        for test in tests:
            with self._writer.block(f"if {test}"):
                self._writer.line("return False")

    def _others(self, output: TensorOutput) -> Iterator[str]:
        """What is wrong with an output that should be absent or the caller's own."""
        value = self._values[output.name]
        if output.name not in self._branch.emits:
            yield f"{value} is not None"
        elif output.name not in self._new:
            yield f"{value} is not {self._branch.callers_tensor(output)}"
            yield self._breaks_promise(output.name)
            if output.contiguous:
                yield f"not {value}.is_contiguous()"

    def _breaks_promise(self, name: str) -> str:
        value, place = self._values[name], list(self._values).index(name)
        return f"({value}.shape, {value}.dtype, {value}.device) != _kind.facts.promised[{place}]"

    def _print_form(self) -> None:
        """Test the form of each new output: by a look at all of them, or property by property."""
        writer, values = self._writer, [self._values[name] for name in self._new]
        for value in values:
            self._print_tests([f"_type({value}) is not _Tensor or {value}.is_nested"])
        with writer.block(f"if not _kind.fulfils({', '.join(values)})"):
            for name, value in zip(self._new, values, strict=True):
                self._print_tests([self._breaks_promise(name), f"not {value}.is_contiguous()"])
            with writer.block("if _kind.fulfils is _unmade"):
                writer.line(f"_kind.fulfils = _likeness({', '.join(values)})")
        # Where no gradient is recorded, a look does not show this.
        self._print_tests([" or ".join(f"{value}.requires_grad" for value in values)])

    def _print_storages(self) -> None:
        """Each new output has storage of its own, which starts where it does itself.

        Addresses are at hand; asked for its storage, a new tensor makes an object for it first.
        The address 0, and an output within its storage, take a closer look.
        """
        *others, last = (self._values[name] for name in self._new)
        self._writer.items("_taken = [", ["0", *self._passed_storages()], "]")
        for value in others:
            place = f"(_place := {value}.data_ptr())"
            with self._writer.block(f"if {place} in _taken or {value}.storage_offset()"):
                self._writer.line("return False")
            self._writer.line("_taken.append(_place)")
        starts_apart = f"{last}.data_ptr() not in _taken"
        self._writer.line(f"return {starts_apart} and not {last}.storage_offset()")

    def _passed_storages(self) -> Iterator[str]:
        """Where the storages of the call's tensors, and of the instance's, start."""
        signature = self._spec.signature
        for tensor in signature.inputs.values():
            name = identifier(tensor.name)
            yield _start(name) if tensor.optional is False else _start_if_there(name)
        for name in held_names(self._spec):
            yield _start_if_there(f"_op.{name}")
        if self._branch.has_out:
            yield _start("out")


def _start(name: str) -> str:
    """Where the storage of a tensor starts: mostly where the tensor does."""
    storage = f"{name}.untyped_storage().data_ptr()"
    return f"{storage} if {name}.storage_offset() else {name}.data_ptr() or {storage}"


def _start_if_there(name: str) -> str:
    return f"0 if {name} is None else {_start(name)}"
