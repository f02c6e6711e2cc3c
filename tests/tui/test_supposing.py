"""The prompt of ``:whatif``: changes parted by semicolons, the answer as a sheet, a refusal in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from measured import profile_at

from npu_tui.tui.prompts import Supposed, Supposing

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


def answers(text: str, width: int = 120) -> list[Supposed]:
    posted: list[Supposed] = []
    explorer = SimpleNamespace(state=SimpleNamespace(selection=None))
    asked = Supposing(None, explorer, [profile_at(HEALTHY)], lambda job, group: job(), posted.append, lambda: width)
    asked.begin(text)
    return posted


def test_the_sheet() -> None:
    (found,) = answers("kernel MatMulV2 x0.5; no sync")
    assert "shorter" in found.title
    assert any("kernel MatMulV2 x0.5" in line for line in found.lines)
    ghosts = [line for line in found.lines if "predicted" in line]
    assert ghosts
    assert max(map(len, found.lines)) <= 120
    (narrow,) = answers("no sync", 40)
    assert max(len(line) for line in narrow.lines if line.startswith("  predicted")) <= 40


def test_what_is_no_change() -> None:
    (found,) = answers("faster please")
    assert "is not a change" in found.error
    assert not found.lines


def test_without_a_change_those_that_gain_are_listed() -> None:
    (found,) = answers(" ; ")
    assert "each change on its own" in found.title
    assert found.ghosts is None  # those of the last answer stay
    gains = [line for line in found.lines if line.startswith(("kernel ", "line ", "no ", "rank"))]
    assert gains
    assert any("kernel " in line for line in gains)


def test_quotes_as_for_a_shell_part_changes() -> None:
    (found,) = answers("\"kernel MatMulV2 x0.5\" 'no sync'")
    assert found.lines == answers("kernel MatMulV2 x0.5; no sync")[0].lines
