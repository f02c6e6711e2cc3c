"""Every place that shows a number shows the one of the JSON report: headline, bars, strip, tabs, findings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO
from typing import Any

import msgspec
import pytest
from claims import contradictions
from measured import path_of
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text
from written import fields_of

from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.measured import MeasuredSide
from npu_tui.jobs.opening import open_job
from npu_tui.jobs.tables import RANKS
from npu_tui.load.load import Opening
from npu_tui.output.compare_report import compared
from npu_tui.output.envelope import json_bytes
from npu_tui.output.job_report import job_report
from npu_tui.output.report import overlap_part, report
from npu_tui.output.report_document import report_document
from npu_tui.output.report_schema import Report
from npu_tui.output.statement import profile_statement, written_document
from npu_tui.profile.columns import base_of
from npu_tui.profile.finding_tables import FINDINGS
from npu_tui.profile.profile import Profile
from npu_tui.rules.ladder import SUMMING_UP, is_work
from npu_tui.rules.late_ranks import late
from npu_tui.rules.model import Findings
from npu_tui.strings import say, words
from npu_tui.trace.model import HOST_TO_DEVICE
from npu_tui.trace.text import change_text, duration_text, memory_text
from npu_tui.tui.head import device_line, headline, measure, step_line
from npu_tui.tui.heads import ComparedHead, JobHead
from npu_tui.tui.job_overview import Examined, Overview
from npu_tui.tui.job_tables import job_table
from npu_tui.tui.ranks import compared_session
from npu_tui.tui.session import NO_HITS, Session, make_session
from npu_tui.tui.tabs.details import details
from npu_tui.tui.tabs.device import bubbles, communication, operators
from npu_tui.tui.tabs.findings import changes, findings, findings_worth_a_look
from npu_tui.tui.tabs.lines import lines
from npu_tui.tui.tabs.links import links
from npu_tui.tui.tabs.memory import memory
from npu_tui.tui.tabs.range import range_table
from npu_tui.tui.tabs.table import Context, TabTable
from npu_tui.view.grid import Grid
from npu_tui.view.links import LinkIndex, StripCount, draw_strip
from npu_tui.view.palette import Ink
from npu_tui.view.scene import Selected
from npu_tui.view.viewport import Viewport

BUNDLED = (
    "communication_bound", "healthy", "dispatch_bound", "clock_offset", "kineto", "interrupted",
    "mindspore", "newest_torch_npu", "msprof_two_devices", "older_chip", "two_ranks/rank0_ascend_pt", "level0",
)  # fmt: skip
REAL = (
    "gpu/gaunernst_bert-small-uncased__1016001.json.gz", "single_card",
    "text/level1/rank1_ascend_pt", "text/level0/rank0_ascend_pt",
    "db/level0/rank1_ascend_pt", "db/level1/rank0_ascend_pt",
)  # fmt: skip
"""Of two neighbours the second one is asked under NPU_TUI_ALL only: what it has, others here have as well."""
pytestmark = pytest.mark.few((len(BUNDLED) + len(REAL)) // 2)


@dataclass(frozen=True)
class Shown:
    """A profile on screen, and its JSON report."""

    session: Session
    report: dict[str, Any]

    @property
    def profile(self) -> Profile:
        return self.session.profiles[0]

    @property
    def found(self) -> Findings:
        return self.session.findings[0]

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The dispatch of every device with launches."""
        said = self.report["dispatch"]
        return [each for each in (said if isinstance(said, list) else [said]) if each and each["links"]]

    def looked_at(self, marked: tuple[int, int] | None = None) -> Context:
        return Context(self.session, None, marked, None, HOST_TO_DEVICE, NO_HITS, 0)


@pytest.fixture(scope="module", params=(*BUNDLED, *REAL))
def shown(request: pytest.FixtureRequest) -> Shown:
    opening = Opening(path_of(request.param), cached=False)
    profile = Profile(opening.trace(), opening.source)
    session = make_session([profile])
    session.learn(0, profile.findings)
    return Shown(session, fields_of(json_bytes(report(profile))))


