"""Each block of a document in each format; whatever a text holds stays a text."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from npu_tui.output.document import (
    Block,
    Box,
    Cell,
    Code,
    Document,
    Finding,
    Findings,
    Heading,
    Items,
    Line,
    Look,
    Paragraph,
    Picture,
    Proof,
    Table,
    Tip,
    Words,
)
from npu_tui.output.html import html
from npu_tui.output.svg import page_picture, picture_file
from npu_tui.output.text import ALL, markdown, text, text_lines
from npu_tui.view.palette import DARK, LIGHT

HOSTILE = (
    "</style></td><script>alert(1)</script>\"'&amp; | `x` ```` [l](http://x.y) www.x.y @you #12 $a$ <b> *b*"
    "\n\x1b[2J\u202e"
)


def everything(said: str = "") -> Document:
    """A document with every block, and ``said`` after each of its texts."""

    def words(text: str) -> str:
        return text + said

    table = Table(
        "rows",
        words("Rows"),
        (words("name"), words("time")),
        (False, True),
        [[Cell(words("a"), name=True), Cell(words("2 ms"), 2.0)], [Cell(words("b")), Cell(words("10 ms"), 10.0)]],
        weights=(1.0, 2.0),
    )
    findings = tuple(
        Finding(
            number,
            "DISPATCH.FREE",
            "high",
            words(f"finding {number}"),
            words("saves 1 ms"),
            words("because"),
            (Proof(words("1 ms to 2 ms"), words("MatMul"), words("late")),) * 7,
            (words("set A=2"), words("then B")),
            (words("confidence high"),),
        )
        for number in (1, 2)
    )
    numbered = Table(
        "findings", words("Findings"), (words("#"),), (True,), [[Cell("1", 1.0, link="finding-1")], [Cell("2", 2.0)]]
    )
    blocks: list[Block] = [
        Paragraph((words("about"), words("more")), "faint"),
        Paragraph((words("verdict"),), "verdict"),
        Heading(words("Health"), "health"),
        Items((words("one"), ("DTYPE", words("two")))),
        Items((words("first"), words("second")), ordered=True),
        Code((words("npu-tui report"),)),
        Code((words("-before"), words("+after"))),
        table,
        Findings(words("Findings"), numbered, findings, frozenset({1}), words("rest:")),
        Picture(
            words("Timeline"),
            90,
            18,
            [Box(0, 0, 9, 18, 70), Words(0, 13, 36, words("main"), 64), Tip(0, 0, 9, 18, words("tip"), "finding-1")],
            id="timeline",
            legend=((70, words("cube")),),
        ),
    ]
    return Document(words("title"), blocks)


class Tags(HTMLParser):
    """The tags of a page and its attributes but for those that hold words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[object] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [pair for pair in attrs if pair[0] != "data-head"]))


def test_hostile_texts_in_a_page() -> None:
    bad = html(everything(HOSTILE))
    assert Tags(bad).tags == Tags(html(everything())).tags
    assert bad.count("<script>") == 1
    assert not [char for char in bad if not (char.isprintable() or char == "\n")]


def test_hostile_texts_in_markdown() -> None:
    reader = MarkdownIt("commonmark", {"linkify": True}).enable(["table", "strikethrough", "linkify"])
    clean, bad = reader.parse(markdown(everything())), reader.parse(markdown(everything(HOSTILE)))
    assert [token.type for token in bad] == [token.type for token in clean]
    inline = {child.type for token in bad for child in token.children or []}
    assert not inline & {"link_open", "em_open", "image", "s_open"}
    written = {child.content for token in bad for child in token.children or [] if child.type == "html_inline"}
    assert written <= {"<!-- -->", "<sub>", "</sub>"}


def test_hostile_texts_in_a_terminal() -> None:
    clean, bad = (text(everything(said), width=ALL).splitlines() for said in ("", HOSTILE))
    assert len(bad) == len(clean)
    assert all(map(str.isprintable, bad))


@pytest.mark.parametrize("write", [text, markdown])
def test_what_fits_is_the_heaviest_row(write: Callable[[Document, int], str]) -> None:
    page = write(everything(), 1)
    assert "10 ms" in page
    assert "2 ms" not in page.replace("to 2 ms", "")
    assert "… and 1 more" in page


def test_a_page_holds_what_text_and_markdown_leave_out() -> None:
    document = everything()
    page = html(document)
    assert "finding 2" in page
    assert page.count("<li>1 ms to 2 ms: MatMul: late</li>") == 14
    for short in (text(document), markdown(document)):
        assert "… and 2 more" in short
        assert short.count("because") == 1
        assert short.index("rest:") < short.index("finding 2")


def test_sentences_wrap_by_cells_below_their_mark() -> None:
    lines = text_lines([Heading("Health"), Items(("设备在等待下发，主机太慢。" * 3,))], width=40)
    assert [line[:4] for line in lines[1:3]] == ["  - ", "    "]
    assert max(sum(2 if ord(char) > 0x2000 else 1 for char in line) for line in lines) <= 40


def test_a_table_without_heads_has_none() -> None:
    checks = Table("checks", "", ("", ""), (False, False), [[Cell("FAIL"), Cell("free")]])
    assert text(Document("failed", [checks])) == "failed\n\nFAIL  free\n"
    assert "<thead>" not in html(Document("failed", [checks]))


def test_a_picture_has_the_colours_of_a_palette_or_of_its_page() -> None:
    red = (255, 0, 0)
    line = Line(0, 0, 9, 9, 70, Look(1, dashed=True), faint=True)
    picture = Picture("p", 18, 18, [Box(0, 0, 9, 18, 70), Box(9, 0, 9, 18, 70), Box(0, 0, 9, 18, red), line])
    light, dark = ("#{:02x}{:02x}{:02x}".format(*palette.rgb[70].tolist()) for palette in (LIGHT, DARK))
    alone = picture_file(picture, DARK)
    assert f'<path d="m0 0h18v18h-18z" fill="{dark}"/>' in alone, "boxes that touch are one"
    assert 'fill="#ff0000"' in alone
    assert f'stroke="{dark}" stroke-width="1" stroke-dasharray="2 2.5" opacity="0.6"/>' in alone
    page = page_picture(picture)
    for colour in (light, dark):
        assert f".f70{{fill:{colour}}}.s70{{stroke:{colour}}}" in page
    assert '<path d="m0 0h18v18h-18z" class="f70"/>' in page
    assert "http" not in page
