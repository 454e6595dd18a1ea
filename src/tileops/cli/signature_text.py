"""A spec's signature in the notation of type theory, for people.

    ∀ B : Shape, T ∈ {float16, bfloat16}
    x       : T[*B, N]
    weight? : T[N]
    ⊢ output : T[*B, N]
    where N > 0

`?` marks what may be left out, `!` what the call may write; a condition in words follows where it
is not simply so. Renders what is declared; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tileops._core.spec.model import (
    AbsentPattern,
    AdtPattern,
    Declaration,
    Index,
    OpSpec,
    Param,
    Pattern,
    TensorInput,
    TensorOutput,
    TypeFamily,
    Wildcard,
)


def gradients_line(spec: OpSpec) -> str:
    """Which gradients there are and what computes them; a composed op leaves that to its stages."""
    if spec.backward:
        inputs = ", ".join(spec.backward.outputs.values())
        return f"gradients of {inputs}: by {spec.backward.op}"
    return "" if spec.composition else "gradients: none"


def signature_lines(spec: OpSpec) -> list[str]:
    """The signature, one declaration a line."""
    signature = spec.signature
    premises = [premise(tensor) for tensor in (*signature.held, *signature.inputs.values())]
    results = [result(output) for output in signature.outputs.values()] or [("()", "", "")]
    width = max((len(name) for name, *_ in (*premises, *results)), default=0)
    lines = quantifier_lines(spec)
    lines += [_aligned("  ", row, width) for row in premises]
    lines += [_aligned("⊢ ", row, width) for row in results]
    return lines + condition_lines(spec)


def quantifier_lines(spec: OpSpec) -> list[str]:
    """What the signature is for all of: one line, or none."""
    indices = spec.signature.forall.values()
    return ["∀ " + ", ".join(_quantified(indices))] if indices else []


def condition_lines(spec: OpSpec) -> list[str]:
    """What is defined and demanded beside the tensors."""
    signature = spec.signature
    lines = [f"let {name} = {let.text}" for name, let in signature.lets.items()]
    for family in signature.types.values():
        lines += _family_lines(family)
    lines += [
        f"{'  and' if number else 'where'} {rule.text}"
        for number, rule in enumerate(signature.shape_rules)
    ]
    combos = [
        ", ".join(f"{k}={v}" for k, v in row.dtypes.items()) for row in signature.dtype_combos
    ]
    if combos:
        lines.append("dtypes " + " | ".join(f"({combo})" for combo in combos))
    return lines


def parameter_rows(spec: OpSpec) -> list[tuple[str, str, str, str]]:
    """Name, type, default and how it is passed, of every constructor parameter."""
    return [_parameter_row(name, given) for name, given in spec.signature.params.items()]


def _parameter_row(name: str, given: Param | TensorInput) -> tuple[str, str, str, str]:
    how = "keyword" if given.kw_only else ""
    if isinstance(given, TensorInput):
        kind = f"tensor {given.dtype.text}{given.shape.text}"
        return name, kind, "None" if given.optional else "required", how
    return name, given.type.text, repr(given.default) if given.has_default else "required", how


def _quantified(indices: Iterable[Index]) -> Iterator[str]:
    """`M, N : Dim` for neighbours of one kind, `T ∈ {…}` for a dtype index."""
    for text, alike in groupby(indices, lambda index: index.declaration.text):
        group = list(alike)
        names = ", ".join(index.name for index in group)
        dtypes = ", ".join(group[0].dtypes)
        yield f"{names} ∈ {{{dtypes}}}" if dtypes else f"{names} : {text}"


def premise(tensor: TensorInput) -> tuple[str, str, str]:
    """An input's name with its marks, its dtype and shape, and what else is asked of it."""
    mark = ("?" if tensor.optional else "") + ("!" if tensor.mutated else "")
    return tensor.name + mark, _type_of(tensor), "; ".join(_premise_notes(tensor))


def _premise_notes(tensor: TensorInput) -> Iterator[str]:
    if tensor.role == "param":
        yield "given at construction"
    if isinstance(tensor.optional, Declaration):
        yield f"given exactly when {tensor.optional.text}"
    if isinstance(tensor.mutated, Declaration):
        yield f"written when {tensor.mutated.text}"
    if tensor.write_only:
        yield "not read"
    if tensor.contiguous:
        yield "contiguous"
    if tensor.on_cpu:
        yield "on the CPU"
    if tensor.requires:
        yield ", ".join(predicate.text for predicate in tensor.requires)


def result(output: TensorOutput) -> tuple[str, str, str]:
    """An output's name, its dtype and shape, and what else is said of it."""
    notes = []
    if output.nullable is not None:
        notes.append(f"None unless {output.nullable.text}")
    if output.alias is not None:
        notes.append(f"is {output.alias} itself where that is written")
    if output.buffered:
        notes.append("into `out` when given")
    if output.contiguous:
        notes.append("contiguous")
    return output.name + ("?" if output.nullable else ""), _type_of(output), "; ".join(notes)


def _type_of(tensor: TensorInput | TensorOutput) -> str:
    dtype = tensor.dtype.text
    if not dtype.isidentifier():
        dtype = f"({dtype})"
    shape = tensor.shape.text
    return f"{dtype}{shape}" if shape.startswith("[") else f"{dtype} {shape}"


def _aligned(lead: str, row: tuple[str, str, str], width: int) -> str:
    name, kind, notes = row
    if not kind:
        return lead + name
    return f"{lead}{name.ljust(width)} : {kind}" + (f"    {notes}" if notes else "")


def _family_lines(family: TypeFamily) -> list[str]:
    formals = ", ".join(f"{name}: {kind}" for name, kind in family.formals.items())
    subjects = ", ".join(subject.text for subject in family.subjects)
    head = f"type {family.name}[{formals}] = match {subjects}"
    return [head] + [
        f"  {', '.join(map(_pattern, case.when or ()))} ⇒ {case.shape.text}"
        for case in family.cases
    ]


def _pattern(pattern: Pattern) -> str:
    if isinstance(pattern, bool):
        return "true" if pattern else "false"
    if isinstance(pattern, Wildcard):
        return "_"
    if isinstance(pattern, AbsentPattern):
        return "absent"
    if isinstance(pattern, AdtPattern):
        fields = ", ".join(f"{name}: {value}" for name, value in pattern.fields)
        return f"{pattern.constructor}({fields})"
    return f"'{pattern}'"
