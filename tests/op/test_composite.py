from __future__ import annotations

import copy

import pytest
import torch
from toys import ADD_SPEC, add_op, body_op, define, elsewhere, pair, spec, tensor

from tileops import Op, backend


def composite(delegate_types, forward, stem="Outer", **members):
    stages = [{"name": name, "op": cls.__name__} for name, cls in delegate_types.items()]
    declared = spec(
        {"x": tensor()}, {"z": tensor()}, composition={"kind": "composite", "stages": stages}
    )
    return define(stem, declared, delegate_types=delegate_types, forward=forward, **members)


@pytest.fixture
def part():
    return add_op()


@pytest.fixture
def outer(part):
    def forward(self, x):
        y = self.delegate_for("first", None, alpha=2.0)(x, x)
        return self.delegate_for("second", None, alpha=3.0)(y, x)

    return composite({"first": part, "second": part}, forward)


def test_sub_op_is_built_once_with_its_parameters_and_the_parent_s_target(part, outer):
    backend.register_kernel_builder(op=part.__name__, target="east", build_kernel=print)
    op = outer(target="east")
    held = op.delegate_for("first", None, alpha=2.0)
    assert isinstance(held, part)
    assert (held.alpha, held.target) == (2.0, "east")
    assert op.delegate_for("first", None) is held
    assert op.delegate_for("first", None, held) is held
    assert op.delegate_for("first", 8, alpha=4.0) is not held


def test_given_op_is_held_with_its_own_target_and_params_are_ignored(part, outer):
    given = part(7.0, target=backend.BUILTIN)
    op = outer(target=None)
    assert op.composition_only is False
    assert op.delegate_for("first", None, given, alpha=2.0) is given
    assert (given.alpha, given.target) == (7.0, backend.BUILTIN)
    assert op.composition_only is True


@pytest.mark.parametrize("order", [("run", "slope"), ("slope", "run")])
def test_a_stage_computes_the_gradients_of_another(order):
    """Whichever is held first, and in copies; one held for another identity does not."""
    slope = define(
        "Slope", spec({"dz": tensor()}, {"dx": tensor()}), forward=lambda self, dz: 3 * dz
    )
    fields = {"op": slope.__name__, "inputs": {"dz": "grad(z)"}, "outputs": {"dx": "x"}}
    declared = spec({"x": tensor()}, {"z": tensor()}, backward=fields)
    run = define("Run", declared, forward=lambda self, x: 3 * x)
    stages = {"run": run, "slope": slope}
    op = composite(stages, lambda self, x: self.delegate_for("run", None)(x))()
    for stage in order:
        op.delegate_for(stage, None)
    alone = op.delegate_for("run", 1)
    copies = copy.copy(op), copy.deepcopy(op)
    for each in (op, *copies):
        held = each.delegate_for("slope", None)
        assert each.delegate_for("run", None)._backward() is held
        x = torch.ones(2, requires_grad=True)
        each(x).sum().backward()
        assert x.grad.tolist() == [3, 3]
        assert held.last_call.written == ()
    assert alone._backward() is not op.delegate_for("slope", None)


def test_tuned_mode_is_passed_on(part, outer):
    op = outer()
    early = op.delegate_for("first", None)
    op.request_tune()
    late, given = op.delegate_for("second", None), part()
    op.delegate_for("second", 1, given)
    assert all(held._tune_requested for held in (early, late, given))


def test_undeclared_stage(outer):
    op = outer()
    for stage in ("third", None, ["first"]):
        with pytest.raises(KeyError) as caught:
            op.delegate_for(stage, None)
        assert caught.value.args[0] == (
            f"{type(op).__name__} declares no stage {stage!r}; declared: 'first', 'second'"
        )


def test_given_is_no_op(outer):
    op = outer()
    with pytest.raises(TypeError, match="stage 'first' takes an op, got a float"):
        op.delegate_for("first", None, 3.0)


def test_given_is_held_elsewhere(part, outer):
    op, given = outer(), part()
    op.delegate_for("first", 1, given)
    for stage, identity in (("first", 2), ("second", 1)):
        with pytest.raises(ValueError) as caught:
            op.delegate_for(stage, identity, given)
        assert str(caught.value) == (
            f"{type(op).__name__}: this {part.__name__} is held for stage 'first' and identity 1, "
            f"asked for stage {stage!r} and identity {identity}"
        )


def test_place_holds_another_op(part, outer):
    op = outer()
    op.delegate_for("first", 1, part())
    with pytest.raises(ValueError) as caught:
        op.delegate_for("first", 1, part())
    assert str(caught.value) == (
        f"{type(op).__name__}: stage 'first' holds a {part.__name__} for the identity 1; it cannot "
        f"hold another {part.__name__} there"
    )


def test_target_that_serves_the_whole_leaves_no_place_for_an_op(part, outer):
    backend.register_kernel_builder(
        op=outer.__name__, target="east", build_kernel=lambda x: lambda x: x + x
    )
    op = outer(target="east")
    op(torch.ones(2))
    with pytest.raises(ValueError) as caught:
        op.delegate_for("first", None, part())
    assert str(caught.value) == (
        f"{outer.__name__}: stage 'first' cannot take an op any more: target 'east' serves this "
        "one as a whole since an earlier call"
    )
    assert op.held_delegates() == ()


