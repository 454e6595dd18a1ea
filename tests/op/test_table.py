from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from tileops._core.dispatch.table import install
from tileops.kernels import CallSpec, Kernel, KernelInterface


@dataclass(frozen=True)
class Call(CallSpec):
    n: int = 0


class First(KernelInterface):
    request = Call

    def forward(self, x, y): ...


class Second(KernelInterface):
    request = Call

    def forward(self, x, *, scale): ...


class A(Kernel, First):
    def forward(self, x, y): ...


class B(Kernel, First):
    def forward(self, *tensors): ...


class C(Kernel, First):
    def forward(self, x, y, extra=None): ...


class Both(Kernel, First, Second):
    def forward(self, x, y=None, *, scale=1): ...


def made(base=A, **declared):
    return type(base.__name__, (base,), declared)


def test_keys_belong_to_the_interfaces_their_classes_inherit():
    table = install("Op", {"one": First, "two": Second}, {"a": A, "both": Both}, {"c": C})
    assert list(table.kernel_types) == ["a", "both", "c"]
    assert table.keys_by_interface == {"one": ("a", "both", "c"), "two": ("both",)}
    assert table.preferred_over == {"a": frozenset(), "both": frozenset(), "c": frozenset()}


def test_preferences_are_transitive():
    types = {"a": made(preferred_over={"b"}), "b": made(preferred_over=["c"]), "c": C}
    table = install("Op", {"one": First}, types, {})
    assert table.preferred_over["a"] == {"b", "c"}
    assert table.preferred_over["b"] == {"c"}


def test_tables_are_read_only():
    table = install("Op", {"one": First}, {"a": A}, {})
    for mapping in (table.kernel_types, table.keys_by_interface, table.preferred_over):
        with pytest.raises(TypeError):
            mapping["a"] = A


class NoRequest(KernelInterface):
    def forward(self): ...


class NotKernel(First):
    def forward(self, x, y): ...


class PlainMethod(A):
    def entry_for(self, call): ...


class PlainRefusal(A):
    def refusal(self, call): ...


class TooFew(Kernel, First):
    def forward(self, x): ...


class TooMany(Kernel, First):
    def forward(self, x, y, z): ...


class ByNameOnly(Kernel, First):
    def forward(self, x, *, y): ...


class NoKeyword(Kernel, Second):
    def forward(self, x): ...


class Uncallable(Kernel, First):
    forward = property(lambda self: print)


class Compiled(Kernel, First):
    forward = torch.rsqrt  # shows no signature


@First.register
class Registered(Kernel):
    def forward(self, x, y): ...


class Stray(Kernel):
    def forward(self): ...


class Unreadable:
    def __get__(self, *_):
        raise OSError("no driver")


class Speechless:
    def __repr__(self):
        raise OSError("no driver")


