"""Sessions of the bundled profiles, each loaded once, under paths that are the same in every checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside import profile_with_files
from measured import profile_at, session_of
from msgspec.structs import replace

from npu_tui.load.load import load
from npu_tui.profile.checks import checks_of
from npu_tui.trace.text import read_in
from npu_tui.tui import screen, timeline
from npu_tui.tui.session import Session, make_session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Relative paths start at the checkout, and nothing of the caller's terminal or of other tests shows through."""
    monkeypatch.chdir(ROOT)
    for name in ("NO_COLOR", "COLUMNS", "LINES", "PYTHONPATH", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    # Nobody holds a key down here: the panel follows at once.
    monkeypatch.setattr(screen, "_PANEL_SECONDS", 0.001)
    # Nor does anybody see how many frames there are in a second.
    monkeypatch.setattr(timeline, "FRAME_SECONDS", 0.0)
    yield
    read_in(None)  # of a snapshot events are counted


@pytest.fixture(scope="session")
def sessions() -> dict[str, Session]:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        found = {name: session_of(load(Path("fixtures") / name)) for name in ("healthy", "dispatch_bound")}
        ranks = [load(Path("fixtures") / "two_ranks" / f"rank{rank}_ascend_pt") for rank in (0, 1)]
        return {**found, "two_ranks": session_of(*ranks)}
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """The healthy profile with all files beside its trace."""
    found = profile_at(profile_with_files(ROOT / "fixtures" / "healthy", tmp_path_factory.mktemp("files") / "profile"))
    assert found.source is not None
    found.source = replace(found.source, opened=Path("profile"))  # what is shown is the same everywhere
    found.trace.path = "profile"
    _ = found.tables.files, found.kernel_table, found.memory, checks_of(found), found.tables.link_matrix
    return make_session([found])


@pytest.fixture(scope="session")
def session(sessions: dict[str, Session]) -> Session:
    """The profile with starved launches."""
    return sessions["dispatch_bound"]
