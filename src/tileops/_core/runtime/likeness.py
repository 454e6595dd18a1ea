"""One test that tells whether tensors look just as others did.

It takes the place of comparing type, layout, dtype, device, sizes, strides and `requires_grad`, and
the modes under which torch runs. It may reject what such a comparison would accept, and never
accepts what that would reject. It keeps no tensor. A tensor without strides, that is, a nested one,
must not be given to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TensorGuards: Any = None
if torch.__version__.startswith(("2.11.", "2.13.")):
    # Internal to torch, and not forgiving: used only of the versions with which it was tried.
    # Without it all is compared property by property.
    from torch._C._dynamo.guards import TensorGuards

Test = Callable[..., bool]


class _Absent(torch.Tensor):
    """A type that no other tensor has."""


ABSENT: Any = torch.empty(0, device="cpu").as_subclass(_Absent)
"""Stands for a tensor that was left out, since the test takes as many tensors as it was made of."""


def never(*_tensors: Any) -> bool:
    """The test that no tensors pass."""
    return False


def unmade(*_tensors: Any) -> bool:
    """No tensors pass: the test is yet to be made of those that are found right."""
    return False


_PLAIN = {torch.Tensor, torch.nn.Parameter, _Absent}


def likeness(*tensors: Any) -> Test:
    """The test of whether tensors, as many and in this order, look like these.

    No tensors pass it where torch offers no such test, or where one of these is of a subclass: code
    of its own might run when it is asked for its strides.
    """
    if TensorGuards is None or not _PLAIN.issuperset(map(type, tensors)):
        return never
    test: Test = TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return test
