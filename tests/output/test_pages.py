"""Markdown and HTML say what the report says, and no name of a trace becomes markup in them."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec import to_builtins

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from made_up import finding, proven
from measured import profile_at, report_of
from written import html_report, markdown_report

from npu_tui import __version__
from npu_tui.cli.main import main
from npu_tui.jobs.heat import metric_of_finding
from npu_tui.output.html import TEMPLATES
from npu_tui.output.report import report
from npu_tui.output.text import as_markdown, code
from npu_tui.profile.parts import WHOLE_TRACE
from npu_tui.profile.profile import Profile
from npu_tui.strings import say
from npu_tui.strings import words as in_words

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROFILE = FIXTURES / "communication_bound"
VOID = {"meta", "link", "br", "img", "hr", "input"}
HOSTILE = (
    "</td><script>alert(1)</script>\"'&amp; | `x` [l](http://x.y) www.x.y @you #12 $a$ <b> *b* _i_ ~~s~~ \\ "
    "\n\r\x1b[2J\u202e"
)


@pytest.fixture(scope="module")
def part() -> Profile:
    return profile_at(PROFILE)


@pytest.fixture(scope="module")
def found(part: Profile) -> dict[str, Any]:
    rows = [proven(), finding("OP.SMALL", "medium", hidden=True), finding("UTIL", "info"), finding("OPT.FUSED", "low")]
    return to_builtins(report(part)) | {"findings": rows, "verdict": ["Bound by dispatch."]}


@pytest.fixture(scope="module")
def page(found: dict[str, Any], part: Profile) -> str:
    return html_report(report_of(found), part)


class Reader(HTMLParser):
    """The elements of a page; an element that is not closed in its turn is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.cells: list[list[str]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1][-1] += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    reader = read(page)
    assert page.startswith("<!DOCTYPE html>")
    assert reader.tags.count("script") == 1
    assert reader.tags.count("svg") == 4  # how the device spent its time, its bars in it, the film, and the timeline
    assert reader.tags.count("style") == 4  # of the page and of each picture
    swatches = page.count('<span class="swatch')
    assert page.count('<span class="whole"><span class="swatch') == swatches > 3  # a name stays beside its colour
    assert not {"link", "img", "iframe", "object", "foreignobject"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "xlink:href") or name.startswith("on")]
    assert re.findall(r"url\(|@import", page) == []
    assert re.findall(r"https?://[^\"' ]+", page) == []


def test_findings_lead_to_table_and_timeline_and_back(page: str, found: dict[str, Any]) -> None:
    reader = read(page)
    there = {value for name, value in reader.attributes if name == "id"}
    links = [value for name, value in reader.attributes if name == "href"]
    assert links
    assert {link.removeprefix("#") for link in links} <= there
    for number in range(1, len(found["findings"]) + 1):
        assert f"#finding-{number}" in links
        assert f"#row-finding-{number}" in links
    assert "#timeline" in links
    assert reader.tags.count("details") == len(found["findings"])
    assert "ms" in re.findall(r'<g class="tip"[^>]*><path[^>]*><title>([^<]+)', page[page.index('id="timeline"') :])[0]
    assert f"npu-tui {__version__}" in reader.words
    assert found["source"]["tool_version"] == __version__


def test_only_its_own_script_may_run(page: str) -> None:
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page


def test_the_page_says_what_the_report_says(page: str, found: dict[str, Any]) -> None:
    reader = read(page)
    rows = {tuple(row) for row in reader.cells}
    for operator in found["operators"]:
        assert any(row[0] == operator["type"] and row[2] == f"{operator['count']:,}" for row in rows if len(row) == 7)
    for each in found["communication"]:
        assert any(row[0] == each["name"] for row in rows)
    for each in found["findings"]:
        assert each["title"] in reader.words
        assert each["detail"] in reader.words
    for words in ("Bound by dispatch.", "set Add_7=2", "How to profile again", "saves 1.234 ms per step"):
        assert words in reader.words
    numbers = re.findall(r'<td class="number" data-sort="([^"]+)"', page)
    assert len(numbers) > 50
    assert all(float(number) >= 0 for number in numbers)


