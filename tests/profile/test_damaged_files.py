"""A damaged file beside a trace fails nothing, and what is lost of it is said."""

from __future__ import annotations

from pathlib import Path

from damaged_files import damages, each_content_read_once


def test_every_file_in_some_ways_and_every_way_of_some_files(tmp_path: Path) -> None:
    told: dict[tuple[str, str], tuple[str, str]] = {}
    with each_content_read_once():
        for file, way, state, said in damages(tmp_path / "profile", 3, every=False):
            told[file, way] = state, said
    assert len(told) >= 60
    for (file, way), (state, said) in told.items():
        assert (state == "read") or said, (file, way)
        if way == "directory":
            assert state == "unreadable", file
        if way == "no byte":
            assert state == "empty", file
        if way.startswith("cut") and file.endswith(".json"):
            assert state == "cut_off", (file, way)
        if way.startswith("cut") and file.endswith(".csv"):
            assert state == "cut_off" or said == "", (file, way)
