"""Code against its spec: what the validator says of classes that differ from theirs."""

from __future__ import annotations

import copy
import sys
import types
from typing import Any

import pytest
import torch

from op.classes import ALIVE, SPEC, Spec, findings, op_class, own_specs  # noqa: F401
from tileops import manifest
from tileops._core.spec import registry
from tileops._core.validate import code


def test_a_class_that_agrees_has_no_findings() -> None:
    op_class("AgreesFwdOp", SPEC)
    assert findings("AgreesFwdOp") == []


def test_a_spec_without_class() -> None:
    manifest.register({"LonelyFwdOp": SPEC})
    assert findings("LonelyFwdOp") == [
        ("", 45, "no class LonelyFwdOp in the classes defined so far")
    ]


def test_a_spec_only_op_is_not_compared() -> None:
    manifest.register({"PlannedFwdOp": {**SPEC, "status": "spec-only"}})
    assert findings("PlannedFwdOp") == []


def test_a_hand_written_member_that_a_generated_one_replaces() -> None:
    members = {"eval_roofline": lambda self: (0, 0), "_infer_output_shapes": lambda self: {}}
    op_class("HandWrittenFwdOp", SPEC, **members, compile_op_names=("none",))
    assert findings("HandWrittenFwdOp") == [
        ("", 45, f"the class body defines {name}, which a generated member replaces")
        for name in (*members, "compile_op_names")
    ]


INITS: dict[str, tuple[Any, str, str]] = {
    "Default": (
        lambda self, gain=2.0, *, mode="a", target=None: None,
        "signature.params.gain.default",
        "the spec has 1.0, __init__ has 2.0",
    ),
    "BoolDefault": (
        lambda self, gain=True, *, mode="a", target=None: None,
        "signature.params.gain.default",
        "the spec has 1.0, __init__ has True",
    ),
    "NoDefault": (
        lambda self, gain, *, mode="a", target=None: None,
        "signature.params.gain.default",
        "in __init__ it has no default",
    ),
    "Positional": (
        lambda self, gain=1.0, mode="a", *, target=None: None,
        "signature.params.mode.kw_only",
        "in __init__ it is positional",
    ),
    "Missing": (
        lambda self, gain=1.0, *, target=None: None,
        "signature.params",
        "expected __init__ to take gain, mode, it takes gain",
    ),
    "Extra": (
        lambda self, gain=1.0, *, mode="a", eps=0.0, target=None: None,
        "signature.params",
        "__init__ takes 'eps', which is no parameter; a name that no spec has stands in the "
        "class's injected_parameters",
    ),
    "Mistyped": (
        lambda self, gain=1.0, *, mod="a", target=None: None,
        "signature.params",
        "__init__ takes 'mod', which is no parameter; did you mean 'mode'?",
    ),
    "NoTarget": (
        lambda self, gain=1.0, *, mode="a": None,
        "signature.params",
        "__init__ takes no keyword-only target=None",
    ),
    "PositionalTarget": (
        lambda self, gain=1.0, target=None, *, mode="a": None,
        "signature.params",
        "__init__ takes no keyword-only target=None",
    ),
    "Variadic": (
        lambda self, gain=1.0, *, mode="a", target=None, **more: None,
        "signature.params",
        "__init__ takes **more; name every parameter",
    ),
}


@pytest.mark.parametrize("case", INITS)
def test_constructors(case: str) -> None:
    function, path, message = INITS[case]
    op_class(f"{case}InitFwdOp", SPEC, __init__=function)
    assert findings(f"{case}InitFwdOp") == [(path, 47, message)]


def test_a_malformed_spec_is_compared_as_far_as_it_can_be() -> None:
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"]["gain"] = {"type": "flaot", "default": 1.0}
    with pytest.warns(RuntimeWarning, match="unknown type flaot"):
        op_class("MalformedFwdOp", spec)
    assert [(path, check) for path, check, _ in findings("MalformedFwdOp")] == [
        ("signature.params.gain.type", 10)
    ]


def test_parameters_in_another_order() -> None:
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"] = {
        "a": {"type": "int"}, "b": {"type": "int"},
    }  # fmt: skip
    for row in spec["workloads"]:
        row |= {"a": 1, "b": 2}
    op_class("SwappedFwdOp", spec, __init__=lambda self, b, a, *, target=None: None)
    assert findings("SwappedFwdOp") == [
        ("signature.params", 47, "expected __init__ to take a, b, it takes b, a")
    ]


def test_injected_parameters_are_admitted() -> None:
    op_class(
        "InjectedFwdOp",
        SPEC,
        __init__=lambda self, gain=1.0, *, mode="a", experts=None, target=None: None,
        injected_parameters=("experts",),
    )
    assert findings("InjectedFwdOp") == []


