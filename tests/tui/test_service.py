"""An inference service in the explorer: from a slow request to its batches, to the engine on the NPU, and back."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from driving import opened

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service import MS, Service, serve
from service_causes import write_service
from service_writer import Folder
from snapshot import write_snapshot

from npu_tui.load.load import opening_of
from npu_tui.nearby import with_profile_beside
from npu_tui.output.statement import profile_statement
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.strings import words as words_of
from npu_tui.trace.model import Trace
from npu_tui.trace.service import Pass
from npu_tui.tui.footer import StatusLine
from npu_tui.tui.loading import Ended, Loader
from npu_tui.tui.ranks import across, met
from npu_tui.tui.session import Session, make_session
from npu_tui.view.scene import Selected

STEPS = 6


def write_npu(folder: Path, trace: Trace, late_ns: int = 0, process: str = "") -> None:
    """The NPU profile of the first batches of a service: a step of vLLM, an operation and two kernels in each.

    ``late_ns`` is how much its clock is ahead; with ``process`` it is that of the worker of this number alone.
    """
    batches = trace.service.batches  # type: ignore[union-attr]
    mine = [trace.service.text(code).endswith(process) for code in batches.process.tolist()]  # type: ignore[union-attr]
    rows = np.flatnonzero((batches.passes == Pass.execute) & mine)[:STEPS].tolist()
    host = int(process or 1)
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((host, "Python"), (2, "Ascend Hardware"))
    ]
    events += [{"ph": "M", "name": "process_labels", "pid": 2, "args": {"labels": "NPU 0"}}]
    for number, row in enumerate(rows):
        start, end = int(batches.start[row]) + late_ns, int(batches.end[row]) + late_ns
        size, tokens = int(batches.size[row]), int(batches.tokens[row])

        def at(share: float, begin: int = start, length: int = end - start) -> str:
            time = begin + round(share * length)
            return f"{time // 1000}.{time % 1000:03d}"

        length = (end - start) / 1000
        name = f"execute_context_0(0)_generation_{size}({tokens})"
        events += [
            {"ph": "X", "name": name, "pid": host, "tid": 7, "ts": at(0.1), "dur": 0.5 * length, "cat": "cpu_op"},
            {"ph": "X", "name": "aten::mm", "pid": host, "tid": 7, "ts": at(0.2), "dur": 0.1 * length, "cat": "cpu_op"},
        ]
        for kernel, share in enumerate((0.4, 0.6)):
            link = {"name": "HostToDevice", "cat": "HostToDevice", "id": str(2 * number + kernel)}
            task = {"Task Type": "AI_CORE", "Stream Id": 3}
            events += [
                {
                    "ph": "X",
                    "name": f"MatMul_{kernel}",
                    "pid": 2,
                    "tid": 3,
                    "ts": at(share),
                    "dur": 0.1 * length,
                    "args": task,
                },
                {"ph": "s", "pid": host, "tid": 7, "ts": at(0.2 + 0.05 * kernel), **link},
                {"ph": "f", "bp": "e", "pid": 2, "tid": 3, "ts": at(share), **link},
            ]
    output = folder / f"host_{host}_20260302_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output / "trace_view.json").write_text(json.dumps(events))


def session_of(folder: Path, late_ns: int = 0) -> Session:
    """A service in ``folder`` with the NPU profile beside it, as the explorer opens them."""
    (folder / "out").mkdir()
    write_service(folder / "out", "healthy", requests=12)
    write_npu(folder, opening_of(folder / "out", cached=False).trace(), late_ns)
    openings = with_profile_beside([opening_of(folder / "out", cached=False)])
    profiles = [Profile(opening.trace(), opening.source) for opening in openings]
    return make_session(met(profiles, [opening.optional for opening in openings]))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Both on one clock."""
    return session_of(tmp_path_factory.mktemp("run"))


def place(driver: object) -> tuple[int, str]:
    """The trace and the name of the selected slice."""
    selected = driver.state.selection  # type: ignore[attr-defined]
    scene = driver.explorer.scene  # type: ignore[attr-defined]
    return selected.trace, scene.traces[selected.trace].name_of(selected.item)


