"""The prompt of ``:whatif``: changes parted by semicolons, the answer as a film, a refusal in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from measured import profile_at

from npu_tui.output.whatif import whatif
from npu_tui.tui.prompts import Supposed, Supposing

HEALTHY = Path(__file__).resolve().parents[2] / "fixtures" / "healthy"


def answers(text: str) -> list[Supposed]:
    posted: list[Supposed] = []
    explorer = SimpleNamespace(state=SimpleNamespace(selection=None), trace=0)
    desk = SimpleNamespace(
        prompt=None,
        explorer=explorer,
        session=SimpleNamespace(profiles=[profile_at(HEALTHY)], film=None),
        work=lambda job, group: job(),
    )
    Supposing(desk, posted.append).begin(text)
    return posted


def test_the_film() -> None:
    (found,) = answers("kernel MatMulV2 x0.5; no sync")
    assert found.film is not None
    assert found.film.texts == ("kernel MatMulV2 x0.5", "no sync")
    answer = whatif(profile_at(HEALTHY), found.film.texts)
    assert [rung.length for rung in found.film.rungs[:2]] == [1000 * row.step_us for row in answer.changes]
    (over,) = answers("off")
    assert over.is_off


def test_what_is_no_change() -> None:
    (found,) = answers("faster please")
    assert "is not a change" in found.error
    assert not found.lines


def test_without_a_change_those_that_gain_are_listed() -> None:
    (found,) = answers(" ; ")
    assert "each change on its own" in found.title
    assert found.film is None
    gains = [line for line in found.lines if line.startswith(("kernel ", "line ", "no ", "rank"))]
    assert gains
    assert any("kernel " in line for line in gains)


def test_quotes_as_for_a_shell_part_changes() -> None:
    (found,) = answers("\"kernel MatMulV2 x0.5\" 'no sync'")
    assert found.film.texts == ("kernel MatMulV2 x0.5", "no sync")