def test_every_table_has_as_many_cells_as_columns(page: str) -> None:
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        reader = read(table)
        assert {len(row) for row in reader.cells} == {len(reader.cells[0])}


@pytest.mark.parametrize("name", ["level0", "kineto", "msprof_two_devices", "older_chip", "chrome_generic/lines.json"])
def test_pages_of_every_writer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FIXTURES / name), "--format", "html"]) == 0
    read(capsys.readouterr().out)
    assert main(["report", str(FIXTURES / name), "--format", "markdown"]) == 0
    assert ("### How to profile again" in capsys.readouterr().out) == ("chrome" not in name)


@pytest.mark.parametrize("words", [["--range", "1ms..3ms"], ["--step", "21"]])
def test_a_part_of_the_trace(words: list[str], capsys: pytest.CaptureFixture[str], found: dict[str, Any]) -> None:
    if words[0] == "--step":
        words = ["--step", str(found["steps"][0]["step"])]
    for form in ("html", "markdown"):
        assert main(["report", str(PROFILE), "--format", form, *words]) == 0
        text = capsys.readouterr().out
        assert ("range 1.000 ms to 3.000 ms" if words[0] == "--range" else f"step {words[1]}, on the device") in text


def poisoned(found: Any) -> Any:
    """``found`` with every text of it followed by a hostile one, but those that are words of our own."""
    if isinstance(found, dict):
        own = {"id", "severity", "class", "cause", "slow_stage", "kind", "writer", "confidence", "state", "per"}
        return {key: value if key in own else poisoned(value) for key, value in found.items()}
    if isinstance(found, list):
        return [poisoned(each) for each in found]
    return found + HOSTILE if isinstance(found, str) else found


def test_hostile_names_in_the_page(found: dict[str, Any], part: Profile, page: str) -> None:
    bad = html_report(report_of(poisoned(found)), part)
    clean, reader = read(page), read(bad)
    assert reader.tags == clean.tags
    assert "alert(1)" in reader.words
    assert not [char for char in bad if not (char.isprintable() or char == "\n")]


def test_sums_of_several_devices_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "markdown", "html"):
        assert main(["report", str(FIXTURES / "msprof_two_devices"), "--format", form]) == 0
        assert "Device time, sum of 2 devices" in capsys.readouterr().out
        assert main(["report", str(FIXTURES / "healthy"), "--format", form]) == 0
        assert "sum of 2" not in capsys.readouterr().out


def test_what_is_contained_names_what_contains_it_and_keeps_advice_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = FIXTURES / "two_ranks" / "rank1_ascend_pt"
    parts = [each for each in profile_at(folder).part(WHOLE_TRACE).findings.findings if each.part_of is not None]
    assert parts
    for form in ("text", "markdown", "html"):
        assert main(["report", str(folder), "--format", form]) == 0
        told = " ".join(capsys.readouterr().out.split())
        for each in parts:
            advice = [in_words(text) for text in each.advice]
            if len(advice) == 1 and str(each.part_of) in advice[0]:
                assert f"(part of {each.part_of})" in told
            else:
                assert all(text in told for text in advice)


def test_hostile_names_in_markdown(found: dict[str, Any]) -> None:
    clean, bad = markdown_report(report_of(found)), markdown_report(report_of(poisoned(found)))
    assert len(bad.splitlines()) == len(clean.splitlines())
    assert not [char for char in bad if not (char.isprintable() or char == "\n")]
    reader = MarkdownIt("commonmark", {"linkify": True}).enable(["table", "strikethrough", "linkify"])
    expected, tokens = reader.parse(clean), reader.parse(bad)
    assert [token.type for token in tokens] == [token.type for token in expected]
    inline = [child for token in tokens for child in token.children or []]
    assert len(inline) > 100
    assert {child.type for child in inline} <= {
        "text", "text_special", "code_inline", "softbreak", "hardbreak", "strong_open", "strong_close", "html_inline",
    }  # fmt: skip
    assert {child.content for child in inline if child.type == "html_inline"} == {"<!-- -->", "<sub>", "</sub>"}
    words = [child.content for child in inline if child.type == "text"]
    assert not [each for each in words if re.search(r"(?<!\w)[@#]\w", each)]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("TASK_QUEUE_ENABLE=2, 3.5 ms", "TASK_QUEUE_ENABLE=2, 3.5 ms"),
        ("_a_ *b*", "\\_a\\_ \\*b\\*"),
        ("# no heading", "\\# no heading"),
        ("1. no list", "1\\. no list"),
        ("- no list", "\\- no list"),
        ("8.874 ms", "8.874 ms"),
        ("@you #1", "@<!-- -->you #<!-- -->1"),
        ("see https://x.y and www.x.y", "see https&#58;//x.y and www&#46;x.y"),
        ("&lt;", "\\&lt;"),
    ],
)
def test_plain_text_in_markdown(text: str, safe: str) -> None:
    assert as_markdown(text) == safe


