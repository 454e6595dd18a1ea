"""The command line treats the ops of a pack as it treats ours."""

from __future__ import annotations

from typing import Any

import pytest
from sources import pack

from tileops import backend
from tileops._core.targets import registry as backends
from tileops.cli import main
from tileops.testing.calling import reference
from tileops.testing.drawing import drawn


@pytest.fixture
def run(install: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command with the pack `acme_line` installed; its exit code and what it printed."""
    install(pack("acme_line"), acme="acme_line:SPEC")

    def command(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return command


def test_list_tells_the_package(run: Any) -> None:
    code, text = run("list", "--family", "acme_line")
    assert code == 0
    assert text.splitlines()[1].split() == ["TwiceFwdOp", "acme_line", "implemented", "acme_line"]


def test_show_finds_the_class_and_its_kernels(run: Any) -> None:
    code, text = run("show", "TwiceFwdOp")
    assert code == 0, text
    assert "TwiceFwdOp: acme_line, implemented\ndeclared in " in text
    assert "twice      torch   TorchKernel  acme_line  cpu, cuda  any    after all others\n" in text
    assert "  torch: Twice, by torch." in text


def test_validate_checks_its_code(run: Any, tmp_path: Any) -> None:
    code, text = run("validate", "TwiceFwdOp")
    assert (code, text) == (0, "0 errors, 0 advisories\n")


def test_validate_finds_what_its_code_gets_wrong(
    install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pack("acme_wrong")
    files["acme_wrong/spec.yaml"] = files["acme_wrong/spec.yaml"].replace(
        "    inputs:", "    params: {gain: {type: float, default: 1.0}}\n    inputs:"
    )
    install(files, acme="acme_wrong:SPEC")
    assert main(("validate", "TwiceFwdOp")) == 1
    assert "error TwiceFwdOp signature.params: [V47] " in capsys.readouterr().out


def test_explain_follows_its_body(run: Any) -> None:
    code, text = run("explain", "TwiceFwdOp", "--shape", "x=2x3", "--dtype", "T=float16")
    assert code == 0, text
    assert text.startswith("TwiceFwdOp on cpu: served by builtin (no target claims the device)\n")
    assert "torch (TorchKernel): accepted" in text


def test_docs_writes_its_pages(run: Any, tmp_path: Any) -> None:
    code, text = run("docs", str(tmp_path / "pages"), "--ops", "acme_line")
    assert code == 0, text
    page = (tmp_path / "pages" / "acme_line.md").read_text(encoding="utf-8")
    assert "\n# acme_line\n" in page
    assert "| twice | `TorchKernel` | cpu, cuda | after all others | Twice, by torch. |" in page


@pytest.mark.parametrize("command", ["show", "explain", "run"])
@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "ImportError: the import of acme_fails.ops exits: SystemExit: 3"),
        (
            "raise GeneratorExit(6)",
            "ImportError: the import of acme_fails.ops exits: GeneratorExit: 6",
        ),
    ],
)
def test_a_pack_whose_module_fails_is_one_error(
    install: Any, capsys: pytest.CaptureFixture[str], command: str, body: str, failure: str
) -> None:
    install({**pack("acme_fails"), "acme_fails/ops.py": body}, acme="acme_fails:SPEC")
    assert main((command, "TwiceFwdOp")) == 2
    assert capsys.readouterr().err == (
        f"tileops {command}: error: TwiceFwdOp is implemented, but the class cannot be imported: "
        f"{failure}; `tileops validate TwiceFwdOp` lists what is missing\n"
    )


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_reference_that_cannot_be_imported_makes_rows_wrong(
    install: Any, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    files = {**pack("acme_unjudged"), "acme_unjudged/reference.py": "raise SystemExit(4)"}
    install(files, acme="acme_unjudged:SPEC")
    assert main((command, "TwiceFwdOp")) == 1
    reason = "wrong: ImportError: the import of acme_unjudged.reference exits: SystemExit: 4\n"
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize("end", ["SystemExit(5)", "GeneratorExit(5)"])
def test_a_body_that_exits_is_one_error(
    install: Any, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    files = pack("acme_leaves")
    leaving = files["acme_leaves/ops.py"].replace("x = x.contiguous()", f"raise {end}")
    install({**files, "acme_leaves/ops.py": leaving}, acme="acme_leaves:SPEC")
    assert main(("explain", "TwiceFwdOp", "--shape", "x=2x3")) == 1
    error = capsys.readouterr().err
    assert error == f"tileops explain: error: code of a plug-in exits: {end[:-3]}: 5\n"


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        (
            "ops.py",
            "1 / 0",
            "TwiceFwdOp is implemented, but the class cannot be imported: ZeroDivisionError",
        ),
        (
            "reference.py",
            "1 / 0",
            "the reference of TwiceFwdOp cannot be imported: ZeroDivisionError: ",
        ),
        (
            "reference.py",
            "import acme_absent",
            "the reference of TwiceFwdOp cannot be imported: ModuleNotFoundError: ",
        ),
        ("spec.yaml", "family: ops", "TwiceFwdOp family: [V4] "),
    ],
)
@pytest.mark.filterwarnings("ignore:TwiceFwdOp cannot be constructed")
def test_doctor_says_which_module_of_a_pack_fails(
    install: Any, capsys: pytest.CaptureFixture[str], module: str, text: str, fault: str
) -> None:
    package = f"acme_ill_{module.partition('.')[0]}_{len(text)}"
    files = pack(package)
    if module == "spec.yaml":
        text = files[f"{package}/{module}"].replace(f"family: {package}", text)
    install({**files, f"{package}/{module}": text}, acme=f"{package}:SPEC")
    assert main(("doctor",)) == 1
    text = capsys.readouterr().out
    assert f"registration fault: entry point acme ({package}:SPEC): {fault}" in text
    assert "loaded, at fault\n" in text


def test_doctor_names_what_is_registered_for_an_op_without_a_class(
    install: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pack("acme_promised")
    spec = files["acme_promised/spec.yaml"].replace("implemented", "spec-only")
    install({**files, "acme_promised/spec.yaml": spec}, acme="acme_promised:SPEC")
    monkeypatch.setattr(backends, "current", backends.Registry())
    backend.register_kernel_builder(op="TwiceFwdOp", target="t", build_kernel=lambda x: x)
    assert main(("doctor",)) == 1
    assert (
        "registers a builder of target 't' for TwiceFwdOp, but the op has no class: it is spec-only"
    ) in capsys.readouterr().out


def test_run_judges_its_rows(run: Any) -> None:
    code, text = run("run", "TwiceFwdOp", "--row", "small")
    assert code == 0, text
    assert text.startswith("1 row\nTwiceFwdOp small-float32 on cpu: right\n")
    assert "32 flops, 256 bytes\n  served    by TorchKernel (builtin)\n" in text


def test_bench_times_its_rows(run: Any) -> None:
    code, text = run("bench", "--family", "acme_line", "--seconds", "0.01")
    assert code == 0, text
    assert text.startswith("TwiceFwdOp small-float32: ")
    assert ", by TorchKernel\n1 right, 0 wrong, 0 left out\n" in text


def test_run_needs_a_reference(install: Any, capsys: pytest.CaptureFixture[str]) -> None:
    files = pack("acme_blind")
    del files["acme_blind/reference.py"]
    install(files, acme="acme_blind:SPEC")
    assert main(("run", "TwiceFwdOp")) == 1
    assert capsys.readouterr().out == (
        "1 row\n"
        "TwiceFwdOp small-float32 on cpu: left out: nothing to judge the op by: there is no module "
        "acme_blind.reference, which would hold the function twice\n"
        "0 right, 0 wrong, 1 left out\n"
    )


def test_run_names_the_reference_that_was_meant(
    install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pack("acme_slip")
    files["acme_slip/reference.py"] = files["acme_slip/reference.py"].replace("twice", "twise")
    install(files, acme="acme_slip:SPEC")
    assert main(("run", "TwiceFwdOp")) == 1
    reason = "acme_slip.reference has no function twice; did you mean 'twise'?"
    assert f"left out: nothing to judge the op by: {reason}\n" in capsys.readouterr().out
    call = drawn("TwiceFwdOp")[0]
    with pytest.raises(
        AssertionError, match=r"reference has no function twice, which judges Twice"
    ):
        reference(call)


STUB = '''\
"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Any

from torch import Tensor

from tileops import Op

__all__ = [
    "TwiceFwdOp",
]
Call: Any
Interface: Any
TorchKernel: Any

class TwiceFwdOp(Op):
    """Doubles."""
    factor: Any

    def forward(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*S]`

        Calls return:
            y: `T[*S]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*S]`

        Returns:
            y: `T[*S]`

        ∀ S : Shape, T ∈ {float32, float16}
        """
'''


def test_stubs_stand_beside_its_classes(
    install: Any, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    files = pack("acme_stubs")
    files["acme_stubs/ops.py"] = files["acme_stubs/ops.py"].replace(
        "(Op):", "(Op):\n    '''Doubles.'''\n    factor = 2"
    )
    install(files, acme="acme_stubs:SPEC")
    assert main(("stubs", "acme_stubs")) == 0
    assert capsys.readouterr().out == "1 stub, 1 of them new or changed\n"
    assert (tmp_path / "acme_stubs" / "ops.pyi").read_text(encoding="utf-8") == STUB
    assert main(("stubs", "acme_stubs", "--check")) == 0
