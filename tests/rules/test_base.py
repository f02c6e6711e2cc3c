"""Titles and verdicts say what a step loses, or whatever the run repeats; sums over all of them stand in details."""

from __future__ import annotations

import re

import pytest
from jobs import measured
from measured import session_of
from troubled import TROUBLED

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.profile.columns import base_of
from npu_tui.profile.scene import finding_marks
from npu_tui.profile.table import declared_tables
from npu_tui.rules.ladder import is_work
from npu_tui.strings import LANGUAGES, speaking, texts_of, words
from npu_tui.trace.message import Message
from npu_tui.tui.session import NO_HITS
from npu_tui.tui.tabs.findings import findings
from npu_tui.tui.tabs.table import Context, TabTable

TOLD = re.compile(r"finding\.\w+\.(?:\w+_)?(?:title|verdict)\b")
PLACES = re.compile(r"\{\w+:time\}")
OF_ONE = re.compile(r"\{(?:each|unit|per)\}|per step|每个 step")
OF_SOMETHING_ELSE = {
    "finding.start": "the mean of the steps, and the name says so",
    "finding.long": "one collective",
    "finding.odd_step": "one step, which it names, and the others",
    "finding.engine_prefill": "the longest wait",
    "finding.unasked": "time in which nobody asks for anything",
}
DURATION = re.compile(r"(?<![\d.=])(\d[\d.,]*) (ns|µs|ms|s)\b")
NS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_time_in_a_title_says_of_what_it_is(language: str) -> None:
    told = {key: text for key, text in texts_of(language).items() if TOLD.match(key) and PLACES.search(text)}
    without = {key for key, text in told.items() if not OF_ONE.search(text)}
    assert {".".join(key.split(".")[:2]) for key in without} == set(OF_SOMETHING_ELSE)


def times_in(text: str) -> list[float]:
    """The durations that ``text`` tells, ns, but for moments."""
    text = re.sub(r"t=\S+ \S+ to \S+ \S+|t=\S+ \S+ 到 \S+ \S+|from \S+ \S+ to \S+ \S+", "", text)
    return [float(number.replace(",", "")) * NS[unit] for number, unit in DURATION.findall(text)]


@pytest.mark.few(12)
@pytest.mark.parametrize("name", TROUBLED)
def test_no_title_tells_more_than_a_step_takes(name: str) -> None:
    profile = measured(TROUBLED[name])
    (facts,) = profile.facts
    found = profile.findings
    said: list[Message] = [finding.title for finding in found.findings]
    said += [finding.verdict for finding in found.findings if finding.verdict is not None]
    for message in said:
        told = message.args.get("title", message)  # the line of a verdict holds the title
        if ".".join(told.code.split(".")[:2]) in OF_SOMETHING_ELSE:
            continue
        for time in times_in(words(message)):
            assert time <= 1.001 * facts.step_ns, words(message)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["slow_python", "straggler", "sorting", "compile"])
def test_every_page_has_the_titles_and_the_unit_of_gains(name: str) -> None:
    profile = measured(TROUBLED[name])
    for language in LANGUAGES:
        with speaking(language):
            unit = words(profile.facts[0].unit)
            for form in ("text", "markdown", "html"):
                page = re.sub(r"\s+", " ", written_document(report_document(report(profile)), form, 1_000))
                for finding in profile.findings.leaders:
                    assert words(finding.title) in re.sub(r"&#x27;|&#39;", "'", page).replace("&quot;", '"')
                    if finding.gain_ns:
                        assert unit in page


@pytest.mark.few(4)
@pytest.mark.parametrize("name", TROUBLED)
def test_tables_tell_what_a_step_loses_and_their_headings_say_so(name: str) -> None:
    profile = measured(TROUBLED[name])
    base = base_of(profile.facts)
    told = 0
    for table in declared_tables("npu_tui.profile"):
        for field in (*table.page, *table.panel):
            if field.name not in ("lost", "gain") or table.id in OF_A_ROW:
                continue
            sheet = table.make(profile)
            told += sheet.rows
            if sheet.rows:
                assert sheet.base == base, table.id
            assert base.words in field.heading(base)
            for every in sheet.values(field.column.id):
                share = base.count if field.column.summed else 1
                assert every is None or field.of_one(every, base) == pytest.approx(every / share)
    assert told


OF_A_ROW = ("ranges", "engine_steps")
"""Tables whose rows are times of the run themselves: what is lost there is that of the row."""


@pytest.mark.few(5)
@pytest.mark.parametrize("name", TROUBLED)
def test_findings_to_work_on_have_the_same_numbers_everywhere(name: str) -> None:
    profile = measured(TROUBLED[name])
    work = [finding for finding in profile.findings.findings if is_work(finding)]
    numbered = list(enumerate(work, 1))
    assert list(profile.findings.findings[: len(work)]) == work
    page = written_document(report_document(report(profile)), "text", 1_000)
    assert re.findall(r"^(\d+)\. ", page, re.MULTILINE) == [str(number) for number, _ in numbered]
    session = session_of(profile.trace)
    session.learn(0, profile.findings)
    content = findings(Context(session, None, None, None, "HostToDevice", NO_HITS, 0))
    rows = content.rows if isinstance(content, TabTable) else []
    walked = [(int(str(row.cells[0]).strip()), str(row.cells[-1])) for row in rows if not row.minor]
    for (number, finding), (shown, title) in zip(numbered, walked, strict=True):
        assert number == shown
        assert words(finding.title) in title
    marked = {int(mark.label) for mark in finding_marks(profile.findings.findings)}
    assert marked <= {number for number, finding in numbered if finding.step_after_ns is not None}