@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ({"type": "list[int]", "default": [1]}, (1,)),
        ({"type": "float | None", "default": None}, None),
        ({"type": "torch.dtype", "default": "float16"}, torch.float16),
        ({"type": "float", "default": float("nan")}, float("nan")),
        ({"type": "float", "default": 1}, 1.0),
        ({"dtype": "float32", "shape": "[N]", "optional": True}, None),
    ],
)
def test_defaults_are_compared_after_conversion(declared: Any, default: Any) -> None:
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"] = {"p": declared}
    if "shape" in declared:
        spec["workloads"][1]["some"] = ["w", "p"]
    name = f"Converted{abs(hash(str(declared)))}FwdOp"

    def init(self: Any, p: Any = default, *, target: Any = None) -> None:
        self.p = p

    op_class(name, spec, __init__=init)
    assert findings(name) == []


FORWARDS: dict[str, tuple[Any, str, str]] = {
    "Swapped": (
        lambda self, w=None, x=None, out=None: None,
        "signature.inputs",
        "expected forward to begin with x, w, out, it has w, x, out",
    ),
    "NoBuffer": (
        lambda self, x, w=None: None,
        "signature.inputs",
        "expected forward to begin with x, w, out, it has x, w",
    ),
    "RequiredDefault": (
        lambda self, x=None, w=None, out=None: None,
        "signature.inputs.x",
        "forward's 'x' has no default",
    ),
    "OptionalWithout": (
        lambda self, x, w, out=None: None,
        "signature.inputs.w",
        "forward's 'w' has the default None",
    ),
    "Keyword": (
        lambda self, x, w=None, *, out=None: None,
        "signature.outputs",
        "forward takes 'out' by keyword only",
    ),
    "Unannotated": (
        lambda self, x, w=None, out=None, start=0: None,
        "signature.inputs",
        "forward's 'start' is annotated int, float, bool or str",
    ),
    "Variadic": (
        lambda self, x, w=None, out=None, *rest: None,
        "signature.inputs",
        "forward takes *rest; name every parameter",
    ),
}


