"""Drawing a whole case: tensors that solve every index, and all that may be declared besides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from signature.drawing.case import Case
from signature.drawing.expressions import Expressions
from signature.drawing.inputs import add_input, some
from signature.drawing.metadata import add_groups, add_metadata
from signature.drawing.parameters import add_parameters

FLOATS = ("float16", "bfloat16", "float32", "float64")
OTHERS = ("float32", "int8", "int32")


def draw(seed: int) -> Case:
    """The case of a seed."""
    case = Case(random.Random(seed))
    rng = case.rng
    add_parameters(case)
    add_picks(case)
    case.forall = {"T": f"DType[{' | '.join(FLOATS)}]", "U": f"DType[{' | '.join(OTHERS)}]"}
    case.values |= {"T": rng.choice(FLOATS), "U": rng.choice(OTHERS)}
    dims, runs = list("ABCDE")[: rng.randint(1, 4)], ["R", "S"][: rng.randint(0, 2)]
    case.forall |= dict.fromkeys(dims, "Dim") | dict.fromkeys(runs, "Shape")
    case.values |= {name: rng.randint(0, 6) for name in dims}
    case.values |= {n: tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 3))) for n in runs}
    if rng.random() < 0.4:
        add_held(case, dims.pop(0))
    add_solving(case, dims, runs)
    extras = [add_optional, add_conditional, add_metadata, add_groups, add_on_cpu, add_combos]
    some_of(rng, 0.4, [*extras, add_expansion])(case)
    add_lets(case)
    add_outputs(case)
    some_of(rng, 0.5, [add_written, add_buffer])(case)
    add_rules(case)
    case.flops = Expressions(case).length(2)
    case.inputs = dict(rng.sample(sorted(case.inputs.items()), len(case.inputs)))
    return case


def some_of(
    rng: random.Random, chance: float, steps: list[Callable[[Case], None]]
) -> Callable[[Case], None]:
    """Some of several additions, each with a chance, one after the other."""
    chosen = [step for step in steps if rng.random() < chance]

    def add(case: Case) -> None:
        for step in chosen:
            step(case)

    return add


def add_picks(case: Case) -> None:
    """Lets of an algebraic kind: a parameter, one that a choice or a number picks, or none."""
    rng, has = case.rng, Expressions(case).has
    pick = "store.value if present(store) and {} else {}"
    if has("layout"):
        case.lets["kept"] = "layout"
        if has("store"):
            case.lets["kept"] = rng.choice(["layout", pick.format("flag", "layout")])
            case.lets["late"] = f"layout if k > 2 else {pick.format('k > 1', 'kept')}"
    if has("store"):
        test = rng.choice(["flag", "store.value.kind == 'dense'"])
        case.lets["pick"] = pick.format(test, "None")
    if has("groups"):
        case.lets["plan"] = "groups"
    for name, text in case.lets.items():
        case.values[name] = case.value(text)


# Inputs that solve indices


def solving_axis(case: Case, name: str) -> str:
    """An axis that is affine in a length not known yet."""
    rng = case.rng
    scale, shift = rng.choice([1, 1, 2, 3]), rng.choice([0, 0, 1, 4])
    axis = name if scale == 1 else rng.choice([f"{scale} * {name}", f"{name} * {scale}"])
    if case.dims and rng.random() < 0.25:
        return f"{axis} + {rng.choice(case.dims)}"
    return axis if not shift else rng.choice([f"{axis} + {shift}", f"{shift} + {axis}"])


def add_solving(case: Case, dims: list[str], runs: list[str]) -> None:
    """Inputs that solve lengths, runs and both dtypes."""
    rng, number = case.rng, 0
    while dims or runs or not case.dims:
        take = [dims.pop(0) for _ in range(min(len(dims), rng.choice([0, 1, 2, 2])))]
        if len(take) == 2 and rng.random() < 0.6:
            add_family(case, f"x{number}", take)
        elif take or case.dims:
            run = runs.pop() if runs and (case.dims or take) else None
            add_tensor(case, f"x{number}", take, run)
        number += 1
    add_input(case, "t", [case.dims[0]], "T")
    add_input(case, "u", [], "U")


def add_tensor(case: Case, name: str, unknown: list[str], run: str | None) -> None:
    """An input that solves some lengths, and at most one run of axes, among known ones."""
    rng = case.rng
    parts = [solving_axis(case, index) for index in unknown]
    case.dims += unknown
    expressions = Expressions(case)
    if run is not None:
        parts.insert(rng.randint(0, len(parts)), f"*{run}")
    elif rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), f"*{wrapped(expressions.run())}")
    if rng.random() < 0.5:
        parts.insert(rng.randint(0, len(parts)), expressions.length())
    if run is not None:
        case.runs.append(run)
    add_input(case, name, parts, rng.choice(["T", "U", "int32"]))


def wrapped(run: str) -> str:
    """A run as a star takes it."""
    return run if run.replace("_", "").isalnum() else f"({run})"


def add_held(case: Case, index: str) -> None:
    """Construction-time tensors: one that solves a length, perhaps one that may be absent."""
    rng, expressions = case.rng, Expressions(case, early=True)
    hold(case, "held", f"[2 * {index}, 2]", rng.choice(["float32", "T"]), {})
    case.dims.append(index)
    if rng.random() < 0.5:
        is_free = rng.random() < 0.5
        condition = True if is_free else expressions.choice()
        there = rng.random() < 0.5 if is_free else case.value(str(condition))
        shape = f"[{expressions.length()}]"
        hold(case, "spare", shape, "float32", {"optional": condition}, there)
    if rng.random() < 0.3:
        values = f"full((k, {index}), {rng.randint(0, 3)})"
        fields = {"values": values, "requires": ["in_range(0, 4)"]}
        hold(case, "marks", f"[k, {index}]", "int64", fields)


def hold(
    case: Case, name: str, shape: str, dtype: str, fields: dict[str, Any], there: bool = True
) -> None:
    """A construction-time tensor."""
    case.params[name] = {"dtype": dtype, "shape": shape, "kw_only": True, **fields}
    case.params[name] |= some(case.rng, {"contiguous": True, "device": "cpu"})
    case.shapes[name] = case.shape(shape) if there else None
    case.arguments[name] = case.empty(name) if there else None


class Family(NamedTuple):
    """A type family: a text for its subject, its declaration, and the shape of a subject."""

    subject: Callable[[Expressions], str]
    declared: dict[str, Any]
    chosen: Callable[[Any], str]


def _family(kind: str, match: Any, cases: list[tuple[Any, str]]) -> dict[str, Any]:
    return {
        "params": {"s": kind, "A": "Dim", "B": "Dim"},
        "match": match,
        "cases": [{"when": when, "is": shape} for when, shape in cases],
    }


FAMILIES: dict[str, Family] = {
    "flag": Family(
        Expressions.choice,
        _family("Bool", "s", [(False, "[A, 2 * B]"), (True, "[B, A]")]),
        lambda s: "[B, A]" if s else "[A, 2 * B]",
    ),
    "mode": Family(
        lambda _: "mode",
        _family(
            "'row' | 'col' | 'both'",
            "s",
            [("row", "[A, B]"), ("col", "[B, A]"), ("both", "[B, 1, A + 1]")],
        ),
        lambda s: {"row": "[A, B]", "col": "[B, A]"}.get(s, "[B, 1, A + 1]"),
    ),
    "soft": Family(
        lambda _: "soft",
        _family(
            "Maybe[Bool]", ["s"], [([None], "[B, A]"), ([False], "[A, B]"), ([True], "[A, 1, B]")]
        ),
        lambda s: {None: "[B, A]", False: "[A, B]"}.get(s, "[A, 1, B]"),
    ),
    "side": Family(
        lambda _: "side",
        _family(
            "Maybe['left' | 'right']",
            "s",
            [("left", "[A, B, 3]"), ("right", "[B, A]"), (None, "[A, B]")],
        ),
        lambda s: {None: "[A, B]", "left": "[A, B, 3]"}.get(s, "[B, A]"),
    ),
    "cap": Family(
        lambda names: names.either("cap", "(cap.value if present(cap) and flag else None)"),
        _family("Maybe[Int]", "present(s)", [(True, "[A, B + s.value]"), (False, "[B, A]")]),
        lambda s: "[B, A]" if s is None else f"[A, B + {s}]",
    ),
    "layout": Family(
        lambda names: names.either(
            "layout",
            "(store.value if present(store) else layout)" if names.has("store") else "layout",
            "kept",
        ),
        _family(
            "RowStore",
            "s",
            [
                ({"dense": "_"}, "[A, B + s.cols]"),
                ({"tiled": {"padded": True}}, "[B, A, s.tile]"),
                ({"tiled": {"padded": False}}, "[B, A]"),
            ],
        ),
        lambda s: (
            f"[A, B + {s.cols}]"
            if s.kind == "dense"
            else (f"[B, A, {s.tile}]" if s.padded else "[B, A]")
        ),
    ),
    "store": Family(
        lambda names: names.either("store", "pick"),
        _family(
            "Maybe[RowStore]",
            "s",
            [({"dense": "_"}, "[A, B]"), ({"tiled": "_"}, "[B, A, 1]"), (None, "[B, A]")],
        ),
        lambda s: "[B, A]" if s is None else ("[A, B]" if s.kind == "dense" else "[B, A, 1]"),
    ),
    "groups": Family(
        lambda names: names.either("groups", "plan"),
        _family(
            "MGroupedLayout",
            "s",
            [
                ({"masked": "_"}, "[A, s.max_m, B]"),
                ({"contiguous": {"packing": "tight"}}, "[B, A]"),
                ({"contiguous": {"packing": "aligned"}}, "[A, B + s.alignment]"),
            ],
        ),
        lambda s: (
            f"[A, {s.max_m}, B]"
            if s.kind == "masked"
            else ("[B, A]" if s.packing == "tight" else f"[A, B + {s.alignment}]")
        ),
    ),
}


def add_family(case: Case, name: str, unknown: list[str]) -> None:
    """An input whose shape a type family chooses, itself or through another family."""
    known = [key for key in FAMILIES if key in case.params]
    key = case.rng.choice([*known, *known, "flag"])
    family = FAMILIES[key]
    a, b = unknown
    subject = family.subject(Expressions(case))
    outer = f"Of{key.capitalize()}"
    case.types[outer] = family.declared
    if case.rng.random() < 0.3:
        case.types[f"In{outer}"] = {
            "params": {"f": "Bool", **family.declared["params"]},
            "match": ["f"],
            "cases": [
                {"when": [True], "is": f"{outer}[s, A, B]"},
                {"when": [False], "is": f"{outer}[s, B, A]"},
            ],
        }
        if not case.value("flag"):
            a, b = b, a
        written = f"In{outer}[flag, {subject}, {', '.join(unknown)}]"
    else:
        written = f"{outer}[{subject}, {a}, {b}]"
    axes = family.chosen(case.value(subject)).replace("A", "{a}").replace("B", "{b}")
    case.dims += unknown
    case.inputs[name] = {"dtype": "T", "shape": written}
    case.shapes[name] = case.shape(axes.format(a=a, b=b))


# Inputs that need not be there, and other roles


def add_optional(case: Case) -> None:
    """An input that may be left out, which may bring an index of its own."""
    rng, expressions = case.rng, Expressions(case)
    parts = [expressions.length() for _ in range(rng.randint(0, 2))]
    there = rng.random() < 0.5
    if rng.random() < 0.4:
        case.forall["F"], case.values["F"] = "Dim", rng.randint(0, 4)
        parts.append("2 * F")
        if not there:
            case.untold.add("F")
    add_input(case, "o", parts, expressions.dtype(), optional=True)
    if not there:
        case.shapes["o"] = None


def add_conditional(case: Case) -> None:
    """An input that is passed exactly when a condition over choices holds."""
    expressions = Expressions(case)
    parts = [expressions.length() for _ in range(case.rng.randint(0, 2))]
    condition = expressions.choice()
    add_input(case, "w", parts, expressions.dtype(), optional=condition)
    if not case.value(condition):
        case.shapes["w"] = None


def add_on_cpu(case: Case) -> None:
    """An input that is on the CPU wherever the call is."""
    add_input(case, "c", [Expressions(case).length()], "int32", device="cpu")


def add_expansion(case: Case) -> None:
    """An axis of which only a primitive tells the logical size."""
    case.forall["Q"] = "Dim"
    case.values["Q"] = case.rng.choice([3, 8, 15])
    add_input(case, "tri", ["Q"], "U")
    case.dims.append("Q")


def add_combos(case: Case) -> None:
    """Combinations of dtypes, that of the case among them."""
    rng, sets = case.rng, {"T": FLOATS, "U": OTHERS}
    if "fixed" in case.params:
        sets["fixed"] = ("float32", "int8")
    rows = {tuple(case.values[name] for name in sets)}
    rows |= {tuple(map(rng.choice, sets.values())) for _ in range(rng.randint(0, 4))}
    case.combos = [dict(zip(sets, row, strict=True)) for row in sorted(rows)]


# What follows from the indices


def add_lets(case: Case) -> None:
    """Lets over what is known, one over another, in any order."""
    rng, expressions, a = case.rng, Expressions(case), case.dims[0]
    picks = set(case.lets)
    case.lets |= {"half": f"{a} // 2", "scaled": "half * k"}
    for name in ("p", "q")[: rng.randint(0, 2)]:
        case.lets[name] = expressions.length()
    if rng.random() < 0.5:
        case.lets["both"] = expressions.choice()
    if rng.random() < 0.3:
        case.lets["some"] = expressions.run()
    if "cap" in case.params:
        case.lets["rest"] = "cap.value if present(cap) and flag else None"
    if "Q" in case.dims:
        case.lets["width"] = "mhc.expansion(Q)"
    for name in (name for name in case.lets if name not in picks):
        case.values[name] = case.value(case.lets[name])
    case.lets = dict(rng.sample(sorted(case.lets.items()), len(case.lets)))


def add_outputs(case: Case) -> None:
    """Outputs whose shapes and presence follow."""
    rng, expressions = case.rng, Expressions(case)
    add_output(case, "y", f"[scaled, {expressions.length()}]")
    for run in case.runs:
        add_output(case, f"y_{run}", f"[*{run}, {rng.choice(['half', expressions.length(0)])}]")
    if "q" in case.lets:
        add_output(case, "z", "[q]")
    if "Q" in case.dims:
        add_output(case, "e", "[width]")
    if "some" in case.lets:
        add_output(case, "v", "[*some]")
    if rng.random() < 0.5:
        condition = rng.choice([expressions.choice(), "both" if "both" in case.lets else "flag"])
        add_output(case, "m", "[half]", nullable=condition)
        if not case.value(condition):
            case.shapes["m"] = None


def add_output(case: Case, name: str, shape: str, **fields: Any) -> None:
    dtype = Expressions(case).dtype()
    case.outputs[name] = {"dtype": dtype, "shape": shape, **fields}
    case.outputs[name] |= some(case.rng, {"contiguous": True})
    case.shapes[name] = case.shape(shape)


def add_written(case: Case) -> None:
    """An input that the call writes, always or where a condition holds, and perhaps returns."""
    rng, expressions = case.rng, Expressions(case)
    written: Any = rng.choice([True, expressions.choice()])
    fields = {"mutated": written}
    if written is True and rng.random() < 0.5:
        fields["write_only"] = True
    add_input(case, "acc", [expressions.length(), "2"], "T", **fields)
    if rng.random() < 0.6:
        shape = case.inputs["acc"]["shape"]
        case.outputs["a"] = {"dtype": "T", "shape": shape, "alias": "acc"}
        case.shapes["a"] = case.shapes["acc"]


def add_buffer(case: Case) -> None:
    """An output that may be written into a tensor of the caller."""
    case.outputs["y"]["buffer"] = "out"
    case.passes_out = case.rng.random() < 0.5


def add_rules(case: Case) -> None:
    """Refinements that hold."""
    expressions = Expressions(case)
    a = case.dims[0]
    case.rules = [f"{a} <= {case.values[a]} or flag", f"k > 0 and {a} >= half"]
    for _ in range(case.rng.randint(0, 3)):
        rule = expressions.rule()
        case.rules.append(rule if case.value(rule) else f"not ({rule})")
    case.rng.shuffle(case.rules)
