"""The table of links between ranks, the steps of the Summary tab, and a database that is looked at and left alone."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from driving import opened
from measured import profile_at
from rich.cells import cell_len

from npu_tui.analysis.collectives import pair_sums
from npu_tui.trace.classes import OpClass
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.tui.session import NO_HITS, make_session
from npu_tui.tui.tabs.declared import bar, spark
from npu_tui.tui.tabs.device import link_table
from npu_tui.tui.tabs.summary import _summary_row, summary
from npu_tui.tui.tabs.table import Context, TabTable
from npu_tui.tui.terminal.frames import class_colour

sys.path.append(str(Path(__file__).resolve().parents[1] / "load" / "database"))

from small import small_database

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def links(ranks: int) -> TabTable:
    """All ranks in a ring; from the last to the first at half the speed, and a copy on the chip."""
    rows = [
        ("hcom_allReduce-total", "g", rank, (rank + 1) % ranks, "HCCS", 20.0 if rank < ranks - 1 else 10.0, 1_000_000)
        for rank in range(ranks)
    ]
    rows += [("hcom_allReduce-top1", "g", 0, 1, "HCCS", 5.0, 1_000_000), ("x-total", "g", 0, 0, "LOCAL", 900.0, 1000)]
    found = link_table(pair_sums(rows))
    assert isinstance(found, TabTable)
    return found


def test_few_ranks_have_a_heat_map_of_their_bandwidth():
    found = links(4)
    speeds = {(str(row.values[0]), row.cells[1]): row.values[2] for row in found.rows}
    assert sorted(speeds.values()) == [10.0, 20.0, 20.0, 20.0, 900_000.0]
    aside = found.rows[0].aside
    assert aside is not None
    picture = aside(40, 10).plain.splitlines()
    assert picture[1].split() == ["0", "1", "2", "3"]
    assert picture[2].split() == ["0", "·", "█20", "·", "·"]  # what stays on the chip is left out
    assert picture[5].split() == ["3", "▓10", "·", "·", "·"]


def test_the_heat_map_of_eight_ranks_keeps_to_its_width():
    aside = links(8).rows[0].aside
    assert aside is not None
    picture = aside(31, 10).plain.splitlines()
    assert max(map(len, picture)) <= 31
    assert picture[0].endswith("…")
    assert picture[2].split() == ["0", "·", "█", *"······"]


def test_many_ranks_have_a_table_alone():
    found = links(9)
    assert len(found.rows) == 10
    assert all(row.aside is None for row in found.rows)


def test_sparks_and_bars():
    assert spark([8, 4, 1, 0]) == "█▄▁ "
    assert (bar(0.5, 8), bar(0.001, 8), bar(0, 8), bar(2, 4)) == ("████", "▏", "", "████")


def test_the_summary_shows_every_step_with_its_split_and_a_line_over_all():
    profile = profile_at(FIXTURES / "healthy")
    steps = [str(name) for name in profile.trace.names if name.startswith("ProfilerStep#")]
    now = Context(make_session([profile]), None, None, None, HOST_TO_DEVICE, NO_HITS, 0)
    found = summary(now)
    assert isinstance(found, TabTable)
    own = [row for row in found.rows if str(row.cells[1]).startswith("ProfilerStep#")]
    assert sorted(str(row.cells[1]) for row in own) == sorted(steps)
    assert all("compute" in str(row.cells[2]) and row.places for row in own)
    value = own[0].cells[2]
    hues = {value.plain[span.start]: span.style for span in value.spans if span.start < span.end}
    assert hues["█"] == class_colour(OpClass.CUBE)
    assert hues.get("▒", class_colour(OpClass.COMMUNICATION)) == class_colour(OpClass.COMMUNICATION)


def test_a_long_name_leaves_room_for_what_is_said_of_it():
    row = _summary_row("steps", "execute_8192_context_9" * 9, "26.35 ms")
    assert cell_len(row.cells[1]) < 40
    assert row.told().startswith("execute_8192_context_9" * 9)
    assert row.told().endswith("26.35 ms")


async def test_a_session_leaves_the_folder_of_a_database_as_it_was(tmp_path):
    folder = tmp_path / "profile"
    folder.mkdir()
    small_database(folder / "ascend_pytorch_profiler_3.db")
    before = listing(folder)
    profile = profile_at(folder)
    async with opened(make_session([profile]), (120, 40)) as driver:
        for keys in (f"/{profile.trace.name_of(0)}\r", "n", "3", "c", "6", "9", "r", "/arg:Dims~1\r"):
            await driver.send(keys)
            await driver.settle()
        assert driver.state.selection is not None
    assert listing(folder) == before


def listing(folder: Path) -> list[tuple[str, str, int]]:
    found = []
    for file in sorted(folder.rglob("*")):
        content = file.read_bytes() if file.is_file() else b""
        found.append((file.name, hashlib.sha256(content).hexdigest(), file.stat().st_mtime_ns))
    return found
