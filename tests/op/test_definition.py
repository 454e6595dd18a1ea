from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from toys import ADD_SPEC, add_op, body_op, define, spec, tensor, unique

from tileops import Op, manifest
from tileops._core.runtime import plan
from tileops._core.spec.registry import lookup
from tileops.errors import ManifestError, SignatureTypeError


def identity(self, x):
    return x.clone()


def one_input(stem="One", **fields):
    return body_op(stem, {"x": tensor()}, {"y": tensor()}, identity, **fields)


def test_spec_with_inputs_and_no_composition_has_operators():
    cls = add_op()
    assert len(cls.compile_op_names) == 1
    namespace, name = cls.compile_op_names[0].split("::")
    assert hasattr(getattr(torch.ops, namespace), name)
    assert hasattr(cls, "_call_boundary")


def test_spec_without_inputs_or_with_composition_has_none():
    source = {
        "forall": {},
        "params": {"n": {"type": "int"}},
    }
    ramp = body_op(
        "Ramp",
        {},
        {"y": {"dtype": "float32", "shape": "[n]"}},
        lambda self: torch.ones(self.n),
        source["params"],
        {"forall": {}},
        workloads=[{"n": 3, "label": "three"}],
    )
    assert ramp.compile_op_names == ()
    stages = {"kind": "composite", "stages": [{"name": "add", "op": add_op().__name__}]}
    assert one_input(composition=stages).compile_op_names == ()


def test_parameter_names_are_the_spec_s_and_stand_on_the_class_itself():
    parent = add_op()
    child = type(unique("Child"), (parent,), {})
    assert parent._parameter_names == ("alpha",)
    assert child._parameter_names == ()
    assert "_parameter_names" in vars(child)


def test_unlisted_child_enters_its_parent_s_operators_and_checks():
    parent = add_op()
    child = type(unique("Child"), (parent,), {})
    assert child.compile_op_names == parent.compile_op_names
    op = child(2.0)
    x, y = torch.ones(3), torch.ones(3)
    assert op(x, y).tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match=rf"{parent.__name__} \(call\)"):
        op(x, torch.ones(4))


def test_family_base_cannot_be_instantiated():
    base = type("Base", (Op,), {"helper": lambda self: None})
    with pytest.raises(TypeError) as caught:
        base()
    expected = "Base cannot be instantiated: it leaves _infer_output_shapes, forward abstract"
    assert str(caught.value) == expected


def test_class_that_lacks_only_its_spec_says_so():
    cls = type(unique("Nameless"), (Op,), {"forward": identity})
    with pytest.raises(TypeError) as caught:
        cls()
    assert str(caught.value) == (
        f"{cls.__name__} cannot be instantiated: it leaves _infer_output_shapes abstract, since no "
        f"spec was called {cls.__name__!r} when the class was defined: register one with "
        "tileops.manifest.register before, or give both the same name"
    )


def test_leaf_of_a_family_base_passes_what_the_base_asks_for():
    def init(self, alpha, *, target=None):
        self.alpha = alpha
        Op.__init__(self, target=target)

    base = type("ScaleBase", (Op,), {"__init__": init})
    leaf = define("Leaf", ADD_SPEC, base=base, forward=lambda self, x, y: self.alpha * x + y)
    assert leaf(3.0)(torch.ones(2), torch.ones(2)).tolist() == [4, 4]


def test_op_without_a_spec_constructs_and_cannot_be_called():
    members = {"forward": identity, "_infer_output_shapes": lambda self, *shapes: None}
    cls = type(unique("NoSpec"), (Op,), members)
    op = cls()
    assert op._construction_indices == {}
    assert cls.compile_op_names == ()
    with pytest.raises(TypeError) as caught:
        op(torch.ones(1))
    assert str(caught.value) == (
        f"{cls.__name__} has no spec, so it cannot be called: register one under the name "
        f"{cls.__name__!r} with tileops.manifest.register before the class is defined"
    )


