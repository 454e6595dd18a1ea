"""What the validator sees of a class without a call: its table, its methods, its reference."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

import tileops
from op.classes import ALIVE, SPEC, findings, op_class, own_specs  # noqa: F401
from tileops import manifest
from tileops._core.validate import objects
from tileops.kernels import CallSpec, Kernel, KernelInterface


class ScaledCall(CallSpec):
    pass


class ScaledInterface(KernelInterface):
    request = ScaledCall

    def forward(self, x: torch.Tensor) -> torch.Tensor: ...


class ScaledKernel(Kernel, ScaledInterface):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_a_table_that_cannot_be_installed() -> None:
    op_class("UntabledFwdOp", SPEC, interfaces={"scaled": ScaledKernel, "odd": Any})
    assert findings("UntabledFwdOp") == [
        ("", 52, f"interface 'odd' is {Any!r}, not a KernelInterface class")
    ]


def test_an_interface_without_a_general_kernel_type_is_remarked() -> None:
    declared = {"interfaces": {"scaled": ScaledInterface}, "kernel_types": {"fast": ScaledKernel}}
    op_class("FastOnlyFwdOp", SPEC, **declared)
    (found,) = manifest.validate("FastOnlyFwdOp").findings
    assert (found.level, found.message) == (
        "advisory",
        "[V52] at the interface 'scaled' no kernel type is general, so a call that the others "
        "refuse is not served",
    )


def defined(cls: type[Any]) -> list[tuple[str, int, str]]:
    """What is found about a class that was just defined."""
    ALIVE.append(cls)
    return findings(cls.__name__)


def test_a_constructor_that_never_reaches_the_base() -> None:
    manifest.register({"UnbasedFwdOp": SPEC})

    class UnbasedFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.gain, self.mode = gain, mode

        def forward(self, x, w=None, out=None):
            return x

    assert defined(UnbasedFwdOp) == [
        ("", 53, "__init__ never calls super().__init__(target=target)")
    ]


def test_a_parameter_that_is_never_kept() -> None:
    manifest.register({"ForgetfulFwdOp": SPEC})

    class ForgetfulFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.gain = gain
            super().__init__(target=target)

        def forward(self, x, w=None, out=None):
            return x

    assert defined(ForgetfulFwdOp) == [("", 53, "__init__ never assigns self.mode")]


def test_a_target_that_is_never_passed_on() -> None:
    manifest.register({"UntargetedFwdOp": SPEC})

    class UntargetedFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.gain, self.mode = gain, mode
            super().__init__()

        forward = Kept.forward

    assert defined(UntargetedFwdOp) == [
        ("", 53, "__init__ calls super().__init__() without target=target")
    ]


def test_what_forward_asks_for_and_nothing_declares() -> None:
    manifest.register({"AskingFwdOp": SPEC})

    class AskingFwdOp(tileops.Op):
        interfaces = {"scaled": ScaledInterface}

        def forward(self, x, w=None, out=None):
            name = "unknown"
            self.kernel_for("scaled", ScaledCall())
            self.kernel_for(name, ScaledCall())
            self.delegate_for("norm", None)
            self.kernel_for_fields("scales", ScaledCall, x.device)
            return self.kernel_for("scale", ScaledCall())(x)

        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.gain = self.mode = None
            self._keep(gain, mode)

        def _keep(self, gain, mode):
            super().__init__()

    assert sorted(defined(AskingFwdOp))[1:] == [
        ("", 53, "forward asks for 'norm', no key of delegate_types"),
        ("", 53, "forward asks for 'scale', no key of interfaces; did you mean 'scaled'?"),
        ("", 53, "forward asks for 'scales', no key of interfaces; did you mean 'scaled'?"),
    ]


class Kept(tileops.Op):
    def __init__(self, gain=1.0, *, mode="a", target=None):
        self.gain, self.mode = gain, mode
        super().__init__(target=target)

    def forward(self, x, w=None, out=None):
        return x


def test_constructors_that_keep_parameters_in_other_ways() -> None:
    names = ("InnardsFwdOp", "SettingFwdOp", "CallingFwdOp", "DerivedFwdOp", "PropertyFwdOp")
    manifest.register(dict.fromkeys(names, SPEC))

    class InnardsFwdOp(Kept):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.__dict__.update(gain=gain, mode=mode)
            super().__init__(target=target)

    class SettingFwdOp(Kept):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            for name, value in (("gain", gain), ("mode", mode)):
                setattr(self, name, value)
            tileops.Op.__init__(self, target=target)

    class CallingFwdOp(Kept):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self._keep(gain, mode, target)

        def _keep(self, gain, mode, target):
            super().__init__(gain, mode=mode, target=target)

    class DerivedFwdOp(Kept):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            super().__init__(gain, mode=mode, target=target)

    class PropertyFwdOp(tileops.Op):
        mode = "a"

        def __init__(self, gain=1.0, *, mode="a", target=None):
            self._gain = gain
            super().__init__(target=target)

        @property
        def gain(self):
            return self._gain

        forward = Kept.forward

    classes = (InnardsFwdOp, SettingFwdOp, CallingFwdOp, DerivedFwdOp, PropertyFwdOp)
    assert [defined(cls) for cls in classes] == [[]] * 5


def kept(init):
    """Keep the parameters before a constructor runs."""

    @functools.wraps(init)
    def __init__(self, gain=1.0, *, mode="a", target=None):
        self.gain, self.mode = gain, mode
        init(self, gain, mode=mode, target=target)

    return __init__


class Setting:
    """Sets what it is given together."""

    def __setattr__(self, name, value):
        for each, item in value.items() if name == "given" else ((name, value),):
            super().__setattr__(each, item)


def test_constructors_that_other_code_makes_right() -> None:
    names = ("DecoratedFwdOp", "TogetherFwdOp", "BoundFwdOp", "MixedFwdOp")
    manifest.register(dict.fromkeys(names, SPEC))

    class DecoratedFwdOp(tileops.Op):
        @kept
        def __init__(self, gain=1.0, *, mode="a", target=None):
            super().__init__(target=target)

        forward = Kept.forward

    class TogetherFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.both = gain, mode
            super().__init__(target=target)

        @property
        def both(self):
            return self.gain, self.mode

        @both.setter
        def both(self, values):
            self.gain, self.mode = values

        forward = Kept.forward

    class BoundFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            keep = self._keep
            keep(gain, mode)
            super().__init__(target=target)

        def _keep(self, gain, mode):
            self.gain, self.mode = gain, mode

        forward = Kept.forward

    class MixedFwdOp(Setting, tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.given = {"gain": gain, "mode": mode}
            super().__init__(target=target)

        forward = Kept.forward

    for cls in (DecoratedFwdOp, TogetherFwdOp, BoundFwdOp, MixedFwdOp):
        assert cls(2.0).gain == 2.0
        assert defined(cls) == []


def test_a_class_that_looks_its_kernels_up_in_its_own_way() -> None:
    manifest.register({"RenamingFwdOp": SPEC})

    class RenamingFwdOp(Kept):
        interfaces = {"scaled": ScaledInterface}
        kernel_types = {"any": type("AnyKernel", (ScaledKernel,), {"general": True})}

        def kernel_for(self, interface, call):
            return super().kernel_for(f"{interface}d", call)

        def forward(self, x, w=None, out=None):
            self.kernel_for_fields("scale", ScaledCall, x.device)
            return self.kernel_for("scale", ScaledCall())(x)

    assert defined(RenamingFwdOp) == []


def test_lines_that_stand_further_left_than_their_method() -> None:
    manifest.register({"LeftFwdOp": SPEC})

    class LeftFwdOp(tileops.Op):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.text = """A text of two lines,
