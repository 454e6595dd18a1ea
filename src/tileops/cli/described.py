"""A call as the command line describes it: by shapes, dtypes and parameters, or by a workload row.

What is described holds no data: constructor arguments, and tensors under a fake mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tileops._core.lang.dtypes import BITS, is_registered
from tileops._core.lang.extents import excess
from tileops._core.lang.spelling import suggest
from tileops._core.spec.model import OpSpec, Param, TensorInput
from tileops._core.spec.yaml12 import YamlFault, plain, read_yaml
from tileops._core.workload.arguments import constructor_value, names_a_dtype
from tileops._core.workload.cases import Case
from tileops._core.workload.faults import RowFault
from tileops._core.workload.values import ValueFault, param_value
from tileops.cli.nearest import nearest
from tileops.cli.output import UsageFault
from tileops.cli.specs import row_labels

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")


@dataclass(frozen=True)
class Described:
    """A call without data.

    Args:
        params: arguments of the constructor by name.
        forms: shape and dtype of each tensor that is passed.
        row: the case that it is of; None where shapes describe it.
        written: parameters as they were written; none of a row.
    """

    params: Mapping[str, Any]
    forms: Mapping[str, tuple[tuple[int, ...], str]]
    row: str | None = None
    written: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """What the options of a command say of a call.

    Args:
        shapes: those of `--shape`, as written.
        dtypes: those of `--dtype`.
        params: those of `--param`.
        rows: labels of rows; None where none is named.
    """

    shapes: Sequence[str]
    dtypes: Sequence[str]
    params: Sequence[str]
    rows: Sequence[str] | None

    @property
    def is_own(self) -> bool:
        """Whether a call is described, rather than rows chosen."""
        return bool(self.shapes or self.params)

    def admit(self, case: Case) -> bool:
        """Whether a case has all the dtypes: one without a name is that of some tensor."""
        forms = {name: form.dtype for name, form in case.tensors.items()}
        named = {**case.values, **forms}
        for text in self.dtypes:
            name, separator, dtype = text.rpartition("=")
            if dtype not in ([named.get(name)] if separator else forms.values()):
                return False
        return True


def described(spec: OpSpec, wishes: Wishes, device: torch.device) -> Described:
    """The call that was described; that of the smallest row where nothing but dtypes is said.

    Raises:
        UsageFault: the description contradicts itself or the spec.
    """
    if not wishes.is_own:
        return _of_row(spec, wishes, device)
    if wishes.rows:
        raise UsageFault("--row describes a whole call: leave out --shape and --param, or --row")
    signature = spec.signature
    shapes = _pairs("--shape", wishes.shapes, _extents, signature.inputs)
    params = _pairs("--param", wishes.params, _yaml_value, signature.params)
    for name, param in signature.params.items():
        if isinstance(param, Param) and not param.has_default and name not in params:
            reason = f"it has no default, its type is {param.type.text}"
            raise UsageFault(f"--param {name}=VALUE is needed: {reason}")
    asked = _dtypes(spec, wishes.dtypes)
    by_input = {t.dtype.text: asked[name] for name, t in signature.inputs.items() if name in asked}
    wanted = (_plain(spec) if device.type == "cpu" else {}) | by_input | asked
    smallest = _smallest(spec, None, wanted) or _smallest(spec, None, {})
    forms = {
        name: _form(name, shapes[name], _dtype_of(spec, tensor, wanted, smallest))
        for name, tensor in signature.inputs.items()
        if name in shapes
    }
    arguments = {name: _argument(spec, name, given) for name, given in params.items()}
    return Described(arguments, forms, written=params)


def _of_row(spec: OpSpec, wishes: Wishes, device: torch.device) -> Described:
    """The smallest call of the rows and dtypes that were asked for."""
    from tileops.testing.calling import parameters
    from tileops.testing.drawing import form_of

    case = _smallest(spec, wishes.rows, _dtypes(spec, wishes.dtypes))
    if case is None:
        rows = sorted(set(row_labels(spec)))
        meant = nearest(wishes.rows[0], rows) if wishes.rows and wishes.rows[0] not in rows else ""
        listed = ", ".join(rows) or "none, so describe the call by --shape and --param"
        hint = meant or f"; rows: {listed}"
        raise UsageFault(f"no row of {spec.name} is of these labels and dtypes{hint}")
    names = spec.signature.inputs
    forms = {n: (form.shape, form.dtype) for n, form in case.tensors.items() if n in names}
    return Described(parameters(form_of(spec, case), str(device)), forms, case.id)


def _smallest(spec: OpSpec, rows: Sequence[str] | None, dtypes: Mapping[str, str]) -> Case | None:
    """The case that moves the fewest bytes among those of these labels and dtypes."""
    from tileops.bench.calls import bytes_of
    from tileops.bench.sweep import chosen_cases

    try:
        found = chosen_cases(spec, rows)
    except RowFault:
        return None
    return min((case for case in found if _has(case, dtypes)), key=bytes_of, default=None)


def _has(case: Case, dtypes: Mapping[str, str]) -> bool:
    """Whether the indices and tensors of a case have these dtypes."""
    forms = {name: form.dtype for name, form in case.tensors.items()}
    return all(forms.get(name, case.values.get(name)) == each for name, each in dtypes.items())


def _pairs(
    option: str, texts: Iterable[str], convert: Callable[[str], Value], known: Iterable[str]
) -> dict[str, Value]:
    """`NAME=VALUE` texts as a mapping; each name must be known and given once."""
    names = list(known)
    found: dict[str, Value] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageFault(f"{option} {text}: expected NAME=VALUE")
        if name not in names:
            raise UsageFault(
                f"{option} {text}: no {name} here; known: {', '.join(names) or 'none'}"
            )
        if name in found:
            raise UsageFault(f"{option} {text}: {name} is given twice")
        try:
            found[name] = convert(value)
        except ValueError as error:
            raise UsageFault(f"{option} {text}: {error}") from error
    return found


def _form(name: str, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a tensor that torch could make, if there were memory for it."""
    reason = excess(shape, dtype)
    if reason is not None:
        raise UsageFault(f"--shape {name}={'x'.join(map(str, shape))}: {reason}")
    return shape, dtype