def test_malformed_spec_imports_and_refuses_construction():
    broken = spec({"x": tensor(shape="[*S")}, {"y": tensor()})
    with pytest.warns(RuntimeWarning, match="cannot be constructed") as caught:
        cls = define("Broken", broken, forward=identity)
    assert "signature.inputs.x.shape" in str(caught[0].message)
    assert cls.compile_op_names == ()
    with pytest.raises(ManifestError, match=r"signature.inputs.x.shape"):
        cls()


@pytest.mark.parametrize("rule", ["len(S) > 1 and flip == 1", "1 > 2"])
def test_spec_of_the_package_is_judged_before_the_first_construction(rule):
    params, signature = {"flip": {"type": "bool"}}, {"shape_rules": [rule]}
    declared = spec({"x": tensor()}, {"y": tensor()}, params, signature)
    name = unique("Ours")
    manifest.register({name: declared})
    ours = dataclasses.replace(lookup(name), in_tree=True)
    found = plan._planned(ours)
    with pytest.raises(ManifestError, match=f"{name} signature"):
        found.source()
    with pytest.raises(ManifestError, match=f"{name} signature"):
        found.source()


def test_spec_of_the_package_that_does_not_show_its_effects_is_judged_at_once(monkeypatch):
    declared = spec(
        {"x": tensor()},
        {"y": tensor(shape="[*S, N]")},
        None,
        {"forall": {"S": "Shape", "N": "Dim", "T": "DType[float32]"}},
    )
    name = unique("Ours")
    manifest.register({name: declared})
    ours = dataclasses.replace(lookup(name), in_tree=True)

    def effect_branches(spec):
        raise KeyError("N")

    monkeypatch.setattr(plan, "effect_branches", effect_branches)
    with pytest.raises(ManifestError, match=f"{name} signature"):
        plan._planned(ours)


@pytest.mark.parametrize("rule", ["flip and not flip", "1 > 2", "flip and not flip and len(S) > 1"])
def test_spec_that_no_choice_satisfies_refuses_construction(rule):
    params, signature = {"flip": {"type": "bool"}}, {"shape_rules": [rule]}
    declared = spec({"x": tensor()}, {"y": tensor()}, params, signature)
    with pytest.warns(RuntimeWarning, match="cannot be constructed"):
        cls = define("Impossible", declared, forward=identity)
    with pytest.raises(ManifestError, match=r"shape_rules\[0\]: \[V29\] no choice satisfies it"):
        cls()


def test_spec_registered_afterwards_changes_nothing():
    name = unique("Late")
    members = {"forward": identity, "_infer_output_shapes": lambda self: None}
    cls = type(name, (Op,), members)
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})
    assert cls.compile_op_names == ()
    with pytest.raises(TypeError, match="has no spec"):
        cls()(torch.ones(1))


def test_status_changes_nothing_that_is_generated():
    implemented, planned = (one_input(status=status) for status in ("implemented", "spec-only"))
    assert len(implemented.compile_op_names) == len(planned.compile_op_names) == 1
    assert planned()(torch.ones(2)).tolist() == [1, 1]


def test_generated_members_replace_hand_written_ones():
    def wrong(self, *args):
        raise AssertionError

    cls = add_op(
        _check_construction=wrong, _infer_output_shapes=wrong, eval_roofline=wrong,
        _call_boundary=wrong,
    )  # fmt: skip
    op = cls(2.0)
    op(torch.ones(2), torch.ones(2))
    assert op.eval_roofline() == (1, 24)
    assert op._infer_output_shapes((3, 2), (3, 2)) == {"z": (3, 2)}
    assert op._infer_output_shapes(x=(3, 2), y=(3, 2)) == {"z": (3, 2)}
    with pytest.raises(SignatureTypeError, match="takes the shapes of 2 inputs, got 3"):
        op._infer_output_shapes((1,), (1,), (1,))
    with pytest.raises(SignatureTypeError, match="the shape of x is given twice"):
        op._infer_output_shapes((1,), x=(1,))