def times(us: float) -> set[str]:
    """A time of the report as the screen writes it; the report has it to the nanosecond, the screen may know more."""
    return {duration_text(us * 1000 + rounding) for rounding in (-0.5, 0, 0.5)}


def tells(said: str, us: float) -> bool:
    """Whether ``said`` has the time ``us`` of the report."""
    return any(time in said for time in times(us))


def strip(shown: Shown) -> StripCount:
    """The counts of the strip with all links in view."""
    scene = shown.session.scene
    index = LinkIndex(scene.traces[0], scene.link_classes[0], HOST_TO_DEVICE)
    first, last = int(index.target.min()), int(index.target.max()) + 1
    column = (last - first) // 90 + 1
    view = Viewport.around(first, last + 2 * column, 100)
    return draw_strip(Grid.blank(1, 100, Ink.TEXT, Ink.LANE), index, view)


def test_the_headline_has_the_chip_and_the_steps_that_findings_judge(shown: Shown) -> None:
    shown.session.findings[0] = shown.profile.findings
    said = " ".join(part[0].plain for part in headline(shown.session, 0, False))
    for facts in shown.profile.facts[:1]:
        if facts.step_ns:
            assert duration_text(facts.step_ns) in said
    assert (shown.profile.setup.chip or "") in said
    assert "came too late" not in said


def test_shares_of_the_device_are_those_of_the_report(shown: Shown) -> None:
    told, found = shown.report["overlap"], measure(shown.profile)
    if not told["total_us"] or len(found.devices) > 1:
        return
    line = device_line(found, 0, 0)
    head = " ".join(part[0].plain for part in headline(shown.session, 0, True))
    assert line is not None
    for part, key in (("compute", "computing"), ("exposed", "communication_not_overlapped"), ("free", "free")):
        share = f"{told[f'{key}_ratio']:.1%}"
        assert say(f"bars.{part}", share=share) in line.plain
        assert say(f"header.{part}", share=share) in head
    assert tells(line.plain, told["total_us"])


def test_shares_of_a_step_are_those_of_its_device_time(shown: Shown) -> None:
    """One denominator in all lines: of a trace with one step the bar says what the report says."""
    found, trace = measure(shown.profile), shown.profile.trace
    if len(found.devices) != 1:
        return
    for number, step in enumerate(shown.report["steps"]):
        line = step_line(trace, found, number, 0, 4000)
        if line is None:
            continue
        item = found.steps[number].item
        length = int(trace.slices.end[item] - trace.slices.start[item])
        parts = {
            "prep": step["preparing_us"] or 0,
            "compute": step["computing_us"],
            "exposed": step["communication_not_overlapped_us"],
            "free": step["free_us"],
        }
        # A GPU copies beside nothing else: no column of its own, but part of the time of the device.
        parts["copies"] = max(round((step["stage_us"] or 0) - sum(parts.values()) + parts["prep"], 3), 0)
        busy = 1000 * (sum(parts.values()) - parts["prep"])
        whole = max(length, busy + 1000 * parts["prep"])
        assert line.plain.startswith(step["name"])
        assert duration_text(length) in line.plain
        for part, value in parts.items():
            if 1000 * value > 0.01 * whole:
                share = f"{1000 * value / busy:.1%}"
                assert any(
                    say(f"bars.{part}", share=share, time=time) in line.plain
                    for time in (1000 * value + rounding for rounding in (-0.5, 0, 0.5))
                )


def test_the_strip_counts_lines_where_the_headline_counts_launches(shown: Shown) -> None:
    """A launch of several slices has as many lines; near-vertical or starved it is once."""
    links = next((each for each in shown.report["links"] if each["category"] == HOST_TO_DEVICE), None)
    if not shown.devices:
        return
    count = strip(shown)
    assert links is None or count.links == links["targets"]  # a GPU has its launches under another name
    assert count.near == sum(device["near_vertical"] for device in shown.devices)
    assert count.starved == sum(device["starved"] for device in shown.devices)