the second without indent."""
            self.gain = gain
            super().__init__(target=target)

        forward = Kept.forward

    assert defined(LeftFwdOp) == [("", 53, "__init__ never assigns self.mode")]


def test_a_text_that_changed_after_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest.register({"ChangedFwdOp": SPEC})
    file = tmp_path / "acme_changed.py"
    lines = [
        "import tileops",
        "from op.test_code_without_calls import Kept",
        "",
        "class ChangedFwdOp(Kept):",
        "    def __init__(self, gain=1.0, *, mode='a', target=None):",
        "        super().__init__(gain, mode=mode, target=target)",
        "",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    cls = importlib.import_module("acme_changed").ChangedFwdOp
    file.write_text("\n".join([*lines[:4], "    def __init__(self, gain=("]), encoding="utf-8")
    assert defined(cls) == []


def test_methods_that_name_no_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest.register({"NamelessFwdOp": SPEC})

    class NamelessFwdOp(tileops.Op):
        def __init__(*own, target=None):
            own[0].gain, own[0].mode = 1.0, "a"
            tileops.Op.__init__(own[0], target=target)

        def forward(self, x, w=None, out=None):
            return x

    def forward(*tensors):
        return tensors[1]

    assert [check for _, check, _ in defined(NamelessFwdOp)] == [47]
    monkeypatch.setattr(NamelessFwdOp, "forward", forward)
    assert [check for _, check, _ in findings("NamelessFwdOp")] == [47, 48]


@pytest.mark.parametrize("name", ["kernel_types", "interfaces", "delegate_types"])
def test_a_declaration_that_is_no_mapping(name: str) -> None:
    op_class("MaplessFwdOp", SPEC, **{name: None})
    assert findings("MaplessFwdOp") == [("", 52, f"{name} must be a mapping, got a NoneType")]


def test_a_delegate_that_is_no_class() -> None:
    op_class("NamingFwdOp", SPEC, delegate_types={"norm": 3})
    reason = "the spec's op stages are {}, delegate_types are {'norm': '3'}"
    assert findings("NamingFwdOp") == [("composition", 49, reason)]


def test_what_a_class_raises_while_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(self, gain=torch.ones(2), *, mode="a", target=None):  # noqa: B008
        pass

    op_class("TensorDefaultFwdOp", SPEC, __init__=init)
    ((path, check, message),) = findings("TensorDefaultFwdOp")
    assert (path, check) == ("", 47)
    assert message.startswith("__init__ cannot be compared: RuntimeError: Boolean value of Tensor")
    cls = op_class("UncallableFwdOp", SPEC)
    monkeypatch.setattr(cls, "forward", None)
    reason = "forward cannot be compared: TypeError: None is not a callable object"
    assert findings("UncallableFwdOp") == [("", 48, reason)]


def test_a_missing_reference_is_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileops.norm import reference

    monkeypatch.setattr(reference, "rms_norms", reference.rms_norm, raising=False)
    monkeypatch.delattr(reference, "rms_norm")
    (found,) = manifest.validate("RMSNormFwdOp").findings
    assert found.level == "advisory"
    assert found.message.startswith(
        "[V54] nothing to judge the op by: tileops.norm.reference has no function rms_norm; did "
    )

    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr(objects.plugins, "module", absent)
    (found,) = manifest.validate("RMSNormFwdOp").findings
    assert found.message.endswith(
        "there is no module tileops.norm.reference, which would hold the function rms_norm"
    )

    def broken(name: str) -> Any:
        raise OSError("no disk")

    monkeypatch.setattr(objects.plugins, "module", broken)
    (found,) = manifest.validate("RMSNormFwdOp").findings
    assert found.message.endswith("tileops.norm.reference cannot be imported: OSError: no disk")


def remarks(name: str, level: str = "advisory") -> list[str]:
    """The findings of a level, in words."""
    return [
        found.message.removeprefix("[V52] ")
        for found in manifest.validate(name).findings
        if found.level == level
    ]


def test_an_interface_that_no_kernel_type_implements() -> None:
    op_class(
        "MistypedFwdOp", SPEC, interfaces={"scaled": ScaledInterface}, kernel_type={"a": Kernel}
    )
    assert findings("MistypedFwdOp") == [
        ("", 52, "MistypedFwdOp defines 'kernel_type', which nothing reads; did you mean "
         "'kernel_types'?"),
        ("", 52, "no kernel type implements the interface 'scaled', so it serves no call"),
    ]  # fmt: skip
    assert len(remarks("MistypedFwdOp", "error")) == 1


def test_kernel_types_that_backends_add_serve_an_interface(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cls = op_class("ForeignFwdOp", SPEC, interfaces={"scaled": ScaledInterface})
    monkeypatch.setattr(cls, "_added_kernel_types", lambda: {"theirs": ScaledKernel})
    assert remarks("ForeignFwdOp", "error") == []


class GeneralKernel(ScaledKernel):
    general = True


def about_kernel(name: str, kernel: type[Any], **body: Any) -> list[tuple[str, int, str]]:
    """What is found about an op that one kernel serves."""
    interfaces = {"scaled": ScaledInterface}
    op_class(name, SPEC, interfaces=interfaces, kernel_types={"own": kernel}, **body)
    return findings(name)


def test_members_of_kernels_that_are_mistyped() -> None:
    class MistypedKernel(GeneralKernel):
        supported_arch = frozenset({90})

        @classmethod
        def entryfor(cls, call):
            return call, cls

    hint = "which nothing reads; did you mean"
    assert about_kernel("KernelWordsFwdOp", MistypedKernel) == [
        ("", 52, f"MistypedKernel defines 'supported_arch', {hint} 'supported_archs'?"),
        ("", 52, f"MistypedKernel defines 'entryfor', {hint} 'entry_for'?"),
    ]


def test_members_that_a_class_reads_are_its_own() -> None:
    class NearKernel(GeneralKernel):
        default_configs = ({"threads": 1},)

        @property
        def default_config(self):
            return self.default_configs[0]

    assert about_kernel("NearFwdOp", NearKernel, gains=1.0) == []


def test_a_kernel_that_leaves_its_forward_abstract() -> None:
    class HalfKernel(Kernel, tileops.kernels.KernelInterface):
        general = True

    class HalfOfScaledKernel(HalfKernel, ScaledInterface):
        def foward(self, x):
            return x

    found = about_kernel("AbstractFwdOp", HalfOfScaledKernel)
    assert ("", 52, "kernel type 'own': HalfOfScaledKernel cannot be constructed, it defines no "
            "forward") in found  # fmt: skip


def test_a_kernel_that_launches_a_program_it_does_not_make() -> None:
    class ProgramlessKernel(GeneralKernel):
        def build(self, config):
            return None

        def forward(self, x):
            self.program()(x)
            return x

    assert about_kernel("ProgramlessFwdOp", ProgramlessKernel) == [
        ("", 52, "kernel type 'own': ProgramlessKernel launches self.program(), but defines no "
         "make_program"),
    ]  # fmt: skip


def test_a_call_spec_without_its_decorator() -> None:
    class BareCall(CallSpec):
        n: int

    class BareInterface(KernelInterface):
        request = BareCall

        def forward(self, x): ...

    class BareKernel(Kernel, BareInterface):
        general = True

        def forward(self, x):
            return x

    op_class(
        "BareFwdOp", SPEC, interfaces={"bare": BareInterface}, kernel_types={"own": BareKernel}
    )
    assert findings("BareFwdOp") == [
        ("", 52, "BareCall is no dataclass, so that 'n' is no field of it; "
         "@dataclass(frozen=True) stands above it"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x, weight: x, "rms_norm(x, weight): "),
        (
            lambda x, weight, normalized_shape, epsilon: x,
            "epsilon): missing a required argument: 'epsilon'",
        ),
        (
            lambda weight, x, *, normalized_shape, eps: x,
            "eps): the spec has the inputs in the order x, weight",
        ),
    ],
)
def test_a_reference_that_takes_something_else(
    function: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileops.norm import reference

    monkeypatch.setattr(reference, "rms_norm", function)
    (found,) = manifest.validate("RMSNormFwdOp").findings
    assert found.level == "error"
    assert found.message.startswith("[V54] the reference takes the inputs in order and the para")
    assert told in found.message


def test_what_the_class_has_to_mend_is_found_at_the_class() -> None:
    manifest.register({"PlacedFwdOp": SPEC})

    class PlacedFwdOp(Kept):
        def __init__(self, gain=1.0, *, mode="a", target=None):
            self.gain = gain
            super().__init__()

        def forward(self, x, w=None, out=None):
            return self.kernel_for("norm", ScaledCall())(x)

    ALIVE.append(PlacedFwdOp)
    report = manifest.validate("PlacedFwdOp")
    (place,) = {report.places[found] for found in report.findings}
    assert place.file == __file__
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert lines[place.line - 1].strip() == "class PlacedFwdOp(Kept):"


def test_a_class_that_its_family_does_not_export(monkeypatch: pytest.MonkeyPatch) -> None:
    import tileops.norm

    monkeypatch.delattr(tileops.norm, "RMSNormFwdOp")
    (found, *_) = manifest.validate("RMSNormFwdOp").findings
    assert found.message.startswith(
        "[V45] no class RMSNormFwdOp in tileops.norm; it is defined in tileops.norm.ops"
    )
    assert found.message.endswith("but not in what tileops.norm exports: see __all__ there")