def test_class_without_roofline_says_which_field_is_missing():
    members = {"forward": identity, "_infer_output_shapes": lambda self: None}
    op = type(unique("NoRoof"), (Op,), members)()
    with pytest.raises(RuntimeError, match="has no roofline: its spec has no field `roofline`"):
        op.eval_roofline()


def two_inputs(forward, composite=False, **outputs):
    stages = {"kind": "composite", "stages": [{"name": "add", "op": add_op().__name__}]}
    fields = {"composition": stages} if composite else {}
    return define(
        "Two",
        spec({"x": tensor(), "w": tensor(optional=True)}, {"y": tensor(**outputs)}, **fields),
        forward=forward,
    )


def annotated(self, x, w=None, out=None, k: int = 1, s: float = 1.0, f: bool = True, m: str = ""):
    return x.clone()


def test_execution_arguments_follow_inputs_and_buffer():
    cls = two_inputs(annotated, buffer="out")
    assert len(cls.compile_op_names) == 2
    assert cls()(torch.ones(2), k=3, m="fast").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("forward", "outputs"),
    [
        (lambda self, w, x=None: x, {}),
        (lambda self, x: x, {}),
        (lambda self, x, w: x, {}),
        (lambda self, x, *, w=None: x, {}),
        (lambda self, x=None, w=None: x, {}),
        (lambda self, x, w=None, out=None: x, {}),
        (lambda self, x, w=None: x, {"buffer": "out"}),
        (lambda self, x, w=None, *rest: x, {}),
        (lambda self, x, w=None, **rest: x, {}),
        (lambda self, x, /, w=None: x, {}),
        (staticmethod(lambda x, w=None: x), {}),
    ],
)
@pytest.mark.parametrize("composite", [False, True])
def test_forward_out_of_step_with_the_spec(forward, outputs, composite):
    with pytest.raises(TypeError) as caught:
        two_inputs(forward, composite, **outputs)
    wanted = "x, w=None, out=None" if outputs else "x, w=None"
    assert f"its spec asks for ({wanted}) and then execution arguments" in str(caught.value)


def test_execution_argument_without_an_admitted_annotation():
    def forward(self, x, w=None, k: list = ()):
        return x

    with pytest.raises(TypeError) as caught:
        two_inputs(forward)
    text = "forward: execution argument 'k' must be annotated int, float, bool or str"
    assert text in str(caught.value)


def out_of_order(self, w, x):
    return x


def test_forward_of_a_composite_that_orders_its_inputs_otherwise():
    with pytest.raises(TypeError) as caught:
        two_inputs(out_of_order, composite=True)
    text = "forward takes (w, x), its spec asks for (x, w=None) and then execution arguments"
    assert text in str(caught.value)


@pytest.mark.parametrize("composite", [False, True])
def test_execution_arguments_that_operators_cannot_have(composite):
    for name in ("_op", "_key", "_isinstance", "instance_key"):
        scope = {}
        exec(f"def forward(self, x, w=None, {name}: int = 0): return x", scope)
        with pytest.raises(TypeError, match=f"argument '{name}' must not be called instance_key"):
            two_inputs(scope["forward"], composite)

    def forward(self, x, w=None, größe: int = 0):
        return x

    with pytest.raises(TypeError, match="argument 'größe' must have an ASCII name"):
        two_inputs(forward, composite)


def test_instance_of_a_class_that_was_defined_again():
    declared = spec({"x": tensor()}, {"y": tensor()})
    name = unique("Again")
    manifest.register({name: declared})

    def shift(self, x, k: int = 2):
        return x + k

    first, same, other = (
        type(Op)(name, (Op,), {"forward": body})
        for body in (lambda self, x: x + 1, lambda self, x: x + 5, shift)
    )
    old, x = first(), torch.ones(2)
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            old(x)
        assert str(caught.value) == (
            f"{name} was defined again with other arguments, and its operators with it: construct "
            "the op again, and compile again what was compiled with it"
        )
    assert other()(x, k=4).tolist() == [5, 5]
    last = type(Op)(name, (Op,), {"forward": lambda self, x: x + 9})
    assert [op(x).tolist() for op in (old, same(), last())] == [[2, 2], [6, 6], [10, 10]]