@pytest.mark.parametrize(
    ("text", "span"), [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("a|b", "`a\\|b`"), ("", ""), (" ", "`   `")]
)
def test_code_spans(text: str, span: str) -> None:
    assert code(text, table=True) == span


def test_the_markdown_is_what_one_pastes(found: dict[str, Any]) -> None:
    text = markdown_report(report_of(found))
    assert text.startswith("## npu-tui: ")
    order = [
        "> Bound by dispatch.",
        "### Device time",
        "### Findings",
        "**1. HIGH · dispatch · late Add_7**",
        "- 1.000 ms to 2.500 ms on Add_7 `Add_7`: seen Add_7",
        "- … and 2 more",
        "1. set Add_7=2",
        "DISPATCH.FREE · saves 1.234 ms per step · confidence high · sources: A Add_7; B",
        "**4. LOW",
        "Also true",
        "- `OP.SMALL` MEDIUM · ",
        "### Operators",
        "### How to profile again",
        "### Not checked",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "\n\n\n" not in text


NODE = shutil.which("node")
DOM = """
const rows = [["b", "2"], ["a", undefined], ["c", "10"]].map(([text, sort]) => ({cells: [
  {textContent: text, dataset: {}}, {textContent: sort ?? "unknown", dataset: sort === undefined ? {} : {sort}}]}));
const head = number => ({textContent: "h", classList: {contains: () => number}, attributes: {}, ariaSort: null,
  replaceChildren(button) { this.button = button; }, removeAttribute() { this.ariaSort = null; },
  setAttribute(_, value) { this.ariaSort = value; }});
const heads = [head(false), head(true)];
const body = {rows, append(...sorted) { this.rows = sorted; }};
globalThis.document = { getElementById() { return null; },
  querySelectorAll: () => [{tHead: {rows: [{cells: heads}]}, tBodies: [body]}],
  createElement: () => ({addEventListener(_, press) { this.press = press; }})};
"""
PRESSES = """
for (const column of [1, 1, 0, 0]) {
  heads[column].button.press();
  console.log(body.rows.map(row => row.cells[0].textContent).join(""), heads[column].ariaSort);
}
"""


PAGE = """
globalThis.window = { addEventListener() {} };
globalThis.location = { hash: "" };
"""


@pytest.mark.skipif(NODE is None, reason="no node: the script that sorts tables is not run")
def test_the_tables_sort() -> None:
    assert NODE is not None
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    done = subprocess.run([NODE, "-e", PAGE + DOM + script + PRESSES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["cba descending", "bca ascending", "abc ascending", "cba descending"]


def test_a_comparison_shows_its_lanes_down_to_overlap_analysis_and_a_job_what_its_verdict_says(tmp_path):
    compared, job = tmp_path / "c.html", tmp_path / "j.html"
    fixtures = Path("fixtures")
    assert main(["compare", str(fixtures / "healthy"), str(fixtures / "dispatch_bound"), "-o", str(compared)]) == 0
    lanes = compared.read_text().partition('id="timeline"')[2]
    assert "Overlap Analysis" in lanes
    assert "Exposed" in lanes
    assert main(["ranks", str(fixtures / "two_ranks"), "-o", str(job)]) == 0
    assert say("ranks.metric.own") in job.read_text()
    assert metric_of_finding("RANK.SLOW", [5], {0, 1}) == "cost"
    assert metric_of_finding("RANK.SLOW", [1], {0, 1}) == "own"
    assert metric_of_finding("RANK.STAGE", [1], {0, 1}) == "computing"
    assert metric_of_finding("", [], {0, 1}) == "own"
