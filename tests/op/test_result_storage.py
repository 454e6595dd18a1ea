"""Results of warm calls have storage of their own."""

from __future__ import annotations

import pytest
import torch
from toys import AddKernel, add_kernel, add_op, body_op, pair, tensor, warmed

from tileops import SignatureError


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_results_within_the_storage_of_an_input_are_refused(offset):
    wrongs = []
    op = body_op(
        "Within", {"x": tensor()}, {"y": tensor()},
        lambda self, x: x.as_strided((4,), (1,), offset) if wrongs else x + 1,
    )()  # fmt: skip
    x = torch.ones(8)[2:6]
    warmed(op, x)
    wrongs.append(True)
    with pytest.raises(SignatureError, match="expected storage of its own"):
        op(x)


def test_results_of_one_buffer_are_refused_and_those_within_a_buffer_are_not():
    bodies = [
        lambda x: (x + 1, x + 2),
        lambda x: (torch.zeros(8)[4:], torch.zeros(8)[2:6]),
        lambda x: torch.zeros(8).split(4),
    ]
    op = body_op(
        "Parts", {"x": tensor()}, {"y": tensor(), "z": tensor()},
        lambda self, x: bodies[0](x),
    )()  # fmt: skip
    x = torch.ones(4)
    warmed(op, x)
    bodies.pop(0)
    assert [part.tolist() for part in op(x)] == [[0] * 4] * 2
    bodies.pop(0)
    with pytest.raises(SignatureError, match="expected storage of its own"):
        op(x)


def test_new_outputs_that_share_storage_are_judged_on_a_known_kind():
    wrongs = []

    def forward(self, x):
        y = x + 1
        return (y, y[:]) if wrongs else (y, x + 2)

    op = body_op("Twins", {"x": tensor()}, {"y": tensor(), "z": tensor()}, forward)()
    warmed(op, torch.ones(2))
    wrongs.append(True)
    with pytest.raises(SignatureError, match="shares it with y"):
        op(torch.ones(2))


def test_a_wrong_result_tells_which_kernels_the_instance_has():
    class Short(AddKernel):
        def forward(self, x, y):
            return (x + y)[1:]

    op = add_op({"short": add_kernel(Short, __module__="acme.kernels")})()
    with pytest.raises(SignatureError, match="the implementation returned") as caught:
        op(*pair())
    assert caught.value.__notes__ == [f"kernels that {op._name} has built: Short of acme"]