def test_the_range_of_everything_is_the_report(shown: Shown) -> None:
    content, told = range_table(shown.looked_at()), shown.report["overlap"]
    if not isinstance(content, TabTable):
        return
    for device in shown.devices:
        lost = [
            say(
                "range.launches",
                lost=lost,
                starved=device["starved"],
                near=device["near_vertical"],
                shallow=device["shallow"],
                queued=device["queued"],
            )
            for lost in times(device["lost_us"])
        ]
        assert any(line in content.note for line in lost)
    if told["total_us"] and len(shown.profile.overlaps) == 1:
        assert say("header.free", share=f"{told['free_ratio']:.1%}") in content.note
        assert tells(content.note, told["free_us"])


def test_code_lines_add_up_to_the_lost_time(shown: Shown) -> None:
    content = lines(replace(shown.looked_at(), turn=1))  # where the code is at hand, it comes first
    lost = sum(device["lost_us"] for device in shown.devices)
    if not isinstance(content, TabTable):
        assert lost < 0.001
        return
    base = base_of(shown.profile.facts)
    assert say("lines.total", lost=base.of_one(1000 * lost)) in content.note
    told = sorted(
        (each for device in shown.devices for each in device["code_lines"]), key=lambda each: -each["lost_us"]
    )
    for row, each in zip(content.rows, told, strict=True):
        assert str(row.cells[0]) in times(each["lost_us"] / base.count)
        assert row.values[2] == each["launches"]


def test_details_tell_one_loss_of_a_launch(shown: Shown) -> None:
    trace, console = shown.profile.trace, Console(width=200, file=StringIO())
    for device in shown.profile.dispatch:
        if not len(device.link):
            continue
        at = int(device.lost.argmax())
        now = replace(shown.looked_at(), selection=Selected(0, int(trace.links.target_slice[device.link[at]])))
        with console.capture() as printed:
            console.print(details(now))
        told = " ".join(printed.get().split())
        assert f"{say('details.lost')} {duration_text(int(device.lost[at]))}" in told
        assert say("column.its_wait") not in told


def test_links_of_a_wait_lead_to_the_record_of_its_event(shown: Shown) -> None:
    waits, records = shown.profile.event_pairs
    for item, other in [*zip(waits.tolist(), records.tolist(), strict=True)][:3]:
        for one, leads_to in ((item, other), (other, item)):
            content = links(replace(shown.looked_at(), selection=Selected(0, one)))
            assert isinstance(content, TabTable)
            assert Selected(0, leads_to) in [place for row in content.rows for place in row.places]


def test_bubbles_add_up_to_free(shown: Shown) -> None:
    content, told = bubbles(shown.looked_at()), shown.report["overlap"]
    if isinstance(content, TabTable) and len(shown.profile.overlaps) == 1:
        assert tells(content.note, told["free_us"])
        assert tells(content.note, told["free_host_late_us"] or 0)


def test_operators_are_those_of_the_report(shown: Shown) -> None:
    content, told = operators(shown.looked_at()), shown.report["operators"]
    if not isinstance(content, TabTable):
        assert not told
        return
    count, total = f"{sum(each['count'] for each in told):,}", sum(each["total_us"] for each in told)
    assert any(say("operators.total", count=count, total=time) in content.note for time in times(total))


def test_collectives_are_those_of_the_report(shown: Shown) -> None:
    content, told = communication(shown.looked_at()), shown.report["communication"]
    if not isinstance(content, TabTable):
        assert not told
        return
    assert len(content.rows) == len(told)
    assert tells(content.note, sum(each["elapsed_us"] for each in told))