def test_class_defined_again_with_its_execution_arguments_in_another_order():
    name = unique("Turned")
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})

    def scaled(self, x, shift: int = 1, factor: int = 10):
        return x * factor + shift

    def turned(self, x, factor: int = 10, shift: int = 1):
        return x * factor + shift

    x = torch.full((2,), 2.0)
    old = type(name, (Op,), {"forward": scaled})()
    compiled = torch.compile(lambda x: old(x, shift=4, factor=3), backend="eager", fullgraph=True)
    assert [old(x, 4, 3).tolist(), compiled(x).tolist()] == [[10, 10]] * 2
    new = type(name, (Op,), {"forward": turned})()
    for _ in range(2):
        found = [old(x, 4, 3), new(x, 3, 4), compiled(x)]
        assert [y.tolist() for y in found] == [[10, 10]] * 3


def test_class_defined_again_with_an_execution_argument_of_another_name():
    name = unique("Named")
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})

    def shift(self, x, shift: int = 1):
        return x + shift

    def factor(self, x, factor: int = 1):
        return x * factor

    old = type(name, (Op,), {"forward": shift})()
    new = type(name, (Op,), {"forward": factor})()
    assert new(torch.ones(2), 3).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=f"{name} was defined again with other arguments"):
        old(torch.ones(2), 3)
    with pytest.raises(TypeError, match=r"inputs\.x: required, got None"):
        old()


CONVERTED = {(int, float), (bool, int), (int, bool), (bool, float)}
"""Types whose values the dispatcher takes for another."""


@pytest.mark.parametrize(
    "kinds",
    list(itertools.permutations((int, float, bool, str), 2)),
    ids=lambda kinds: "-".join(kind.__name__ for kind in kinds),
)
def test_class_defined_again_with_an_execution_argument_of_another_type(kinds):
    torch.compiler.reset()  # Each case compiles the same line of this file again.
    name = unique("Typed")
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})
    seen = []

    def define_with(kind):
        def forward(self, x, k=None):
            seen.append(k)
            return x + 1

        forward.__defaults__, forward.__annotations__["k"] = (kind(),), kind
        return type(name, (Op,), {"forward": forward})()

    value, x = kinds[0](), torch.ones(2)
    old = define_with(kinds[0])
    compiled = torch.compile(lambda x: old(x, k=value), backend="eager", fullgraph=True)
    compiled(x), old(x, value)
    assert [(type(k), k) for k in seen] == [(kinds[0], value)] * 2
    new = define_with(kinds[1])
    message = f"{name} was defined again with other arguments"
    for call in (lambda: old(x, value), lambda: old(x)):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(RuntimeError, match=message), torch._subclasses.FakeTensorMode():
        old(torch.ones(2), value)
    # Of other values the dispatcher itself says that they do not fit the operator.
    with pytest.raises(RuntimeError, match=message if kinds in CONVERTED else None):
        compiled(x)
    seen.clear()
    new(x, kinds[1]())
    assert [(type(k), k) for k in seen] == [(kinds[1], kinds[1]())]


AGAIN = """
import torch
from toys import define, spec, tensor

declared = spec({"x": tensor()}, {"y": tensor()})

def shift(self, x, k: int = 2):
    return x + k

old = []
for number in range(100):
    cls = define("Again", declared, forward=lambda self, x: x + 1)
    old.append(cls())
    type(cls)(cls.__name__, cls.__bases__, {"forward": shift})
for number in range(100):
    define("Other", declared, forward=shift)
for op in old:
    try:
        op(torch.ones(2))
    except RuntimeError as error:
        assert "was defined again with other arguments" in str(error), error
    else:
        raise AssertionError
"""


