"""What takes too long is stopped, but for imports."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tileops.bench.patience import OutOfPatience, patience


def test_what_takes_too_long_is_stopped() -> None:
    with pytest.raises(OutOfPatience), patience(0.05):
        time.sleep(5)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_is_quick_is_let_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with patience(5):
        pass
    with patience(None):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_code_that_catches_its_own_errors_is_stopped_too() -> None:
    with pytest.raises(OutOfPatience), patience(0.05):
        try:
            time.sleep(5)
        except Exception:
            pytest.fail("it is not an error of this code")


def test_errors_that_others_make_of_it_are_not_taken_for_theirs() -> None:
    def through_a_library() -> None:
        try:
            time.sleep(5)
        except BaseException:
            raise RuntimeError from None

    with pytest.raises(OutOfPatience), patience(0.05):
        through_a_library()
    with pytest.raises(RuntimeError, match="its own"), patience(5):
        raise RuntimeError("its own")


def test_an_import_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.2)\nwhole = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OutOfPatience), patience(0.05):
        importlib.import_module("slow_module")
        time.sleep(5)
    assert sys.modules.pop("slow_module").whole


def test_other_threads_are_not_stopped() -> None:
    done: list[bool] = []

    def work() -> None:
        with patience(0.01):
            time.sleep(0.05)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