def test_findings_stand_in_one_order_under_one_number(shown: Shown) -> None:
    content, told = findings(shown.looked_at()), shown.report["findings"]
    told = [each for each in told if each["id"] not in SUMMING_UP]
    if not isinstance(content, TabTable):
        assert not told
        return
    for number, (row, each) in enumerate(zip(content.rows, told, strict=True), 1):
        cells = [str(cell) for cell in row.cells]
        assert cells[0] == str(number)
        gain = each["gain_us"]
        saved = dict(zip(content.headings, cells, strict=True)).get(
            say("column.gain.per", unit=say(f"finding.unit.{each['per']}")), ""
        )
        after, _, figure = saved.rpartition(": ")
        assert bool(after) == (each["gain_after"] > 0)
        assert not after or after.endswith(str(each["gain_after"]))
        assert figure in ({""} if gain is None else times(gain) if gain else {say("findings.frees_nothing")})
        assert cells[-1].strip().startswith(each["title"])
        assert len(row.places) == len(each["evidence"])
        if each["part_of"] is not None:
            whole = 1 + [other["id"] for other in told].index(each["part_of"])
            assert cells[-1] == "  " + say("findings.part", title=each["title"], number=whole)
            if row.minor:
                assert {cell.style for cell in row.cells if isinstance(cell, Text)} == {"dim"}
    # What is only noted stands last, so that a finding has the same number in a report, which tells it apart.
    minor = [row.minor for row in content.rows]
    assert minor == sorted(minor)
    assert findings_worth_a_look(shown.looked_at()) == minor.count(False)
    full = [each.id for each in msgspec.convert(told, list[FINDINGS.row]) if is_work(each)]
    assert [each["id"] for each, noted in zip(told, minor, strict=True) if not noted] == full


def test_no_format_contradicts_another_and_no_sentence_its_figures(shown: Shown) -> None:
    assert contradictions(shown.profile, msgspec.convert(shown.report, Report)) == []


def test_the_verdict_is_that_of_the_report(shown: Shown) -> None:
    assert [words(line) for line in shown.found.verdict] == shown.report["verdict"]


_TIME = r"[\d.,]+ (?:ns|µs|ms|s)"


def test_a_time_with_a_share_in_the_verdict_stands_in_its_finding_too(shown: Shown) -> None:
    """A verdict never says 17.45 ms (38.7%) where its finding says 31.35 ms (69.5%), unless it says that it is part."""
    leading = [each for each in shown.report["findings"] if each["step_after_us"] is not None]
    for said, finding in zip(shown.report["verdict"], leading, strict=False):
        for figure in re.findall(rf"{_TIME} \([\d.]+%\)", said):
            time = figure.partition(" (")[0]
            assert time in f"{finding['title']} {finding['detail']}" or "another" in said, said


def test_the_parts_of_a_collective_add_up_to_its_elapsed_time(shown: Shown) -> None:
    content = communication(shown.looked_at())
    if not isinstance(content, TabTable):
        return
    headings = ("elapsed", "wait", "transit", "idle")
    if say("column.wait") not in content.headings:
        return
    elapsed, *parts = (content.headings.index(say(f"column.{heading}")) for heading in headings)
    for row in content.rows:
        values = [row.values[at] for at in parts]
        assert None in values or sum(values) == pytest.approx(row.values[elapsed], abs=2)


def test_markdown_has_the_id_and_the_gain_of_every_finding(shown: Shown) -> None:
    part = msgspec.convert(shown.report, Report)
    lines = written_document(report_document(part), "markdown", 500).splitlines()
    for each in shown.report["findings"]:
        told = [line for line in lines if each["id"] in line and line.startswith(("<sub>", "- `"))]
        assert told
        if each["gain_us"]:
            saving = [f"saves {time}" for time in times(each["gain_us"])]
            assert any(words in line for line in told for words in saving), each["id"]


def _screen_and_report_agree(view: Overview) -> None:
    """The head and the table of ranks have the verdict and the figures of the report."""
    said = fields_of(json_bytes(job_report(view.job)))
    assert said["verdict"][0] in " ".join(line.plain for line in JobHead.verdict_lines(view, 120, False))
    ranks, rows = job_table(view, "job_ranks"), {row["rank"]: row for row in said["rank_table"]}
    assert isinstance(ranks, TabTable)
    headings = {field.column.id: field.heading() for field in RANKS.panel}
    for row in ranks.rows:
        told = dict(zip(ranks.headings, row.values, strict=True))
        reported = rows.get(told["rank"], {})
        for id_ in ("step", "computing", "free") if reported else ():
            assert told[headings[id_]] == pytest.approx(reported[f"{id_}_us"]), told
        if reported:
            gain = reported["gain_us"]
            assert told[headings["gain_each"]] == (gain and pytest.approx(gain / max(len(view.job.steps), 1)))