def _extents(text: str) -> tuple[int, ...]:
    parts = text.replace(",", "x").split("x") if text.strip() else []
    if not all(part.strip().isdecimal() for part in parts):
        raise ValueError("expected extents such as 8x4096")
    return tuple(map(int, parts))


def _dtypes(spec: OpSpec, texts: Sequence[str]) -> dict[str, str]:
    """The dtypes asked for, by index or input; one without a name is for all that admit it."""
    everywhere = [text for text in texts if "=" not in text]
    named = [text for text in texts if "=" in text]
    known = [*spec.signature.forall, *spec.signature.inputs]
    found: dict[str, str] = {}
    for dtype in everywhere:
        admitting = [name for name, members in _admitted(spec).items() if dtype in members]
        if not admitting:
            choices = "; ".join(f"{n} is {', '.join(m)}" for n, m in _admitted(spec).items())
            raise UsageFault(f"--dtype {dtype}: nothing here has it; {choices or 'all are fixed'}")
        found |= dict.fromkeys(admitting, dtype)
    return found | _pairs("--dtype", named, _dtype_name, known)


def _plain(spec: OpSpec) -> dict[str, str]:
    """The dtypes of a call on a CPU that states none: float32 where nothing ties them together."""
    admitted = {} if spec.signature.dtype_combos else _admitted(spec)
    return {name: "float32" for name, members in admitted.items() if "float32" in members}


def _admitted(spec: OpSpec) -> dict[str, tuple[str, ...]]:
    """What each dtype index admits."""
    return {name: index.dtypes for name, index in spec.signature.forall.items() if index.dtypes}


def _dtype_name(text: str) -> str:
    if not is_registered(text):
        raise ValueError(f"not a registered dtype{suggest(text, BITS)}")
    return text


def _dtype_of(
    spec: OpSpec, tensor: TensorInput, wanted: Mapping[str, str], smallest: Case | None
) -> str:
    """The dtype wanted, else the declared one, else the smallest row's, else the first."""
    declared = tensor.dtype.text
    for asked in (tensor.name, declared):
        if asked in wanted:
            return wanted[asked]
    if is_registered(declared):
        return declared
    form = smallest.tensors.get(tensor.name) if smallest else None
    usual = form.dtype if form else smallest.values.get(declared) if smallest else None
    if isinstance(usual, str):
        return usual
    if declared not in _admitted(spec):
        raise UsageFault(f"--dtype {tensor.name}=DTYPE is needed: it is declared as {declared}")
    return _admitted(spec)[declared][0]


def _yaml_value(text: str) -> Any:
    try:
        return plain(read_yaml(text.encode()).root)
    except YamlFault as fault:
        raise ValueError(str(fault)) from fault


def _argument(spec: OpSpec, name: str, value: Any) -> Any:
    """A value as the constructor takes it: a dtype by its name, a record by its fields."""
    import torch

    declared = spec.signature.params[name]
    if not isinstance(declared, Param) or declared.type.node is None:
        raise UsageFault(f"--param {name}: a tensor, which cannot be written here; try --row")
    if names_a_dtype(declared, value):
        return getattr(torch, value)
    try:
        return constructor_value(spec, declared, param_value(spec, declared, value))
    except ValueFault as fault:
        raise UsageFault(f"--param {name}: {fault}") from fault