async def test_from_a_request_to_its_kernels_and_back(session: Session) -> None:
    """The keys of links lead from a request to its batches, the engine step, its kernels, and all the way back."""
    service, npu = session.scene.traces
    assert session.scene.offsets[1] - session.scene.offsets[0] == npu.start_ns - service.start_ns
    names = np.array(service.names)[service.slices.name]
    categories = np.array(service.categories)[service.slices.category]
    prefill = int(np.flatnonzero((names == "cmpl-000000") & (categories == "prefill"))[0])
    async with opened(session) as driver:
        assert "2 requests" in driver.rows()[-1]
        driver.explorer.select(Selected(0, prefill))
        await driver.press("]")
        assert place(driver)[1] == "prefill 1"
        batch = driver.state.selection
        await driver.press("]")
        assert place(driver) == (1, "execute_context_0(0)_generation_1(" + str(tokens_of(service, batch.item)) + ")")
        assert " on B, at the same time" in str(driver.main.query_one(StatusLine).render())
        await driver.press("]")
        assert place(driver) == (1, "MatMul_0")
        await driver.press("[")
        assert place(driver) == (1, "aten::mm")
        await driver.press("[")
        assert place(driver)[1].startswith("execute_context_0(0)_generation_1(")
        await driver.press("[")
        assert driver.state.selection == batch
        await driver.press("[")
        assert place(driver) == (0, "cmpl-000000")


def tokens_of(trace: Trace, item: int) -> int:
    """The tokens of the batch that is slice ``item``."""
    return int(trace.args.one(int(trace.slices.event[item]))["tokens"])


async def test_through_the_batches_of_one_request(session: Session) -> None:
    """``)`` goes through the batches of the request that the user came from, though others share them."""
    service = session.scene.traces[0]
    members = service.service.members  # type: ignore[union-attr]
    names = np.array(service.names)[service.slices.name]
    categories = np.array(service.categories)[service.slices.category]
    wanted = "cmpl-000003"
    decode = int(np.flatnonzero((names == wanted) & (categories == "decode"))[0])
    code = service.service.rids.index(wanted)  # type: ignore[union-attr]
    async with opened(session) as driver:
        driver.explorer.select(Selected(0, decode))
        driver.timeline.changed()
        await driver.settle()
        assert " · from prefill " in str(
            driver.main.query_one(StatusLine).render()
        )  # both have the name of the request
        await driver.press("]")
        await driver.settle()
        assert f" · from {wanted} " in str(driver.main.query_one(StatusLine).render())
        for _ in range(4):
            args = service.args.one(int(service.slices.event[driver.state.selection.item]))
            start = service.slices.start[driver.state.selection.item] + service.start_ns
            rows = np.flatnonzero(service.service.batches.start == start)  # type: ignore[union-attr]
            assert args["passes"] == "execute"
            assert any(code in members.rid[members.offset[row] : members.offset[row + 1]] for row in rows)
            await driver.press(")")
        await driver.press("[")
        assert place(driver) == (0, wanted)
        driver.explorer.select(Selected(0, int(np.flatnonzero(names == "decode 1")[-1])))
        await driver.press("]")
        assert "no NPU profile here covers this time" in str(driver.main.query_one(StatusLine).render())


async def test_the_list_of_requests_leads_to_one(session: Session) -> None:
    """``#`` lists the requests, the slowest first, and Enter goes to it."""
    requests = session.scene.traces[0].service.requests  # type: ignore[union-attr]
    slowest = session.scene.traces[0].service.rids[requests.rid[int(requests.execution.argmax())]]  # type: ignore[union-attr]
    async with opened(session) as driver:
        await driver.press("#")
        assert "12 requests" in driver.text()
        rows = [line for line in driver.text().splitlines() if "cmpl-" in line and " s " in line]
        assert slowest in rows[0]
        await driver.press("\t", "\r")
        assert place(driver) == (0, slowest)
        await driver.press("]", "]")
        service = session.scene.traces[0]
        assert service.layer_of(int(service.slices.lane[driver.state.selection.item])).name == "Engine DP 0"


def test_each_engine_leads_to_its_own_rank(tmp_path: Path) -> None:
    """Two engines that work at the same time: the process of a batch tells which rank ran it, and the other way."""
    (tmp_path / "out").mkdir()
    Folder(serve(Service(requests=24, gap=20 * MS, shares=(1, 1)))).write(tmp_path / "out")
    service = opening_of(tmp_path / "out", cached=False).trace()
    for rank, process in enumerate(("4000", "4100")):
        write_npu(tmp_path, service, process=process)
        info = tmp_path / f"host_{process}_20260302_ascend_pt" / f"profiler_info_{rank}.json"
        info.write_text(json.dumps({"config": {}, "rank_id": rank}))
    openings = with_profile_beside([opening_of(tmp_path / "out", cached=False)])
    session = make_session([Profile(opening.trace(), opening.source) for opening in openings])
    assert [trace.rank for trace in session.scene.traces] == [None, 0, 1]
    for number, name in enumerate(("Engine DP 0", "Engine DP 1"), 1):
        trace = session.scene.traces[0]
        lane = next(lane for lane in trace.lanes if lane.name == "execute" and trace.layers[lane.layer].name == name)
        batch = Selected(0, lane.first + 2)
        step = across(session, batch, onward=True)
        assert step is not None
        assert step.trace == number
        assert across(session, step, onward=False) == batch


