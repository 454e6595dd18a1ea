"""What an eager call refuses is refused in traced code and in exported programs as well."""

from __future__ import annotations

import pytest
import torch
from toys import Block, add_op, compiled, in_place, pair


@pytest.fixture(autouse=True)
def cold():
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


RECOMPILED = [lambda module: module, *(
    lambda module, name=name: torch.compile(module, backend=name)
    for name in ("eager", "aot_eager", "inductor")
)]  # fmt: skip


@pytest.mark.parametrize("again", RECOMPILED, ids=["as_it_is", "eager", "aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gradients_are_refused_in_exported_programs_too(again):
    """Exported for tensors that require none: no call is left there which would refuse them.

    The op stands alone: beside it Inductor would write C++, which it cannot build below a folder
    with a space in its name.
    """
    op, (x, y) = add_op()(), pair()
    module = again(torch.export.export(Block(op, factor=1), (x, y)).module())
    with pytest.raises(Exception, match="x requires grad, but the spec names no backward op"):
        module(x.clone().requires_grad_(), y)
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.equal(module(x.clone().requires_grad_(), y), x + y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_transforms_are_refused_in_traced_code_too(transform, backend):
    """There a tensor by which a transform differentiates says that it requires no gradient."""
    op, x = in_place()(False), torch.full((2,), 3.0)
    with pytest.raises(Exception, match="x requires grad, but the spec names no backward op"):
        compiled(transform(lambda x: op(x).sum()), backend)(x)

    def detached(x):
        with torch.no_grad():
            scale = op(x)
        return (x * scale * op(constant)).sum()

    constant = torch.ones(2)
    assert compiled(transform(detached), backend)(x).tolist() == [8, 8]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_tangents_and_batches_are_refused_in_traced_code_too():
    op, x = add_op()(), torch.ones(2)
    for call, text in (
        (lambda x: torch.func.jvp(lambda x: op(x, x), (x,), (x,)), "x, y carries a tangent"),
        (lambda x: torch.func.vmap(op)(x, x), "vmap cannot look into an op"),
    ):
        with pytest.raises(Exception, match=text):
            compiled(call)(x)


def test_construction_inside_a_compiled_function():
    """Refused where the whole has to be one graph; elsewhere the graph breaks there."""
    cls, x = add_op(), torch.ones(2)

    def function(x):
        return cls(2.0)(x, x)

    with pytest.raises(
        Exception, match="constructed once, outside the compiled function"
    ) as caught:
        compiled(function)(x)
    assert f"{cls.__name__}: an op is constructed once" in str(caught.value)
    torch._dynamo.reset()
    assert torch.compile(function, backend="aot_eager")(x).tolist() == [3, 3]