@pytest.mark.parametrize("case", FORWARDS)
def test_forwards(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class is sound when it is defined; its `forward` is changed behind its back."""
    function, path, message = FORWARDS[case]
    cls = op_class(f"{case}ForwardFwdOp", SPEC)
    monkeypatch.setattr(cls, "forward", function)
    assert findings(f"{case}ForwardFwdOp") == [(path, 48, message)]


def test_execution_arguments_are_admitted() -> None:
    def forward(self: Any, x: Any, w: Any = None, out: Any = None, start: int = 0) -> torch.Tensor:
        return x  # type: ignore[no-any-return]

    op_class("ExecutionFwdOp", SPEC, forward=forward)
    assert findings("ExecutionFwdOp") == []


def _composite(*stages: Spec) -> Spec:
    return {**SPEC, "composition": {"kind": "composite", "stages": list(stages)}}


def test_stages_equal_the_delegates() -> None:
    inner = op_class("InnerFwdOp", SPEC)
    other = op_class("OtherInnerFwdOp", SPEC)
    spec = _composite({"name": "a", "op": "InnerFwdOp"}, {"name": "b", "op": "OtherInnerFwdOp"})
    op_class("StagesFwdOp", spec, delegate_types={"a": inner, "b": other})
    assert findings("StagesFwdOp") == []
    op_class("SwappedStagesFwdOp", spec, delegate_types={"b": other, "a": inner})
    op_class("MoreStagesFwdOp", spec, delegate_types={"a": inner, "b": other, "c": other})
    for name in ("SwappedStagesFwdOp", "MoreStagesFwdOp"):
        [(path, check, message)] = findings(name)
        assert (path, check) == ("composition.stages", 49)
        assert message.startswith("the spec's op stages are {'a': 'InnerFwdOp', 'b': 'Other")


def test_kernel_stages_are_the_keys_of_kernel_types(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _composite({"name": "a", "kernel": "tile"}, {"name": "b", "kernel": "rows"})
    cls = op_class("KernelStagesFwdOp", spec)
    monkeypatch.setattr(cls, "kernel_types", {"rows": object, "other": object})
    strays = "the kernel types 'other', 'rows' implement no interface of the op; it declares none"
    assert findings("KernelStagesFwdOp") == [
        ("", 52, strays),
        ("composition.stages", 49, "no stage names the kernel type 'other'"),
        ("composition.stages[0].kernel", 49, "'tile' is no key of kernel_types"),
    ]


def test_delegates_without_composition() -> None:
    inner = op_class("HeldFwdOp", SPEC)
    op_class("SecretFwdOp", SPEC, delegate_types={"a": inner})
    assert findings("SecretFwdOp") == [
        ("composition", 49, "the spec's op stages are {}, delegate_types are {'a': 'HeldFwdOp'}")
    ]


def test_operators_are_those_of_the_effect_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = op_class("OperatorsFwdOp", SPEC)
    assert len(cls.compile_op_names) == 2
    monkeypatch.setattr(cls, "compile_op_names", cls.compile_op_names[:1])
    [(path, check, message)] = findings("OperatorsFwdOp")
    assert (path, check) == ("signature", 50)
    assert message.startswith("operators (writes nothing")
    monkeypatch.setattr(cls, "compile_op_names", ())
    [(path, check, message)] = findings("OperatorsFwdOp")
    assert (path, check) == ("signature", 50)
    assert message == "the spec needs a compile boundary, compile_op_names is ()"


def test_operators_may_return_equally_many_results() -> None:
    """Two outputs that may be missing, each without the other."""
    spec = copy.deepcopy(SPEC)
    spec["signature"]["outputs"] = {
        name: {"dtype": "float32", "shape": "[N]", "nullable": f"mode == '{mode}'"}
        for name, mode in (("y", "a"), ("z", "b"))
    }

    def forward(self: Any, x: torch.Tensor, w: Any = None) -> Any:
        return (x.clone(), None) if self.mode == "a" else (None, x.clone())

    cls = op_class("EitherFwdOp", spec, forward=forward)
    assert len(cls.compile_op_names) == 2
    assert findings("EitherFwdOp") == []


def test_a_default_that_the_spec_has_not() -> None:
    spec = copy.deepcopy(SPEC)
    del spec["signature"]["params"]["gain"]["default"]
    spec["workloads"] = [{**row, "gain": 1.0} for row in spec["workloads"]]
    op_class("OwnDefaultFwdOp", spec)
    reason = "in __init__ it has the default 1.0"
    assert findings("OwnDefaultFwdOp") == [("signature.params.gain.default", 47, reason)]


def test_a_default_too_long_to_be_written_out() -> None:
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"]["gain"]["default"] = 10**300
    op_class("HugeDefaultFwdOp", spec)
    reason = "the spec has an integer of 997 bits, __init__ has 1.0"
    assert findings("HugeDefaultFwdOp") == [("signature.params.gain.default", 47, reason)]


def test_operators_where_the_spec_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {**SPEC, "composition": {"kind": "composite", "stages": [{"name": "a", "op": "AddOp"}]}}
    cls = op_class("NoOperatorsFwdOp", spec)
    assert cls.compile_op_names == ()
    monkeypatch.setattr(cls, "compile_op_names", ("one",))
    reason = "the spec has no compile boundary, compile_op_names is ('one',)"
    assert ("signature", 50, reason) in findings("NoOperatorsFwdOp")


def test_an_operator_of_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = op_class("ArgumentsFwdOp", SPEC)
    spec = copy.deepcopy(SPEC)
    spec["signature"]["inputs"] = {
        "z": SPEC["signature"]["inputs"]["x"],
        "w": SPEC["signature"]["inputs"]["w"],
    }
    other = op_class("OtherArgumentsFwdOp", spec, forward=lambda self, z, w=None, out=None: z)
    monkeypatch.setattr(cls, "compile_op_names", other.compile_op_names)
    found = findings("ArgumentsFwdOp")
    assert {check for _, check, _ in found} == {50}
    assert any("the inputs come first, the key last" in message for _, _, message in found)


def test_named_objects_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_costs")
    module.count = lambda call: (call.indices["N"], call.derived_bytes())  # type: ignore[attr-defined]
    module.two = lambda call, more: (0, 0)  # type: ignore[attr-defined]
    module.number = type("Number", (), {"__module__": "acme_costs"})()  # type: ignore[attr-defined]
    module.half = lambda call: (0.5, -1)  # type: ignore[attr-defined]
    module.fails = lambda call: call.indices["Z"]  # type: ignore[attr-defined]
    for function in (module.count, module.two, module.half, module.fails):
        function.__module__ = "acme_costs"
    monkeypatch.setitem(sys.modules, "acme_costs", module)

    def found(name: str) -> list[tuple[str, int, str]]:
        op_class(f"{name.title()}CostFwdOp", {**SPEC, "roofline": {"func": f"acme_costs.{name}"}})
        return findings(f"{name.title()}CostFwdOp")

    assert found("count") == []
    assert found("half") == [("roofline.func", 40, "not an integer in case four: 0.5")]
    assert found("fails") == [("roofline.func", 40, "fails in case four: 'Z'")]
    [(path, check, message)] = found("two")
    assert (path, check) == ("roofline.func", 51)
    assert message.startswith("acme_costs.two does not take the call alone: missing")
    assert found("number") == [("roofline.func", 51, "acme_costs.number is not callable")]
    [(_, _, message)] = found("absent")
    assert message.startswith("acme_costs.absent cannot be resolved: ImportError")


def test_algebraic_types_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_types")
    module.number = type("Number", (), {"__module__": "acme_types"})()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_types", module)
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"] = {"c": {"type": "AcmeSum"}}
    for row in spec["workloads"]:
        row["c"] = {"a": {}}
    adts = {
        "AcmeSum": {"sum": {"a": {"python": "acme_types.number"}, "b": {"python": "acme_types.B"}}}
    }
    order = {"type": "'row' | 'col'", "python": "acme_types.Order"}
    adts["AcmeSum"]["sum"]["c"] = {"python": "builtins.object", "fields": {"order": order}}
    manifest.register({"adts": adts})
    op_class("AlgebraicFwdOp", spec, __init__=lambda self, c, *, target=None: None)
    found = findings("AlgebraicFwdOp")
    texts = [text for path, check, text in found if check == 51]
    assert texts[0] == "acme_types.number is not a class"
    assert texts[1].startswith("acme_types.B cannot be resolved: ImportError")
    assert texts[2].startswith("acme_types.Order cannot be resolved: ImportError")
    assert len(texts) == len(found) == 3


def test_an_algebraic_value_that_its_class_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        __module__ = "acme_types"
        kind = "a"

        def __init__(self) -> None:
            raise ValueError("never")

    module = types.ModuleType("acme_types")
    module.Refusing = Refusing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_types", module)
    spec = copy.deepcopy(SPEC)
    spec["signature"]["params"] = {"c": {"type": "AcmeNever"}}
    for row in spec["workloads"]:
        row["c"] = {"a": {}}
    manifest.register({"adts": {"AcmeNever": {"sum": {"a": {"python": "acme_types.Refusing"}}}}})
    op_class("RefusedFwdOp", spec, __init__=lambda self, c, *, target=None: None)
    assert findings("RefusedFwdOp") == [
        ("workloads[0].c", 38, "case four: ValueError: never"),
        ("workloads[1].c", 38, "case weighted: ValueError: never"),
    ]


# Where classes are found


def test_the_class_of_a_pack_is_imported_from_its_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = registry.content_of({"PackFwdOp": SPEC}, "acme_pack.specs", home="acme_pack")
    monkeypatch.setattr(registry, "_manifest", registry.manifest().adding([spec]))
    [(path, check, message)] = findings("PackFwdOp")
    assert (path, check) == ("", 45)
    assert message.startswith("the class cannot be imported: ModuleNotFoundError")
    monkeypatch.setitem(sys.modules, "acme_pack", types.ModuleType("acme_pack"))
    monkeypatch.setitem(sys.modules, "acme_pack.ops", types.ModuleType("acme_pack.ops"))
    assert findings("PackFwdOp") == [("", 45, "no class PackFwdOp in acme_pack.ops")]


def test_the_class_of_the_tree_is_that_of_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    import tileops.norm

    assert findings("RMSNormFwdOp") == []
    monkeypatch.setattr(tileops.norm, "__all__", [])
    assert findings("RMSNormFwdOp") == [("status", 46, "not in tileops.norm.__all__")]
    monkeypatch.setattr(tileops.norm, "RMSNormFwdOp", tileops.norm.LayerNormFwdOp)
    assert findings("RMSNormFwdOp") == [("", 45, "the class is called 'LayerNormFwdOp'")]
    monkeypatch.setattr(tileops.norm, "RMSNormFwdOp", dict)
    assert findings("RMSNormFwdOp") == [
        ("", 45, "RMSNormFwdOp of tileops.norm is not a subclass of Op")
    ]


def test_families_export_what_is_implemented(monkeypatch: pytest.MonkeyPatch) -> None:
    import tileops.norm

    listed = {"norm": dict.fromkeys(tileops.norm.__all__, "implemented")}
    assert list(code.check_exports(listed)) == []
    monkeypatch.setattr(tileops.norm, "__all__", [*tileops.norm.__all__, "GhostFwdOp", "PlanFwdOp"])
    listed["norm"]["PlanFwdOp"] = "spec-only"
    assert [tuple(found) for found in code.check_exports(listed)] == [
        ("tileops.norm", "__all__", "error", "[V46] GhostFwdOp is listed, but has no spec there"),
        (
            "PlanFwdOp",
            "status",
            "error",
            "[V46] listed in tileops.norm.__all__, but not implemented",
        ),
    ]
    [missing] = code.check_exports({"no_such_family": {"AFwdOp": "implemented"}})
    assert missing.op == "tileops.no_such_family"
    assert missing.message.startswith("[V46] cannot be imported: ModuleNotFoundError")
    assert list(code.check_exports({"no_such_family": {"AFwdOp": "spec-only"}})) == []