def test_a_profile_of_another_time_is_not_drawn(tmp_path: Path) -> None:
    """What was found beside the service is left out, and that is said; what a user names is drawn."""

    session = session_of(tmp_path, late_ns=8 * 3_600_000_000_000)
    (warning,) = session.scene.traces[0].health.warnings
    assert warning.code == "odd.service_apart"
    assert words_of(warning).startswith("not shown: host_1_20260302_ascend_pt, recorded 20")  # before what may be cut
    assert len(session.scene.traces) == len(session.profiles) == 1
    service = session.scene.traces[0]
    executed = next(lane for lane in service.lanes if lane.name == "execute")
    assert across(session, Selected(0, executed.first), onward=True) is None
    openings = with_profile_beside([opening_of(tmp_path / "out", cached=False)])
    loaded = Loader([opening_of(tmp_path / "out", cached=False)])
    loaded.start()
    while loaded.is_busy:
        time.sleep(0.01)
    assert isinstance(loaded.news, Ended)
    assert isinstance(loaded.news.result, Session)
    assert len(loaded.news.result.scene.traces) == 1
    named = [Profile(opening.trace(), opening.source) for opening in openings]
    assert len(met(named, [False] * len(named))) == len(named) == 2


def test_dates_of_an_unknown_zone_are_placed_by_the_npu(tmp_path: Path) -> None:
    """Dates alone, recorded in UTC: taken for UTC+8, until an NPU profile of the same moment lies beside."""
    (tmp_path / "out").mkdir()
    write_service(tmp_path / "out", "healthy", requests=12)
    trace = opening_of(tmp_path / "out", cached=False).trace()
    write_npu(tmp_path, trace, late_ns=8 * 3_600_000_000_000)
    for file in (tmp_path / "out").glob("*.csv"):  # an old version: no columns of ms
        rows = [row.split(",") for row in file.read_text().splitlines()]
        if file.name != "request.csv":
            file.unlink()
            continue
        left = [at for at, heading in enumerate(rows[0]) if heading != "start_time(ms)"]
        file.write_text("".join(",".join(row[at] for at in left) + "\n" for row in rows))
    alone = opening_of(tmp_path / "out", cached=False).trace()
    assert alone.start_ns == trace.start_ns
    assert [warning.code for warning in alone.health.warnings] == ["odd.service_clock.assumed"]
    openings = with_profile_beside([opening_of(tmp_path / "out", cached=False)])
    profiles = [Profile(opening.trace(), opening.source) for opening in openings]
    assert len(met(profiles, [opening.optional for opening in openings])) == len(profiles)
    first = profiles[0].trace
    assert first.start_ns == trace.start_ns + 8 * 3_600_000_000_000
    assert first.service.requests.start[0] == first.start_ns  # type: ignore[union-attr]
    assert [warning.code for warning in first.health.warnings] == ["odd.service_clock.device"]