FAULTS = [
    (
        "refusal no classmethod",
        ({"one": First}, {"a": A}, {"r": PlainRefusal}),
        TypeError,
        "Op: kernel type 'r': PlainRefusal.refusal is not a classmethod",
    ),
    (
        "devices a string",
        ({"one": First}, {"a": made(devices="cpu")}, {}),
        TypeError,
        "Op: kernel type 'a': A.devices is 'cpu', not a set of device types",
    ),
    (
        "devices of another type",
        ({"one": First}, {"a": made(devices={3})}, {}),
        TypeError,
        "Op: kernel type 'a': A.devices is {3}, not a set of device types",
    ),
    (
        "archs a number",
        ({"one": First}, {"a": made(supported_archs=90)}, {}),
        TypeError,
        "Op: kernel type 'a': A.supported_archs is 90, not a set of integers",
    ),
    (
        "preference a string",
        ({"one": First}, {"a": made(preferred_over="c"), "c": C}, {}),
        TypeError,
        "Op: kernel type 'a': A.preferred_over is 'c', not a set of keys",
    ),
    (
        "general no truth value",
        ({"one": First}, {"a": made(general="yes")}, {}),
        TypeError,
        "Op: kernel type 'a': A.general is 'yes', not True or False",
    ),
    (
        "devices unreadable",
        ({"one": First}, {"a": made(devices=Unreadable())}, {}),
        TypeError,
        "Op: kernel type 'a': A.devices cannot be read: OSError: no driver",
    ),
    (
        "devices speechless",
        ({"one": First}, {"a": made(devices=Speechless())}, {}),
        TypeError,
        "Op: kernel type 'a': A.devices is a value whose text fails with OSError, not a set of",
    ),
    (
        "shared key",
        ({"one": First}, {"a": A, "b": B}, {"b": C}),
        ValueError,
        "Op: added kernel types reuse the keys 'b'",
    ),
    (
        "interface no class",
        ({"one": int}, {"a": A}, {}),
        TypeError,
        "Op: interface 'one' is <class 'int'>, not a KernelInterface class",
    ),
    (
        "no request",
        ({"one": NoRequest}, {}, {}),
        TypeError,
        "Op: interface 'one': NoRequest.request is None, not a CallSpec class",
    ),
    (
        "kernel type no class",
        ({"one": First}, {"a": 3}, {}),
        TypeError,
        "Op: kernel type 'a' is 3, not a class that inherits Kernel and a kernel interface",
    ),
    (
        "no kernel",
        ({"one": First}, {"a": NotKernel}, {}),
        TypeError,
        "Op: kernel type 'a': NotKernel implements the interface 'one' but does not inherit Kernel",
    ),
    (
        "entry_for",
        ({"one": First}, {"a": PlainMethod}, {}),
        TypeError,
        "Op: kernel type 'a': PlainMethod.entry_for is not a classmethod",
    ),
    (
        "too few arguments",
        ({"one": First}, {"a": TooFew}, {}),
        TypeError,
        "Op: kernel type 'a': TooFew.forward does not take the arguments of First.forward: "
        "with 2 positional arguments: too many positional arguments",
    ),
    (
        "too many arguments",
        ({"one": First}, {"a": TooMany}, {}),
        TypeError,
        "with 2 positional arguments: missing a required argument: 'z'",
    ),
    (
        "by name only",
        ({"one": First}, {"a": ByNameOnly}, {}),
        TypeError,
        "ByNameOnly.forward does not take the arguments of First.forward",
    ),
    (
        "keyword",
        ({"two": Second}, {"a": NoKeyword}, {}),
        TypeError,
        "NoKeyword.forward does not take the arguments of Second.forward",
    ),
    (
        "no function",
        ({"one": First}, {"a": Uncallable}, {}),
        TypeError,
        "Uncallable.forward does not take the arguments of First.forward: it is <property object",
    ),
    (
        "inherits nothing of what it is registered as",
        ({"one": First}, {"a": A, "r": Registered}, {}),
        ValueError,
        "Op: the kernel types 'r' implement no interface of the op; it declares 'one'",
    ),
    (
        "stray",
        ({"one": First}, {"a": A, "z": Stray, "s": Stray}, {}),
        ValueError,
        "Op: the kernel types 's', 'z' implement no interface of the op; it declares 'one'",
    ),
    (
        "no interface at all",
        ({}, {}, {"a": A}),
        ValueError,
        "Op: the kernel types 'a' implement no interface of the op; it declares none",
    ),
    (
        "two general",
        ({"one": First}, {"a": made(general=True), "b": made(general=True)}, {}),
        ValueError,
        "Op: interface 'one' has several general implementations: 'a', 'b'",
    ),
    (
        "prefers itself",
        ({"one": First}, {"a": made(preferred_over={"a"})}, {}),
        ValueError,
        "interface 'one': 'a' declares preferred_over with keys that are no other key of it: 'a'",
    ),
    (
        "prefers unknown",
        ({"one": First}, {"a": made(preferred_over={"q"})}, {}),
        ValueError,
        "no other key of it: 'q'",
    ),
    (
        "prefers foreign",
        ({"one": First, "two": Second}, {"a": A, "b": made(Both, preferred_over={"a"})}, {}),
        ValueError,
        "Op: interface 'two': 'b' declares preferred_over",
    ),
    (
        "general prefers",
        ({"one": First}, {"a": A, "b": made(general=True, preferred_over={"a"})}, {}),
        ValueError,
        "Op: interface 'one': 'b' is general and declares preferred_over 'a'",
    ),
    (
        "cycle",
        (
            {"one": First},
            {
                "a": made(preferred_over={"b"}),
                "b": made(preferred_over={"c"}),
                "c": made(preferred_over={"b"}),
            },
            {},
        ),
        ValueError,
        "Op: interface 'one': preferred_over forms a cycle through 'b', 'c'",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_contract_fault(arguments, kind, text):
    with pytest.raises(kind) as caught:
        install("Op", *arguments)
    assert type(caught.value) is kind
    assert text in str(caught.value)


def test_compiled_forward_is_not_judged_by_a_signature_it_does_not_show():
    assert list(install("Op", {"one": First}, {"a": Compiled}, {}).kernel_types) == ["a"]


def test_of_two_faults_the_earlier_check_reports():
    general_twice = {"a": made(general=True), "b": made(general=True)}
    with pytest.raises(ValueError, match="reuse the keys"):
        install("Op", {"one": int}, {"a": A}, {"a": A})
    with pytest.raises(TypeError, match="not a KernelInterface"):
        install("Op", {"one": int}, {"a": 3}, {})
    with pytest.raises(TypeError, match="does not inherit Kernel"):
        install("Op", {"one": First}, {"p": PlainMethod, "a": NotKernel}, {})
    with pytest.raises(TypeError, match="not a classmethod"):
        install("Op", {"one": First}, {"a": TooFew, "p": PlainMethod}, {})
    with pytest.raises(TypeError, match="does not take"):
        install("Op", {"one": First}, {"s": Stray, "a": TooFew}, {})
    with pytest.raises(ValueError, match="implement no interface"):
        install("Op", {"one": First}, {**general_twice, "s": Stray}, {})
    with pytest.raises(ValueError, match="several general"):
        install("Op", {"one": First}, {**general_twice, "c": made(preferred_over={"c"})}, {})
    with pytest.raises(ValueError, match="no other key"):
        cycle = {"a": made(preferred_over={"b"}), "b": made(preferred_over={"a", "q"})}
        install("Op", {"one": First}, cycle, {})


def test_an_added_class_may_prefer_itself_to_what_is_not_there():
    added = {"b": made(preferred_over={"a", "of_another_package"})}
    table = install("Op", {"one": First}, {"a": A}, added)
    assert table.preferred_over == {"a": frozenset(), "b": {"a"}}
    with pytest.raises(ValueError, match="no other key of it: 'b'"):
        install("Op", {"one": First}, {"a": A}, {"b": made(preferred_over={"b", "gone"})})