@pytest.mark.parametrize("job", ["two_ranks", "job4"])
def test_the_screen_of_a_job_has_the_verdict_and_the_figures_of_its_report(job: str) -> None:
    _screen_and_report_agree(Overview(Examined(open_job(path_of(job)))))


def _opened(name: str) -> Profile:
    opening = Opening(path_of(name), cached=False)
    return Profile(opening.trace(), opening.source)


@pytest.mark.parametrize(
    "names", [("healthy", "dispatch_bound"), ("text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt")], ids=str
)
def test_the_screen_of_a_comparison_has_the_figures_of_its_report(names: tuple[str, str]) -> None:
    session = compared_session(lambda both: ProfileComparison(*map(MeasuredSide, both)), [*map(_opened, names)])
    picture = session.picture
    assert picture is not None
    said, head = fields_of(json_bytes(compared(picture.comparison, single=False))), ComparedHead(picture)
    verdict, parts = head._verdict(400).plain, head._parts(400).plain
    assert change_text(said["step"]["delta_us"] * 1000) in verdict
    assert sum(part["delta_us"] or 0 for part in said["parts"]) == pytest.approx(said["step"]["delta_us"], abs=0.01)
    assert all(change_text(part["delta_us"] * 1000) in parts for part in said["parts"] if part["delta_us"])
    looked_at = Context(session, None, None, None, HOST_TO_DEVICE, NO_HITS, 0)
    content = changes(looked_at)
    assert isinstance(content, TabTable)
    assert all(change.id in row.told() for row, change in zip(content.rows, picture.changes, strict=False) if row.told)
    shown = [row.values[1] for row in content.rows if row.values[0] is not None and row.values[1] is not None]
    told = [each["delta_us"] * 1000 for each in said["findings"] if each["delta_us"] is not None]
    assert shown
    assert all(any(abs(each - other) < 1 for other in told) for each in shown)
    titles = [change.title for change in picture.changes if "kernel" in change.title.args]
    for title in titles:  # figures follow the name of a kernel, which may be as long as that of a C++ template
        title.args["kernel"] = "void at::native::elementwise_kernel<" * 9
    cells = [str(row.values[-1]) for row in changes(looked_at).rows if "elementwise" in str(row.values[-1])]  # type: ignore[union-attr]
    assert len(cells) == len(titles)
    assert titles or names[0] != "healthy"
    assert all(len(cell) < 160 for cell in cells)


def test_the_tab_of_memory_has_the_verdict_and_the_peak_of_the_report() -> None:
    opening = Opening(path_of("memory/snapshot_with_empty_cache.pkl"), cached=False)
    profile = Profile(opening.trace(), opening.source)
    said = profile_statement(profile)
    assert [words(line) for line in profile.findings.verdict] == list(said.verdict)
    shown = memory(Context(make_session([profile]), None, None, None, HOST_TO_DEVICE, NO_HITS, 0))
    [device] = fields_of(json_bytes(said.data))["devices"]
    assert isinstance(shown, TabTable)
    assert memory_text(device["peak_requested_bytes"]) in shown.note


def test_a_job_says_of_a_late_rank_no_more_than_its_ranks_wait() -> None:
    """What hides behind computing makes nothing longer; both surfaces leave it out."""
    folder = path_of("text/level1")
    view = Overview(Examined(open_job(folder)))
    _screen_and_report_agree(view)
    job = view.report
    row = next(finding for finding in job.findings if finding.id == "RANK.SLOW")
    waits = []
    profiles = [_opened(f"text/level1/{rank}_ascend_pt") for rank in ("rank0", "rank1")]
    for profile in profiles:
        lateness = late(profile.facts[0])
        assert lateness is not None
        waits.append(int((lateness.span[1] - lateness.span[0]).sum()) / 1000)
    assert row.gain_us == pytest.approx(max(waits), rel=0.001)
    assert duration_text(row.gain_us * 1000) in row.title
    table = {each.rank: each for each in job.rank_table}
    assert table[0].step_us == pytest.approx(overlap_part(profiles[0]).total_us)