async def test_hints_tabs_and_the_summary_are_those_of_what_is_open(session: Session, tmp_path: Path) -> None:
    """Nothing starves a service or a snapshot, and they have no kernels: no zero is told of these."""
    snapshot = tmp_path / "leak.pkl"
    write_snapshot(snapshot, "leak")
    opening = opening_of(snapshot, cached=False)
    service = make_session(session.profiles[:1])
    of_service = {"2 Req": "req", "4 Bat": "execute", "6 Eng": "decode", "7 KV": "used"}
    of_snapshot = {"2 Hol": "train.py", "4 Ev": "alloc"}
    for opened_session, words, told, tabs, without in (
        (service, "2 requests", "execute decode", of_service, "IT9x>"),
        (make_session([Profile(opening.trace(), None)]), "2 holders", "leak.pkl", of_snapshot, "IT679x"),
    ):
        async with opened(opened_session, (80, 24)) as driver:
            hints = driver.rows()[-1]
            shown = opened_session.profiles[0]
            assert [words_of(line) for line in shown.findings.verdict] == list(profile_statement(shown).verdict)
            assert words in hints
            assert "starved" not in hints
            assert not driver.panel.is_shown  # a low screen has the lanes, or the memory by holder, alone
            for key in without:
                await driver.press(key)
                await driver.settle()
                assert "no kernels" in driver.text() + driver.rows()[-1], key
            for tab, holds in tabs.items():
                await driver.press(tab[0])
                await driver.settle()
                assert tab in driver.text()
                assert holds in driver.text()
                assert not any(f"{key} Code" in driver.text() for key in "267")
            await driver.press("?")
            help_ = "\n".join(driver.rows())
            assert "starved" not in help_
            assert "python frame" not in help_
            assert "no kernels" not in help_
            assert "code lines" not in help_
            await driver.press("escape")
            await driver.press("r")
            await driver.settle()
            assert "kernel_details.csv" not in driver.text()
            assert told in driver.text()


async def test_a_service_has_a_film_of_its_requests(tmp_path: Path) -> None:
    """Its figure is that of the finding to the ns, and each state of a request ends where the next one begins."""
    write_service(tmp_path, "kv", requests=80)
    async with opened(make_session([Profile(opening_of(tmp_path, cached=False).trace())])) as driver:
        await driver.settle()
        await driver.press("!")
        for _ in range(500):
            await driver.pilot.pause(0.02)
            if driver.main.session.film is not None:
                break
        await driver.settle()
        film = driver.main.session.film
        assert film is not None
        first = film.profile.findings.findings[0]
        assert (film.rungs[0].text, round(film.rungs[0].length)) == (first.id, first.step_after_ns)
        trace = film.played[0].trace
        slices, code = trace.slices, trace.categories.index
        queued, prefill, decode = (
            np.flatnonzero(slices.category == code(name)) for name in ("queued", "prefill", "decode")
        )
        own = [rows[np.argsort(slices.name[rows])] for rows in (queued, prefill, decode)]
        assert [len(rows) for rows in own] == [len(trace.service.requests)] * 3
        assert np.array_equal(slices.end[own[0]], slices.start[own[1]])
        assert np.array_equal(slices.end[own[1]], slices.start[own[2]])
        assert (slices.end >= slices.start).all()
        ttft = slices.end[own[1]] - slices.start[own[0]]
        assert round(float(np.percentile(ttft, 99))) == first.step_after_ns
        assert len(slices) == 3 * len(trace.service.requests), "no batch is drawn that was not replayed"
        for size in ((80, 24), (120, 40), (200, 50)):
            await driver.pilot.resize_terminal(*size)
            await driver.settle()
            shown = driver.text()
            assert say("film.title", causes=film.rungs[0].name)[:30] in shown, size
            assert "TTFT p99" in shown, size
        await driver.press("!")
        await driver.settle()
        assert driver.main.session.film is None


async def test_views_of_kernels_and_films_say_what_a_service_has_instead(tmp_path: Path) -> None:
    write_service(tmp_path, "healthy", requests=20)
    async with opened(make_session([Profile(opening_of(tmp_path, cached=False).trace())])) as driver:
        await driver.settle()
        await driver.send(":why is the NPU idle\r")
        await driver.settle()
        assert say("lines.service")[:40] in driver.rows()[-1]
        assert driver.main.contents.lines.view == "lines", "the tab of requests stays what it is"
        await driver.press("!")
        for _ in range(500):
            await driver.pilot.pause(0.02)
            if driver.main.is_settled:
                break
        await driver.settle()
        assert say("film.service")[:60] in driver.rows()[-1]


async def test_batches_are_counted_as_steps_of_engines(session: Session) -> None:
    """The schedule of a batch and its execution are two rows of it, on screen as in a report."""
    profile = session.profiles[0]
    found = profile.judged.found  # type: ignore[union-attr]
    batches, rows = len(found.steps), len(profile.trace.service.batches)  # type: ignore[union-attr]
    assert 0 < batches <= rows / 2
    told = say("service.about", requests=len(profile.trace.service.requests), batches=batches, engines=1)  # type: ignore[union-attr]
    async with opened(session, (120, 40)) as driver:
        await driver.press("4")
        await driver.settle()
        text = driver.text()
        assert told in text.splitlines()[0]
        assert say("service.batches.note", count=rows, batches=batches).split("   ")[0] in text
    assert told in str(profile_statement(profile).written("text"))
