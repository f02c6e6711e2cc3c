"""``check`` of a memory snapshot: limits on its peak and its fragmentation, its findings; what is not measured."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.gate.memory import parse_size
from tests.gate.conftest import PROFILE

MB = 1 << 20
LINE = [{"name": "step", "filename": "/home/me/train.py", "line": 7}]


def snapshot(folder: Path, *, history: bool = True, extra: tuple[Any, ...] = ()) -> str:
    """96 MiB at the peak; at the end 80 of 100 MiB are in use, 20 inactive."""
    rows = [("segment_alloc", 0, 100), ("alloc", 0, 80), ("alloc", 80, 16), ("free_completed", 80, 16)]
    base = 1 << 44
    events = [
        {"action": action, "addr": base + at * MB, "size": size * MB, "stream": 0, "frames": LINE}
        for action, at, size in rows
    ]
    blocks = [
        {"address": base, "size": 80 * MB, "requested_size": 80 * MB, "state": "active_allocated", "frames": LINE},
        {"address": base + 80 * MB, "size": 20 * MB, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "address": base, "total_size": 100 * MB, "stream": 0, "blocks": blocks}
    path = folder / "snapshot.pkl"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[*events, *extra] if history else []]}))
    return str(path)


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[tuple[str, str, int | None]]]:
    code = main(["check", *words, "--format", "json"])
    found = fields_of(capsys.readouterr().out)["checks"]
    return code, [(row["id"], row["status"], row["value_bytes"]) for row in found]


@pytest.mark.parametrize(
    ("text", "size"),
    [("56GB", 56 * 10**9), ("1.5 GiB", 3 << 29), ("800mb", 8 * 10**8), ("2MiB", 2 * MB), ("5B", 5),
     ("56", None), ("10%", None), ("-1GB", None), ("GB", None), ("5 ms", None)],
)  # fmt: skip
def test_sizes_have_units(text: str, size: int | None):
    assert parse_size(text) == size


def test_limits_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = snapshot(tmp_path)
    assert checked(capsys, path, "--max-peak", "96MiB", "--max-fragmentation", "20%") == (
        0, [("peak", "pass", 96 * MB), ("fragmentation", "pass", 20 * MB)],
    )  # fmt: skip
    assert checked(capsys, path, "--max-peak", "96MB", "--max-fragmentation", "19%") == (
        1, [("peak", "fail", 96 * MB), ("fragmentation", "fail", 20 * MB)],
    )  # fmt: skip
    main(["check", path, "--max-peak", "90MiB", "--max-fragmentation", "10%"])
    said = capsys.readouterr().out
    assert "peak memory (requested), device 0, event 2: 96.0 MiB, allowed 90.0 MiB: 6.0 MiB too much" in said
    assert "20.0% (20.0 MiB), allowed 10.0% (10.0 MiB): 10.0 MiB too much" in said


def test_findings_of_a_snapshot_are_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = snapshot(tmp_path)
    assert checked(capsys, path, "--fail-on", "high") == (0, [("SNAPSHOT.PEAK", "pass", None)])
    oom = {"action": "oom", "device_free": 0, "size": 64 * MB, "stream": 0, "frames": LINE}
    failed = snapshot(tmp_path, extra=(oom,))
    assert checked(capsys, failed, "--fail-on", "high", "--only", "SNAPSHOT.OOM") == (
        1, [("SNAPSHOT.OOM", "fail", None)],
    )  # fmt: skip


def test_what_a_snapshot_does_not_tell_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = snapshot(tmp_path)
    assert checked(capsys, path, "--max-free", "10%") == (1, [("free", "not_measured", None)])
    assert checked(capsys, path, "--fail-on", "high", "--only", "SYNC.HOST")[1] == [("SYNC.HOST", "not_measured", None)]
    damaged = snapshot(tmp_path, extra=({"action": "alloc", "addr": "x", "size": -3},))
    assert checked(capsys, damaged, "--max-peak", "1GB") == (1, [("peak", "not_measured", None)])
    assert checked(capsys, damaged, "--max-peak", "1GB", "--allow-damage", "20%")[0] == 0
    for blocks in (-5, None, {}):
        path = snapshot(tmp_path)
        content = pickle.loads(Path(path).read_bytes())
        content["segments"][0]["blocks"] = blocks
        Path(path).write_bytes(pickle.dumps(content))
        assert checked(capsys, path, "--max-fragmentation", "1%") == (1, [("fragmentation", "not_measured", None)])
    for traces in ("x", {}, None, [7], [{}], ["x"]):
        path = snapshot(tmp_path)
        content = pickle.loads(Path(path).read_bytes()) | {"device_traces": traces}
        Path(path).write_bytes(pickle.dumps(content))
        assert ("findings", "not_measured", None) in checked(capsys, path, "--fail-on", "low")[1]
    state = snapshot(tmp_path, history=False)
    assert checked(capsys, state, "--max-peak", "1GB") == (1, [("peak", "not_measured", None)])
    assert checked(capsys, state, "--max-peak", "70MiB") == (1, [("peak", "fail", 80 * MB)])
    with pytest.raises(SystemExit, match="2"):
        main(["check", state, "--max-peak", "56"])


def test_a_profile_has_no_snapshot(capsys: pytest.CaptureFixture[str]):
    code, rows = checked(capsys, str(PROFILE), "--max-peak", "1GB", "--max-fragmentation", "10%")
    assert (code, rows) == (1, [("peak", "not_measured", None), ("fragmentation", "not_measured", None)])
    assert checked(capsys, str(PROFILE), "--max-peak", "1GB", "--allow-unmeasured")[0] == 0
