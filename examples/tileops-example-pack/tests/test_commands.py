"""The command line treats the ops of the pack as those of TileOPs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def told(*arguments: str) -> str:
    """What `tileops` with these arguments prints."""
    command = [sys.executable, "-m", "tileops", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_run_judges_a_row() -> None:
    text = told("run", "CappedLogitsFwdOp", "--row", "decode-2304")
    assert "\nCappedLogitsFwdOp decode-2304-bfloat16 on cpu: right\n" in text


def test_bench_times_rows_of_both(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    rows = ("--row", "decode-32k", "--row", "decode-2304")
    told("bench", "--family", "example", *rows, "--seconds", "0.05", "--json", str(file))
    records = json.loads(file.read_text())["rows"]
    assert {record["op"] for record in records} == {"SoftcapFwdOp", "CappedLogitsFwdOp"}
    assert {record["state"] for record in records} == {"right"}, [r["reason"] for r in records]
