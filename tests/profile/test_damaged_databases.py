"""A damaged database fails nothing, and what is lost of it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from damaged_databases import NAME, damages

from npu_tui.load import database_file as connect


def test_every_damage_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_PATIENCE_SECONDS", 0.05)  # whoever locks a file keeps it
    left = {(each.file, each.damage): each for each in damages(tmp_path, 3, every=False)}
    whole = left[NAME, "locked"]
    assert (whole.slices or 0) > 1000
    assert whole.kernels
    assert whole.memory
    for (file, damage), each in left.items():
        lost = each.slices != whole.slices or (each.kernels, each.memory) != (whole.kernels, whole.memory)
        if lost:
            assert each.told, (file, damage)
        if file == "analysis.db":
            assert not lost, damage
            if damage in ("cut 1/3", "no byte", "wrong magic", "zeros", "encrypted", "directory"):
                assert "communication.json: " in each.told, damage
        elif damage in ("no byte", "wrong magic", "zeros", "encrypted", "directory"):
            assert each.slices is None, damage
