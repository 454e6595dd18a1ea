"""The table of built-ins agrees with the functions, their domains and the façade."""

from __future__ import annotations

import inspect

import pytest

from tileops._core.lang.kinds import INT, INTS, SHAPE, BoolKind, EnumKind, MaybeKind, SeqKind, fits
from tileops._core.lang.primitives.table import BUILTINS, NAMESPACES
from tileops.manifest import primitives

LAYOUT = type("Masked", (), {"kind": "masked", "max_m": 2})()


def facade(name):
    found = primitives
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", BUILTINS)
def test_facade_exports_the_documented_function(name):
    builtin = BUILTINS[name]
    assert facade(name) is builtin.function
    assert len(inspect.getdoc(builtin.function)) > 15


@pytest.mark.parametrize("name", BUILTINS)
def test_parameters_are_those_of_the_function(name):
    builtin = BUILTINS[name]
    parameters = list(inspect.signature(builtin.function).parameters.values())
    if builtin.role == "predicate":
        assert parameters.pop(0).name == "x"
    if builtin.random:
        last = parameters.pop()
        assert (last.name, last.kind) == ("rng", last.KEYWORD_ONLY)
    if builtin.variadic:
        assert parameters[0].kind is parameters[0].VAR_POSITIONAL
        return
    assert [q.name for q in parameters] == [q.name for q in builtin.parameters]
    optional = [q.default is not q.empty for q in parameters]
    assert optional == [q.optional for q in builtin.parameters]


def sample(parameter):
    """A value in the domain of a parameter."""
    if parameter.name == "layout":
        return LAYOUT
    kind = parameter.kind
    if isinstance(kind, MaybeKind):
        kind = INT
    if isinstance(kind, BoolKind):
        return True
    if isinstance(kind, EnumKind):
        return min(kind.literals)
    if isinstance(kind, SeqKind):
        return [4, 3] if kind in (INTS, SHAPE) else [True]
    return parameter.at_least or 0


@pytest.mark.parametrize("name", BUILTINS)
def test_declared_domains_are_enforced(name):
    builtin = BUILTINS[name]
    bounded = [q for q in builtin.parameters if q.at_least is not None]
    for parameter in bounded:
        arguments = [
            parameter.at_least - 1 if q is parameter else sample(q) for q in builtin.parameters
        ]
        before = [[]] if builtin.role == "predicate" else []
        extra = {"rng": None} if builtin.random else {}
        with pytest.raises(ValueError, match=parameter.name):
            builtin.function(*before, *arguments, **extra)


def test_names_are_complete():
    roles = [builtin.role for builtin in BUILTINS.values()]
    assert roles.count("primitive") == 20
    assert roles.count("list") == 2
    assert roles.count("generator") == 17
    assert roles.count("predicate") == 9
    assert sorted(NAMESPACES) == ["attn", "conv", "mhc", "moe", "pool"]
    assert sum(builtin.random for builtin in BUILTINS.values()) == 6
    exported = {name for name in primitives.__all__ if name not in ("WORKLOAD_SEED", "Contents")}
    assert exported == {name.partition(".")[0] for name in BUILTINS}


def test_construction_arguments():
    marked = {
        f"{builtin.name}.{q.name}"
        for builtin in BUILTINS.values()
        for q in builtin.parameters
        if q.construction
    }
    assert marked == {
        "reduced.dim", "reduced.keepdim", "valid_axes.dim", "unique_axes.dim", "per_axis.v",
        "per_axis.i", "per_axis.n", "pool.out.ceil_mode", "moe.capacity.layout",
    }  # fmt: skip


def test_result_kinds_fit_what_functions_return():
    assert fits(BUILTINS["broadcast"].result_kind([SHAPE]), INTS)
    assert BUILTINS["mhc.expansion"].symint == "specialises"
    assert BUILTINS["len"].symint == "plain"
    assert BUILTINS["prod"].symint == "symbolic"