def test_op_cannot_hold_itself_or_what_holds_it(outer):
    inner, middle, top = (outer() for _ in range(3))
    middle.delegate_for("first", None, inner)
    top.delegate_for("first", None, middle)
    name = outer.__name__
    with pytest.raises(ValueError, match="cannot hold an op that is or holds this one") as caught:
        inner.delegate_for("first", None, inner)
    assert str(caught.value).endswith(f": {name}")
    with pytest.raises(ValueError) as caught:
        inner.delegate_for("first", None, top)
    assert str(caught.value).endswith(f": {name} holds {name} holds {name}")


def test_unhashable_identity(outer):
    op = outer()
    with pytest.raises(TypeError) as caught:
        op.delegate_for("first", [1])
    assert str(caught.value) == (
        f"{type(op).__name__}: stage 'first': the identity cannot be hashed, it is a list"
    )


def test_failing_construction_holds_nothing(outer):
    op = outer()
    with pytest.raises(ValueError, match="alpha") as caught:
        op.delegate_for("first", None, alpha="high")
    assert caught.value.__notes__ == [f"while {op._name} built the sub-op of its stage 'first'"]
    assert op.held_delegates() == ()
    assert op._delegate_stages == {}


def test_one_op_in_two_composites(part, outer):
    shared, first, second = part(), outer(), outer()
    first.delegate_for("first", None, shared)
    second.delegate_for("second", None, shared)
    first(torch.ones(2))
    second(torch.ones(2))
    assert len(first.last_call.stages["first"]) == len(second.last_call.stages["second"]) == 1


def test_delegates_stand_in_stage_order_then_in_order_of_holding(outer):
    op = outer()
    late = op.delegate_for("second", 5)
    one, two = op.delegate_for("first", "b"), op.delegate_for("first", "a")
    assert op.held_delegates() == (one, two, late)


def test_records_are_filed_under_their_stages_in_completion_order(part):
    def forward(self, x):
        first, second = self.delegate_for("first", None), self.delegate_for("second", None)
        y = first(x, x)
        for n in range(2, 4):
            second(x[:n], x[:n])
        return first(y, y)

    op = composite({"first": part, "second": part, "third": part}, forward)()
    op(torch.ones(4))
    stages = op.last_call.stages
    assert list(stages) == ["first", "second", "third"]
    assert [record.shape("x") for record in stages["first"]] == [(4,), (4,)]
    assert [record.shape("x") for record in stages["second"]] == [(2,), (3,)]
    assert stages["third"] == ()
    with pytest.raises(TypeError):
        stages["third"] = ()


def test_op_that_is_not_held_fails_the_call(part):
    stray = part()
    op = composite({"first": part}, lambda self, x: stray(x, x))()
    with pytest.raises(RuntimeError) as caught:
        op(torch.ones(2))
    assert str(caught.value) == (
        f"{part.__name__} completed a call inside a call of {type(op).__name__}, which does not "
        "hold it: hold it through delegate_for"
    )
    assert op._last_call is None
    assert op.serving_target is None


def test_op_that_is_not_composite_fails_for_a_call_inside(part):
    stray = part()
    op = body_op("Single", {"x": tensor()}, {"y": tensor()}, lambda self, x: stray(x, x))()
    with pytest.raises(RuntimeError, match="does not hold it"):
        op(torch.ones(2))


def test_target_kernel_that_calls_an_op_fails_the_call(part):
    stray, served = part(), add_op()
    backend.register_kernel_builder(
        op=served.__name__,
        target="east",
        build_kernel=lambda *specs, **params: stray,
    )
    with pytest.raises(RuntimeError, match=f"{part.__name__} completed a call inside"):
        served(target="east")(*pair())


def test_calls_of_a_nested_composite_report_to_their_own_parent(part, outer):
    def forward(self, x):
        return self.delegate_for("whole", None)(x)

    top = composite({"whole": outer}, forward, "Top")()
    top(torch.ones(2))
    (record,) = top.last_call.stages["whole"]
    assert [len(records) for records in record.stages.values()] == [1, 1]


def test_sub_ops_of_the_constructor_are_held_after_the_base(part):
    def init(self, *, target=None):
        Op.__init__(self, target=target)
        self.delegate_for("first", None, alpha=4.0)

    def forward(self, x):
        return self.delegate_for("first", None)(x, x)

    cls = composite({"first": part}, forward, __init__=init)
    op = cls()
    assert op.held_delegates()[0].alpha == 4.0
    assert op(torch.ones(2)).tolist() == [5, 5]


def test_sub_op_with_a_base_of_its_own_may_be_given():
    family = type("Family", (Op,), {})

    def init(self, *, target=None):
        self.alpha = 6.0
        Op.__init__(self, target=target)

    def forward(self, x, y):
        return self.alpha * x + y

    leaf = define("Leaf", ADD_SPEC, base=family, forward=forward, __init__=init)
    op = composite({"first": family}, lambda self, x: self.delegate_for("first", None)(x, x))
    op = op()
    op.delegate_for("first", None, leaf())
    assert op(torch.ones(1)).tolist() == [7]


def test_sub_op_may_be_made_while_another_thread_calls_the_composite():
    def init(self, alpha=1.0, *, target=None):
        if alpha == 3:
            assert elsewhere(op, torch.ones(2)).tolist() == [3, 3]
        self.alpha = alpha
        Op.__init__(self, target=target)

    part = add_op(__init__=init)

    def forward(self, x):
        return self.delegate_for("part", len(x), alpha=float(len(x)))(x, x)

    op = composite({"part": part}, forward)()
    assert op(torch.ones(3)).tolist() == [4, 4, 4]
    assert len(op.held_delegates()) == 2