def test_instances_of_many_classes_that_were_defined_again_call_nothing_that_is_freed():
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_two_classes_of_one_operator_name():
    first, second = unique("GemmA"), "Gemm_a"
    number = first.removeprefix("GemmA").removesuffix("FwdOp")
    second = f"Gemm_a{number}FwdOp"
    declared = spec({"x": tensor()}, {"y": tensor()})
    manifest.register({first: declared, second: declared})
    type(first, (Op,), {"forward": identity})
    with pytest.raises(TypeError) as caught:
        type(second, (Op,), {"forward": identity})
    text = f"{second} and {first} would both register the operator tileops::toys_gemm_a{number}_fwd"
    assert str(caught.value) == text


def test_class_defined_again_takes_over_its_operators():
    name = unique("Again")
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})
    first = type(name, (Op,), {"forward": identity})()
    second = type(name, (Op,), {"forward": lambda self, x: x + 1})()
    x = torch.zeros(2)
    assert first(x).tolist() == [0, 0]
    assert second(x).tolist() == [1, 1]


def test_class_defined_again_with_another_forward_gets_a_new_operator():
    name = unique("Anew")
    manifest.register({name: spec({"x": tensor()}, {"y": tensor()})})
    type(name, (Op,), {"forward": identity})

    def forward(self, x, k: int = 2):
        return x + k

    second = type(name, (Op,), {"forward": forward})()
    assert second(torch.zeros(2), k=5).tolist() == [5, 5]


@pytest.mark.parametrize("name", ["cls", "op", "args", "kwargs", "known", "faults", "tensors"])
def test_names_that_the_machinery_uses_too(name):
    params = {name: {"type": "int"}}
    assert one_input(params=params)(**{name: 3})(torch.ones(2)).tolist() == [1, 1]
    inputs = {name: tensor(), "w": tensor(optional=True)}
    scope = {}
    exec(f"def forward(self, {name}, w=None): return {name} + 1", scope)
    op = body_op("Named", inputs, {"y": tensor()}, scope["forward"])()
    assert op(torch.ones(2)).tolist() == op(**{name: torch.ones(2)}).tolist() == [2, 2]


def test_defining_a_class_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_op()


def test_what_a_class_declares_is_read_only():
    cls = add_op()
    for name in ("kernel_types", "interfaces", "delegate_types"):
        with pytest.raises(TypeError, match="does not support item assignment"):
            getattr(cls, name)["mine"] = int
    changed = type(unique("Changed"), (cls,), {"kernel_types": {**cls.kernel_types}})
    assert dict(changed.kernel_types) == dict(cls.kernel_types)


FOREIGN = """
from tileops import Op
class {name}(Op):
    def __init__(self, dim=None, dtype=None, *, target=None):
        self.dim, self.dtype = dim, dtype
        super().__init__(target=target)
    def forward(self, {arguments}):
        raise AssertionError
"""


def test_a_class_that_shares_the_name_of_anothers_op_takes_nothing_over():
    from tileops._core.validate.code import find_class
    from tileops.reduction import SoftmaxBwdOp, SoftmaxFwdOp

    space = {"__name__": "acme.ops"}
    exec(FOREIGN.format(name="SoftmaxBwdOp", arguments="grad_out, output"), space)
    assert space["SoftmaxBwdOp"].compile_op_names == SoftmaxBwdOp.compile_op_names
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(SoftmaxFwdOp(-1)(x).square().sum(), x)
    assert gradient.abs().max() > 0
    assert find_class(lookup("SoftmaxBwdOp")) is SoftmaxBwdOp


def test_a_class_that_shares_the_name_of_anothers_op_may_not_replace_its_operators():
    from tileops.reduction import SoftmaxFwdOp

    space = {"__name__": "acme.ops"}
    with pytest.raises(TypeError, match=r"acme\.ops\.SoftmaxFwdOp and SoftmaxFwdOp would both"):
        exec(FOREIGN.format(name="SoftmaxFwdOp", arguments="x, extra: int = 0"), space)
    assert SoftmaxFwdOp(-1)(torch.zeros(2)).tolist() == [0.5, 0.5]
