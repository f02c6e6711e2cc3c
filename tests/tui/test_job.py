"""The overview of a job: whole screens at three sizes, its keys, and the way into a rank's timeline and back."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from driving import Driver, of_jobs
from msgspec.structs import replace
from test_golden import SIZES, compare

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jobs"))
from made_jobs import simulated

from npu_tui.cli.main import main
from npu_tui.jobs.job import Job
from npu_tui.jobs.model import Layout
from npu_tui.jobs.opening import open_job
from npu_tui.load.load import opening_of
from npu_tui.output.job_whatif import job_whatif
from npu_tui.strings import say, speaking, words
from npu_tui.subjects import subject_at
from npu_tui.trace.text import duration_text
from npu_tui.tui.app import NpuTui
from npu_tui.tui.job_overview import Examined, Overview, examined_jobs
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.job_tables import job_table
from npu_tui.tui.screen import MainScreen
from npu_tui.tui.sheets import HelpSheet
from npu_tui.tui.terminal.internals import strips_of

pytestmark = of_jobs
FOLDER = Path(__file__).resolve().parent / "golden_job"
MS = 1_000_000
SLOW = {2: 1, 8: 5, 64: 37, 1000: 417}


@cache
def job_of(world: int) -> Examined:
    """A job of ``world`` ranks of which one works half as long again before every call."""

    def work(rank: int, step: int, call: int) -> int:
        return MS + rank % 7 * 100 + (MS // 2 if rank == SLOW[world] else 0)

    return Examined(simulated(world, work, calls=4, layout=Layout(1, 1, world, world)))


@asynccontextmanager
async def overview(examined: Examined, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[JobScreen, NpuTui]]:
    screen = JobScreen(Path("job"))
    screen.show(examined)
    app = NpuTui(job=screen)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield screen, app


def test_the_first_column_is_for_marks() -> None:
    firsts = {line[:1] for stored in FOLDER.iterdir() for line in stored.read_text(encoding="utf-8").splitlines()}
    assert firsts <= {"", " ", "▸"}


def test_the_title_of_a_finding_ends_as_its_language_does():
    ends = {}
    for language in ("en", "zh"):
        with speaking(language):
            view = Overview(Examined(job_of(2).job))
            title = view.report.findings[0].title
            cell = str(next(cell for cell in job_table(view, "job_findings").rows[0].cells if title in str(cell)))
            ends[language] = cell.partition(title)[2][:2]
    assert ends["en"] == ". "
    assert ends["zh"][0] == "。"


async def press(app: NpuTui, *keys: str) -> None:
    """Send what a terminal sends for ``keys``, each once the one before is handled."""
    driver = Driver(app, None)
    for key in keys:
        await driver.press(key)


async def until(found) -> None:
    for _ in range(3_000):
        if found():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come")


def rows(app: NpuTui) -> list[str]:
    return [strip.text.rstrip() for strip in strips_of(app.screen)]


@pytest.mark.parametrize(
    ("world", "size"),
    [(2, SIZES[1]), (64, SIZES[1]), *((world, size) for world in (8, 1000) for size in SIZES)],
    ids=str,
)
async def test_screens(world: int, size: tuple[int, int]):
    async with overview(job_of(world), size) as (_, app):
        shown = rows(app)
    assert len(shown) == size[1]
    compare(f"{world}_{size[0]}x{size[1]}", shown, FOLDER)


async def test_the_guilty_rank_comes_first_with_its_price():
    async with overview(job_of(64)) as (screen, app):
        text = "\n".join(rows(app))
        assert "rank 37 is slow: at its peers' speed" in text
        assert screen.view.rank == 37
        assert "63 similar" in text
        assert "waits for 37" in text


async def test_without_the_panel_other_collectives_have_its_rows():
    async with overview(job_of(2), (120, 50)) as (screen, app):
        await press(app, "q")
        shown = rows(app)
        titles = [line for line in shown if "of group" in line]
        assert len(titles) > 2
        assert len(set(titles)) == len(titles)
        blank = next(back for back, line in enumerate(reversed(shown[:-1])) if line)
        assert blank <= len(screen.view.examined.source.ranks_of(screen.view.collective)) + 2


async def test_pictures_have_the_rows_that_a_table_leaves():
    async with overview(job_of(2), (200, 50)) as (screen, app):
        await press(app)
        shown = rows(app)
        blank = next(back for back, line in enumerate(reversed(shown[:-1])) if line)
        assert blank <= len(screen.view.examined.source.ranks_of(screen.view.collective)) + 2
        assert len([line for line in shown if "of group" in line]) > 2
        assert shown[49 - screen.panel.size.height + 1].split()[:2] == ["finding", "severity"]
        before = screen.panel.size.height
        await press(app, "7")
        assert screen.panel.size.height > before
        await press(app, "1")
        assert screen.panel.size.height == before


async def test_metric_axis_group_rank_and_collective_have_keys():
    async with overview(job_of(64)) as (screen, app):
        view = screen.view
        assert (view.metric, view.axis) == ("own", "step")
        await press(app, "t")
        assert view.metric == "cost"
        await press(app, "|")
        assert view.axis == "collective"
        before = view.collective
        await press(app, "l")
        assert view.collective == before + 1
        await press(app, ";", ">")
        assert (view.collective, view.rank) == (before, 38)
        await press(app, "<", "<")
        assert view.rank == 36
        await press(app, *":5\r")
        assert view.rank == 5
        assert view.opened  # it was among those that are alike
        await press(app, "*", "*")
        assert view.scope.ranks == frozenset(range(8))
        await press(app, "escape", "escape")
        assert view.scope.ranks is None


async def test_tables_lead_to_ranks_collectives_and_hosts():
    async with overview(job_of(64)) as (screen, app):
        await press(app, "7", "7", "down", "enter")
        assert screen.view.collective == screen.panel.rows[1].collective
        await press(app, "3", "down", "enter")
        assert screen.view.scope.name == screen.panel.rows[screen.panel.table.cursor_row].cells[0]
        for tab in "1234567":
            await press(app, "escape", tab)
            assert screen.panel.tab.startswith("job_")


async def test_what_has_no_trace_says_so():
    async with overview(job_of(8)) as (_, app):
        assert "Enter open" not in rows(app)[-1]  # nor is what leads nowhere promised
        assert "l collective" in rows(app)[-1]
        await press(app, "enter")
        assert "no trace here" in rows(app)[-1]
        await press(app, "?")
        assert isinstance(app.screen, HelpSheet)
        assert "Ranks of a job" in "\n".join(rows(app))


async def test_dumps_of_one_rank_are_a_page_of_tables(tmp_path):
    (tmp_path / "decode_0.csv").write_text("60,40\n10,10\n")
    (tmp_path / "map_global_deployment.json").write_text(
        '{"moe_layer_count": 1, "layer_list": [{"layer_id": 0, "device_count": 1, '
        '"device_list": [{"device_id": 0, "device_expert": [0, 1]}]}]}'
    )
    async with overview(Examined(open_job(tmp_path))) as (screen, app):
        assert "placement beside them: map_global_deployment.json" in "\n".join(rows(app))
        for tab in "123456":
            await press(app, tab)
            assert screen.panel.is_full
            assert "own excess" not in rows(app)[0]
        await press(app, "escape", "escape", "8")
        assert "Enter go there" in rows(app)[-1]
        assert "map" not in rows(app)[-1]


async def test_marks_are_told_and_taken_back():
    async with overview(job_of(8)) as (screen, app):
        await press(app, "space", "down", "space")
        assert len(screen.view.marked) == 2
        await press(app, "escape")
        assert screen.view.marked == []


async def test_ranks_that_nothing_ties_and_missing_ones_are_said():
    tied, other = simulated(4, lambda rank, step, call: MS), simulated(2, lambda rank, step, call: MS)
    alone = [
        replace(profile, rank=profile.rank + 4, calls=renamed(profile.calls), layout=Layout(1, 1, 8, 8))
        for profile in other.ranks
    ]
    async with overview(Examined(Job(Path("job"), [*tied.ranks, *alone]))) as (_, app):
        text = "\n".join(rows(app))
        assert "2 ranks without a common clock" in text
        assert "2 ranks missing: 6, 7" in text


async def test_a_host_that_no_file_names_has_no_name():
    ranks = [replace(profile, host_name=None, boot=None) for profile in job_of(8).job.ranks]
    async with overview(Examined(Job(Path("job"), ranks))) as (screen, app):
        assert len(screen.view.job.hosts) == 8
        assert not [scope for scope in screen.view.scopes() if scope.name.startswith("host")]
        text = "\n".join(rows(app))
        assert "hosts unknown" in text
        assert "waits for 5" in text
        assert not re.search(r"host\d", text)


async def test_what_the_job_says_of_a_rank_stays_whole_in_every_language():
    screen = JobScreen(Path("fixtures") / "two_ranks", cached=False)
    app = NpuTui(job=screen)
    with speaking("en"):
        async with app.run_test(size=(80, 24)):
            await until(lambda: screen.is_whole)
            await press(app, "enter")
            await until(lambda: isinstance(app.screen, MainScreen))
            await press(app)
            said = []
            for language in ("en", "zh"):
                await press(app, *f":{language}", "enter")
                # What its own profile says, after the figures, stands in the verdict below.
                told = re.split("[;；]", words(screen.view.whole.findings[0].title))[0]
                assert f"J ← {told}".replace(" ", "") in "".join(rows(app)[:2]).replace(" ", "")
                said.append(told)
            assert "rank 1 is slow" in said[0]
            assert "慢" in said[1]


def renamed(calls):
    """``calls`` in another group."""
    return tuple(replace(call, group="9", name=call.name.replace("__123_", "__9_")) for call in calls)


async def test_enter_goes_into_a_timeline_and_esc_comes_back():
    path = Path("fixtures") / "two_ranks"
    screen = JobScreen(path, cached=False)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)):
        await until(lambda: screen.is_whole)
        rank = screen.view.rank
        await press(app, "enter")
        await until(lambda: isinstance(app.screen, MainScreen))
        main = app.screen
        assert [trace.rank for trace in main.session.scene.traces] == [rank]
        await press(app, "escape", "escape", "escape", "escape")
        await until(lambda: app.screen is screen)
        await press(app, "space", "<" if rank else ">", "space", "enter")
        await until(lambda: isinstance(app.screen, MainScreen))
        scene = app.screen.session.scene
        assert len(scene.traces) == 2
        clock = open_job(path).clocks[1]
        apart = (scene.traces[1].start_ns + scene.offsets[0]) - (scene.traces[0].start_ns + scene.offsets[1])
        assert apart == pytest.approx(clock.offset, abs=2)
        main = app.screen
        await Driver(app, None).settle()
        labels = [(row.trace, row.name) for row in main.explorer.rows if row.opener and row.kind != "layer"]
        assert [name for trace, name in labels if trace == 0] == [name for trace, name in labels if trace == 1]
        assert [trace for trace, _ in labels[:4]] == [0, 1, 0, 1]
        await press(app, "J")
        await until(lambda: app.screen is screen)
        await press(app, "escape", "7", "7", "home", "enter")  # a collective, in the timeline of the late rank
        await until(lambda: isinstance(app.screen, MainScreen))
        await Driver(app, None).settle()
        worst = screen.view.job.blamed[screen.view.collective]
        trace, selected = app.screen.session.scene.traces[0], app.screen.explorer.state.selection
        assert trace.rank == worst.last
        assert trace.name_of(selected.item) == worst.meeting.calls[worst.last].name


async def test_a_finding_has_a_film_of_the_late_and_the_waiting_rank():
    screen = JobScreen(Path("fixtures") / "two_ranks", cached=False)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: screen.is_whole)
        answer = job_whatif(screen.overview.job, ["rank 1 as its peers"])
        driver = Driver(app, None)
        for keys in ("!", ":whatif rank 1 as its peers\r"):
            await driver.send(keys)
            await until(lambda: isinstance(app.screen, MainScreen))
            for size in ((80, 24), (120, 40), (200, 50)):
                await pilot.resize_terminal(*size)
                await driver.settle()
                for length in (answer.step_us, answer.step_after_us):
                    assert duration_text(1000 * length) in driver.text(), size
            film = app.screen.session.film
            assert [run.trace.rank for run in film.runs] == [1, 0]
            assert app.screen.explorer.scene.labels == ["1", "0", "−1", "−0"]
            await press(app, *["escape"] * 3)
            await until(lambda: app.screen is screen)
        await driver.send(":whatif kernel x0\r")
        assert app.screen is screen


async def test_a_film_asked_for_while_traces_are_read_comes_with_the_findings():
    screen = JobScreen(Path("fixtures") / "two_ranks", cached=False)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)):
        await until(lambda: screen.is_whole)
        even = Examined(simulated(8, lambda rank, step, call: MS, calls=4, layout=Layout(1, 1, 8, 8)))
        read = Examined(screen.overview.job)
        screen.show(even, False)
        await press(app, "!")
        assert say("film.then") in Driver(app, None).text()
        screen.show(even, False)
        assert app.screen is screen
        screen.show(read)
        await until(lambda: isinstance(app.screen, MainScreen))
        assert [run.trace.rank for run in app.screen.session.film.runs] == [1, 0]
        await press(app, *["escape"] * 4)
        await until(lambda: app.screen is screen)
        screen.show(read)
        await Driver(app, None).idle()
        assert app.screen is screen, "asked for once, shown once"


async def test_a_wait_leads_to_what_the_late_rank_did():
    """Rank 0 waits: ] shows rank 1 below it, at the operation that it ran when rank 0 had come."""
    screen = JobScreen(Path("fixtures") / "two_ranks", cached=False)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)):
        await until(lambda: screen.is_whole)
        worst = screen.view.job.blamed[screen.view.collective]
        late = worst.last
        early = 1 - late
        await press(app, *f":{early}\r", "enter")
        await until(lambda: isinstance(app.screen, MainScreen))
        await Driver(app, None).settle()
        main = app.screen
        name = main.session.scene.traces[0].name_of(main.explorer.state.selection.item)
        assert name == worst.meeting.calls[early].name
        await press(app, "]")
        await until(lambda: isinstance(app.screen, MainScreen) and app.screen is not main)
        await Driver(app, None).settle()
        scene, selected = app.screen.session.scene, app.screen.explorer.state.selection
        assert [trace.rank for trace in scene.traces] == [early, late]
        assert selected.trace == 1
        came = next(arrival.start for arrival in worst.arrivals if arrival.rank == early)
        start, end = scene.times(selected)
        begun = scene.traces[0].start_ns
        clock = next(clock for clock in screen.view.job.clocks if clock.rank == early)
        assert start + clock.to_common(begun) <= came + 1_000
        assert end + clock.to_common(begun) >= came - 1_000


def test_a_picture_of_a_job(tmp_path):
    drawn = tmp_path / "job.svg"
    assert main(["screenshot", str(Path("fixtures") / "two_ranks"), "-o", str(drawn), "--size", "80x24"]) == 0
    text = drawn.read_text()
    assert "RANKS" in text
    assert "two_ranks" in text
    assert main(["screenshot", str(tmp_path / "nothing"), "-o", str(drawn)]) == 3


async def test_summaries_are_a_screen_and_lead_to_the_profiles(tmp_path):
    path = (Path("fixtures") / "two_ranks").resolve()
    assert main(["summarize", str(path), "--traces", "-o", str(tmp_path)]) == 0
    assert subject_at(opening_of(tmp_path)).of_several
    found = list(examined_jobs(tmp_path, None, lambda done, count: None, lambda: True))
    assert [whole for _, whole in found] == [True]
    examined = found[0][0]
    tables = [case.report.rank_table for case in (examined, Examined(open_job(path)))]
    told, read = ([replace(row, gain_us=0.0) for row in table] for table in tables)
    assert told == read
    # A summary leaves out when its rank ended, and with that what the rank does after its last collective.
    assert [row.gain_us for row in tables[0]] == pytest.approx([row.gain_us for row in tables[1]], abs=5)
    async with overview(examined) as (screen, app):
        rank = screen.view.rank
        await press(app, "enter")
        await until(lambda: isinstance(app.screen, MainScreen))
        assert [trace.rank for trace in app.screen.session.scene.traces] == [rank]


async def test_a_summary_whose_profile_lies_elsewhere_says_so():
    found = job_of(8).job
    away = [replace(each, kind="profile_directory", path=Path("/another/machine")) for each in found.ranks]
    async with overview(Examined(Job(Path("job"), away))) as (_, app):
        await press(app, "enter")
        assert "not here but where its summary was made: /another/machine" in rows(app)[-1]


async def test_e_walks_over_the_findings_and_a_slash_asks_for_a_rank():
    async with overview(Examined(job_of(64).job.narrowed(None, None)), (120, 40)) as (screen, app):
        count = len(screen.view.report.findings)
        await press(app, ";", *":3\r")
        assert screen.view.rank == 3
        await press(app, "e")
        assert screen.view.rank == SLOW[64]
        assert screen.panel.tab == "job_findings"
        assert screen.panel.table.cursor_row == 0
        assert rows(app)[-1].strip().startswith(f"finding 1 of {count}: rank 37 is slow")
        await press(app, *"e" * count)
        assert "no further finding" in rows(app)[-1]
        await press(app, *"/41\r")
        assert screen.view.rank == 41


async def test_a_table_that_has_room_for_all_columns_says_of_none_that_it_is_beyond():
    async with overview(job_of(64), (200, 50)) as (screen, app):
        assert screen.panel.table.beyond() == (0, 0)
        assert not [line for line in rows(app) if line.rstrip().endswith("← →")]


async def test_the_tabs_are_those_of_a_job_before_it_is_read(monkeypatch):
    monkeypatch.setattr(JobScreen, "_read", lambda self: None)
    app = NpuTui(job=JobScreen(Path("job")))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        line = next(line for line in rows(app) if "1 Findings" in line)
        assert "2 Ranks" in line
        assert "Code lines" not in "\n".join(rows(app))


async def test_a_job_is_not_judged_before_its_traces_are_read_and_without_them_says_so():
    even = Examined(simulated(8, lambda rank, step, call: MS, calls=4, layout=Layout(1, 1, 8, 8)))
    async with overview(even) as (screen, app):
        assert "cause not known: rank 7" in rows(app)[1]
        assert "do not tell who is waited for" in rows(app)[2]
        screen.show(even, False)
        await Driver(app, None).idle()
        assert rows(app)[1].strip() == say("job.verdict.reading")
        assert "stands out" not in "\n".join(rows(app))


async def test_the_head_says_where_the_path_of_the_job_is_once_it_is_known():
    screen = JobScreen(Path("fixtures") / "two_ranks", cached=False)
    app = NpuTui(job=screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: screen.view is not None and screen.view.path is not None)
        await pilot.pause()
        assert any("path is on rank 1 for 97.9% of the step" in row for row in rows(app))
        screen.say_again()
        await pilot.pause()
        assert any("path is on rank 1 for 97.9% of the step" in row for row in rows(app))
