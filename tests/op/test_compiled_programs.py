"""Ops in programs as users write them: control flow, aliases, copies, threads, empty batches."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from tileops.elementwise import AddFwdOp, ReluFwdOp
from tileops.norm import RMSNormFwdOp

WIDTH = 8


def draw(rows: int = 6) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(rows))


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, **{"fullgraph": True, "backend": "aot_eager", **options})


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Scaled(torch.nn.Module):
    """A norm with a weight, and something to add that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = RMSNormFwdOp([WIDTH])
        self.weight = torch.nn.Parameter(torch.arange(1.0, WIDTH + 1))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Norm, and add."""
        y: Tensor = self.norm(x, self.weight)
        return y if bias is None else y + bias


norm, relu, add = RMSNormFwdOp([WIDTH]), ReluFwdOp(), AddFwdOp()
relu_in_place = ReluFwdOp(inplace=True)


def branches(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, norm, relu, (x,))


def loops(x: Tensor) -> Any:
    def go_on(step: Tensor, x: Tensor) -> Tensor:
        return step < 3

    def advance(step: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return step + 1, norm(x) + 1

    return torch._higher_order_ops.while_loop(go_on, advance, (torch.tensor(0), x))


def unrolled(x: Tensor) -> Tensor:
    for step in range(4):
        x = norm(x) if step % 2 else relu(x + step)
    return x


def of_views(x: Tensor) -> Tensor:
    result: Tensor = add(norm(x)[::2, 1:], norm(x)[1::2, :-1].clone()) + relu(x.t()[2:5]).sum()
    return result


def written_through(x: Tensor) -> tuple[Tensor, ...]:
    x = x.clone()
    view, overlapping = x.view(-1), x[1:]
    relu_in_place(x[2:4])
    return x, view * 2, overlapping + 1, relu_in_place(x) + view.view_as(x)


@pytest.mark.parametrize("program", [branches, loops, unrolled, of_views, written_through])
def test_programs_compute_what_they_compute_uncompiled(program: Callable[..., Any]) -> None:
    call = compiled(program)
    for x in (draw().abs(), -draw().abs()):
        torch.testing.assert_close(call(x), program(x))


def test_arguments_may_be_the_same_tensor_or_overlap() -> None:
    call, x = compiled(add), draw(7)
    for pair in ((x, x), (x[:-1], x[1:]), (x, x[:1])):
        assert torch.equal(call(*pair), pair[0] + pair[1])


def test_what_is_written_may_be_another_argument_too() -> None:
    def program(a: Tensor, b: Tensor) -> Tensor:
        relu_in_place(a)
        return b + 1

    call = compiled(program)
    for place, other in ((slice(6), slice(6)), (slice(1, 6), slice(0, 5))):
        eager, x = draw(), draw()
        wanted = program(eager[place], eager[other])
        assert torch.equal(call(x[place], x[other]), wanted)
        assert torch.equal(x, eager)


def test_extents_without_a_value_are_admitted() -> None:
    def program(x: Tensor, keep: Tensor) -> Tensor:
        result: Tensor = norm(x[keep]) * 2
        return result

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        call = compiled(program)
        for count in (0, 1, 2, 6):
            keep = torch.arange(6) < count
            assert torch.equal(call(draw(), keep), program(draw(), keep))


def test_recomputed_activations_have_the_same_gradients() -> None:
    def program(x: Tensor, weight: Tensor) -> Tensor:
        result = checkpoint(lambda x, w: norm(x * 2, w) * 3, x, weight, use_reentrant=False)
        return result.sum()

    weight = torch.ones(WIDTH, requires_grad=True)
    found = [
        torch.autograd.grad(call(draw(), weight), weight) for call in (program, compiled(program))
    ]
    torch.testing.assert_close(*found)


def test_modes_are_compiled_apart() -> None:
    call, weight = compiled(norm), torch.ones(WIDTH, requires_grad=True)
    for mode, differentiable in (
        (torch.enable_grad, True), (torch.no_grad, False), (torch.inference_mode, False),
        (torch.enable_grad, True),
    ):  # fmt: skip
        with mode():
            assert call(draw(), weight).requires_grad == differentiable
    with torch.inference_mode():
        x = draw()
    assert torch.equal(call(x, None), norm(draw()))


def test_copies_of_compiled_modules_outlive_what_they_were_copied_from() -> None:
    module = Scaled()
    call = compiled(module)
    wanted = call(draw())
    twin: Any = copy.deepcopy(call)
    del module, call
    gc.collect()
    torch.testing.assert_close(twin(draw()), wanted)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("rest", [(), (torch.ones(WIDTH),)], ids=["absent", "passed"])
def test_exported_modules_take_every_number_of_rows(strict: bool, rest: tuple[Any, ...]) -> None:
    module, rows = Scaled(), torch.export.Dim("rows", min=0, max=512)
    shapes = ({0: rows}, *(None for _ in rest))
    program = torch.export.export(module, (draw(), *rest), dynamic_shapes=shapes, strict=strict)
    for count in (0, 1, 2, 9):
        torch.testing.assert_close(program.module()(draw(count), *rest), module(draw(count), *rest))


def test_threads_compile_at_once() -> None:
    faults: list[Exception] = []
    # Without CUDA, torch 2.11 ends the process where its first fake mode was that of a thread which
    # ended.
    with FakeTensorMode():
        pass

    def run(op: Any) -> None:
        try:
            call = compiled(op)
            for rows in (2, 3, 5):
                torch.testing.assert_close(call(draw(rows)), op(draw(rows)))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(op,)) for op in (norm, norm, relu, Scaled())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
