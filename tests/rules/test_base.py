"""Titles and verdicts say what a step loses, or whatever the run repeats; sums over all of them stand in details."""

from __future__ import annotations

import re

import pytest
from jobs import measured
from troubled import TROUBLED

from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written
from npu_tui.strings import LANGUAGES, speaking, texts_of, words
from npu_tui.trace.message import Message

TOLD = re.compile(r"finding\.\w+\.(?:\w+_)?(?:title|verdict)\b")
PLACES = re.compile(r"\{\w+:time\}")
OF_ONE = re.compile(r"\{(?:each|unit|per)\}|per step|每个 step")
OF_SOMETHING_ELSE = {
    "finding.start": "the mean of the steps, and the name says so",
    "finding.long": "one collective",
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
        if message.code.rpartition(".title")[0] == "finding.long":
            continue  # one collective
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
                page = re.sub(r"\s+", " ", written(report_document(report(profile)), form, 1_000))
                for finding in profile.findings.leaders:
                    assert words(finding.title) in re.sub(r"&#x27;|&#39;", "'", page).replace("&quot;", '"')
                    if finding.gain_ns:
                        assert unit in page
