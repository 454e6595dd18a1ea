from __future__ import annotations

import pytest
import torch

from tileops import backend
from tileops._core.targets import registry
from tileops.backend import BUILTIN, TensorSpec
from tileops.errors import BackendError, UnknownTargetError


def builder(*specs, **parameters):
    return lambda *tensors: None


def detect(device):
    return False


class Implementation:
    pass


def test_targets_are_those_with_a_detector_or_a_builder():
    backend.register_detector(target="east", detect=detect)
    backend.register_kernel_builder(op="AddFwdOp", target="west", build_kernel=builder)
    backend.register_kernel_builder(op="MulFwdOp", target="east", build_kernel=builder)
    backend.register_kernel_type("AddFwdOp", "fast", Implementation)
    assert backend.registered_targets() == ("east", "west")
    assert backend.registered_targets("AddFwdOp") == ("west",)
    assert backend.registered_targets("SubFwdOp") == ()


def test_default_target():
    assert backend.default_target() is None
    backend.register_detector(target="east", detect=detect)
    for target in ("east", BUILTIN, None):
        backend.set_default_target(target)
        assert backend.default_target() == target
    with pytest.raises(UnknownTargetError, match=r"target 'west' is not registered; .*'east'"):
        backend.set_default_target("west")


@pytest.mark.parametrize(
    ("register", "arguments", "text"),
    [
        (
            backend.register_detector,
            {"target": "east", "detect": detect},
            f"a detector of target 'east' is registered already, by {__name__}; {__name__}",
        ),
        (
            backend.register_kernel_builder,
            {"op": "AddFwdOp", "target": "east", "build_kernel": builder},
            "a builder of target 'east' for AddFwdOp is registered already",
        ),
        (
            backend.register_kernel_type,
            {"op": "AddFwdOp", "key": "fast", "kernel_type": Implementation},
            "a kernel type 'fast' for AddFwdOp is registered already",
        ),
    ],
)
def test_second_registration_names_both_owners(register, arguments, text):
    register(**arguments)
    with pytest.raises(BackendError) as caught:
        register(**arguments)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("register", "arguments", "text"),
    [
        (backend.register_detector, {"target": "", "detect": detect}, "target must be a non-empty"),
        (backend.register_detector, {"target": 3, "detect": detect}, "non-empty string, got 3"),
        (
            backend.register_detector,
            {"target": BUILTIN, "detect": detect},
            "target 'builtin' stands for the op's own body and is no target name",
        ),
        (
            backend.register_detector,
            {"target": "east", "detect": None},
            "detect must be callable, got None",
        ),
        (
            backend.register_kernel_builder,
            {"op": "", "target": "east", "build_kernel": builder},
            "op must be a non-empty string, got ''",
        ),
        (
            backend.register_kernel_builder,
            {"op": "A", "target": "east", "build_kernel": "b"},
            "build_kernel must be callable, got 'b'",
        ),
        (
            backend.register_kernel_type,
            {"op": "A", "key": None, "kernel_type": Implementation},
            "key must be a non-empty string, got None",
        ),
        (
            backend.register_kernel_type,
            {"op": "A", "key": "a\nb", "kernel_type": Implementation},
            "key must be printable, got 'a\\nb'",
        ),
        (
            backend.register_detector,
            {"target": "\x1b[31m", "detect": detect},
            "target must be printable, got '\\x1b[31m'",
        ),
        (
            backend.register_kernel_builder,
            {"op": "A", "target": "t" * 201, "build_kernel": builder},
            "target must have at most 200 characters, got 201",
        ),
        (
            backend.register_kernel_type,
            {"op": "A", "key": "k", "kernel_type": Implementation()},
            "kernel_type must be a class, got",
        ),
    ],
)
def test_wrong_argument_is_named(register, arguments, text):
    with pytest.raises(BackendError) as caught:
        register(**arguments)
    assert text in str(caught.value)
    assert backend.registered_targets() == ()


def test_tensor_spec_is_a_value_without_a_tensor():
    a, b = (TensorSpec.of(torch.zeros(2, 3, dtype=torch.float16)) for _ in range(2))
    assert a == b == (torch.device("cpu"), torch.float16, (2, 3))
    assert hash(a) == hash(b)
    assert type(a.shape) is tuple


def test_registering_disturbs_nobody_who_walks_a_table():
    def register(name):
        backend.register_detector(target=name, detect=detect)
        backend.register_kernel_builder(op="A", target=name, build_kernel=builder)
        backend.register_kernel_type("A", name, Implementation)

    register("east")
    now = registry.current
    walks = [iter(table) for table in (now.detectors, now.builders, now.kernel_types)]
    register("west")
    assert [len(list(walk)) for walk in walks] == [1, 1, 1]
