"""What simulators made is read back while tests run, and made again of other arguments or by other sources."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import kept
import pytest


def test_what_was_made_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(kept, "_WHERE", [tmp_path / "made"])
    monkeypatch.setattr(kept, "_IMPORTED", {})
    kept.SOURCES.mkdir()
    asked: list[tuple[int, bool]] = []

    @kept.kept
    def make(number: int, odd: bool = False) -> dict[str, bytes]:
        asked.append((number, odd))
        return {"file": bytes([number, odd])}

    assert make(1) == make(1) == {"file": b"\1\0"}
    assert make(2) == {"file": b"\2\0"}
    assert make(1, odd=True) == make(1, odd=True) == {"file": b"\1\1"}
    assert asked == [(1, False), (2, False), (1, True)]
    (folder,) = kept.folder_of(kept.SOURCES, tmp_path / "made").parent.iterdir()
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])  # of a run that has been ended
    assert make(1) == {"file": b"\1\0"}
    assert asked[3:] == [(1, False)]
    (kept.SOURCES / "simulator_of_kept.py").write_text("seed = 2\n\n\nclass Job:\n    seed = 3\n")
    kept.folder_of.cache_clear()
    assert make(2) == {"file": b"\2\0"}
    assert asked[4:] == [(2, False)]
    assert not folder.exists(), "nobody asks for what other sources made"
    monkeypatch.syspath_prepend(str(kept.SOURCES))
    simulator = importlib.import_module("simulator_of_kept")
    assert make(3) == make(3)
    pickle.dumps(simulator.Job())  # which leaves a name of its own in the class
    for changed in (simulator, simulator.Job):
        with monkeypatch.context() as patch:
            patch.setattr(changed, "seed", 4)
            assert make(3) == make(3) == {"file": b"\3\0"}
    assert make(3) == {"file": b"\3\0"}
    assert asked[5:] == [(3, False)] * 5, "a simulator that a test has changed is asked each time"
    kept._WHERE.clear()
    assert make(2) == {"file": b"\2\0"}
    assert asked[10:] == [(2, False)], "a script of many seeds keeps nothing"
