"""Some damaged exports of a service; ``damaged_services.py`` makes more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import service_folders
from damaged_services import CAUSES, attack, write_service

from npu_tui.analysis.evidence import half_recorded
from npu_tui.analysis.service_latency import timeline
from npu_tui.load.service import read_service


def test_damaged_services_are_judged() -> None:
    assert attack(3, 3, ("kv", "transfer")) == []


def test_no_whole_service_is_half_recorded(tmp_path: Path) -> None:
    for cause in CAUSES:
        write_service(tmp_path / cause, cause, 1, 20)
        assert half_recorded(timeline(read_service(tmp_path / cause))) == 0


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", service_folders.KINDS)
def test_nothing_of_a_folder_is_lost_without_a_line(kind: str) -> None:
    """One of what ``service_folders.py`` does to each, and a report of another run that has the names of this one."""
    commands = service_folders.COMMANDS[:1] if kind == "another_run" else []
    assert service_folders.attack(kind, range(3, 4), 2, commands) == (1, [])
