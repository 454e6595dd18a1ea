"""Comparison implementations compute what they are compared with."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from tileops._core.op import construct as construction
from tileops._core.targets import registry
from tileops.bench import baselines
from tileops.bench.baselines import BaselineFault, default_folder, load, rivals
from tileops.norm.kernels import RMSNormPortableKernel
from tileops.testing.calling import assert_close, construct, expected, inputs, spec_of
from tileops.testing.drawing import drawn
from tileops.testing.shrinking import shrunk_rows

CPU = torch.device("cpu")
load(default_folder())
TORCH = rivals(["torch"], CPU)[0]
CALLS = 4


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("op", sorted(TORCH.functions))
def test_torch_gives_what_the_reference_gives(op: str) -> None:
    tried = 0
    rows = [call for call in shrunk_rows(op).values() if call is not None]
    for call in (*rows, *drawn(op)):
        given = inputs(call)
        wanted = expected(call, given)
        function = TORCH.function(construct(call))
        assert function is not None
        ordered = [given.get(name) for name in spec_of(op).signature.inputs]
        try:
            returned = function(*ordered)
        except NotImplementedError:
            continue
        assert_close(call, given, returned, wanted)
        tried += 1
        if tried == CALLS:
            break
    assert tried


ONE_OF_EACH = {function.__module__: op for op, function in TORCH.functions.items()}


@pytest.mark.parametrize("op", ONE_OF_EACH.values(), ids=lambda op: f"{op}")
def test_the_compiler_finds_the_module_of_a_function(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    (compiled,) = rivals(["torch-compile"], CPU)
    call = next(each for each in shrunk_rows(op).values() if each is not None)
    given = inputs(call)
    wanted = expected(call, given)
    function = compiled.function(construct(call))
    assert function is not None
    returned = function(*(given.get(name) for name in spec_of(op).signature.inputs))
    assert_close(call, given, returned, wanted)


def test_modules_of_one_name_are_two(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "norm.py").write_text(f"WHICH = {folder!r}")
        load(tmp_path / folder)
    held = [each for name, each in sys.modules.items() if name.startswith("tileops_baselines_")]
    assert {"one", "two"} <= {getattr(module, "WHICH", None) for module in held}


def test_a_library_is_named_with_its_version() -> None:
    assert TORCH.version == torch.__version__
    assert rivals(["torch-compile"], CPU)[0].compiled


def test_an_op_is_compared_with_itself_without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"loose": type("LooseKernel", (RMSNormPortableKernel,), {"general": False})}
    monkeypatch.setattr(registry, "added_kernel_types", lambda op: added)
    monkeypatch.setattr(construction, "_tables", {})  # neither kept nor found
    weighted = (call for call in drawn("RMSNormFwdOp") if "weight" in call.tensors)
    call = next(call for call in weighted if 0 not in call.tensors["x"].shape)
    op, given = construct(call), inputs(call)
    rival = rivals(["builtin"], CPU)[0]
    own = rival.function(op)
    assert own is not None
    assert rival.serves("DropoutFwdOp")
    torch.testing.assert_close(own(given["x"], given["weight"]), op(**given))
    assert [type(kernel).__name__ for kernel in op.iter_kernels()] == ["LooseKernel"]


def test_an_op_without_a_comparison_has_none() -> None:
    call = drawn("DropoutFwdOp")[0]
    assert TORCH.function(construct(call)) is None
    assert not TORCH.serves("DropoutFwdOp")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flash", "no comparison is called flash; known: builtin, cublas, cudnn, "),
        ("nowhere", "nowhere is not installed$"),
        ("known", "known is not installed; `pip install known-package` brings it$"),
        ("elsewhere", "elsewhere does not run on cpu"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "_libraries", dict(baselines._libraries))
    baselines.library("nowhere", lambda: None)
    baselines.library("known", lambda: None, package="known-package")
    baselines.library("elsewhere", lambda: "1", ["cuda"])
    with pytest.raises(BaselineFault, match=message):
        rivals([name], CPU)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineFault, match="modules in a folder, and .* is none"):
        load(tmp_path / "none")


def test_a_module_that_does_not_load_is_named(tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text("raise KeyError('of its own')\n")
    with pytest.raises(BaselineFault, match="norm.py: KeyError: 'of its own'"):
        load(tmp_path)


def test_a_function_of_a_library_that_nobody_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tileops.bench.baselines import baseline\n"
        'baseline("unheard", "RMSNormFwdOp")(lambda op, x, weight: x)\n'
    )
    text = r"mine.py: .*no library is called unheard: make it known by library\('unheard', …\)"
    with pytest.raises(BaselineFault, match=text):
        load(tmp_path)
