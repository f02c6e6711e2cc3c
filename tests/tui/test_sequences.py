"""What terminals send, whole, in parts, late, and broken."""

from __future__ import annotations

import random

import pytest
from textual import events

from npu_tui.tui.terminal.internals import MOST_PASTED, Cutter, Piece, Reader


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read(*parts: bytes) -> list[str]:
    """The keys of what comes in ``parts``; other events by name, with what they hold."""
    reader = Reader(lambda: (120, 40))
    return [_word(event) for part in parts for event in reader.read(part)]


def _word(event: object) -> str:
    if isinstance(event, events.Key):
        return event.key
    if isinstance(event, events.Paste):
        return f"paste {event.text[:20]}"
    if isinstance(event, events.MouseEvent):
        return f"{type(event).__name__} {event.x} {event.y}"
    return type(event).__name__


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((b"w\x1b[A\x1b[1;2D\x1bOP",), ["w", "up", "shift+left", "f1"]),
        ((b"\x1b[", b"1;2", b"D"), ["shift+left"]),
        (("你é".encode()[:1], "你é".encode()[1:]), ["你", "é"]),
        ((b"\x1bw",), ["alt+w"]),
        ((b"\x1b\x1b[A",), ["escape", "up"]),
        ((b"\x1b[27u\x1b[97;1;97u",), ["escape", "a"]),
    ],
)
def test_keys(parts: tuple[bytes, ...], expected: list[str]) -> None:
    assert read(*parts) == expected


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b]11;rgb:1111/2222/3333\x1b\\",
        b"\x1b]11;rgb:1111/2222/3333\x07",
        b"\x1b[?64;1;2;6c",
        b"\x1b[>0;276;0c",
        b"\x1bP>|term(1.0)\x1b\\",
        b"\x1b[8;40;120t",
        b"\x1b[48;9999;9999;99;99t",
        b"\x1b[?2048;1$y",
        b"\x1b[?1u",
        b"\x1b[0n",
        b"\x1b_Gi=1;OK\x1b\\",
        b"\x1b[99999999999999u",
        b"\x1b[M\x20\x20\x20",
        b"\x1b[" + b"1;" * 80 + b"m",
    ],
)
def test_answers_that_nobody_needs_are_no_keys(answer: bytes) -> None:
    for cut in range(1, len(answer)):
        assert read(answer[:cut], answer[cut:] + b"w")[-1] == "w"
    assert read(answer + b"w") == ["w"]


def test_a_cursor_report_stays_one() -> None:
    assert read(b"\x1b[3;5R") == ["CursorPosition"]


@pytest.mark.parametrize("data", ["你好世界".encode("gbk"), b"\xff\xfe\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_utf8_are_left_out(data: bytes) -> None:
    reader = Reader(lambda: (120, 40))
    assert list(reader.read(data)) == []
    assert reader.strange >= len(data) // 2
    assert [_word(event) for event in reader.read(b"w")] == ["w"]


def test_a_mouse_report_of_three_bytes_is_left_out() -> None:
    assert read(b"\x1b[M\x20\x94\x30", b"\x1b[M\x23\x94\x30w") == ["w"]
    assert read(b"\x1b[M\x20", b"\xff\x30w") == ["w"]


@pytest.mark.parametrize("part", [b"\x1b[M", b"\x1b[M\x20", b"\x1b[M\x20\x94"])
def test_a_part_of_such_a_report_takes_nothing_of_what_follows(part: bytes) -> None:
    assert read(part, b"\x1b[200~pasted\x1b[201~w") == ["paste pasted", "w"]
    assert read(part + b"\x1b[A") == ["up"]
    assert read(part, b"\x03w") == ["ctrl+c", "w"]


def test_the_mouse_is_within_the_terminal() -> None:
    assert read(b"\x1b[<0;99999;5M", b"\x1b[<0;-4;99999999999999M") == ["MouseDown 119 4", "MouseDown 0 39"]


def test_a_paste_comes_in_parts() -> None:
    whole = b"\x1b[200~hello\x1b[201~w"
    for cut in range(1, len(whole)):
        assert read(whole[:cut], whole[cut:]) == ["paste hello", "w"]


@pytest.mark.parametrize("key", [b"\x03", b"\x1b[99;5u"])
def test_ctrl_c_ends_a_paste_whose_end_never_comes(key: bytes) -> None:
    assert read(b"\x1b[200~half of it", b"wwww", key, b"w") == ["ctrl+c", "w"]


def test_a_paste_has_an_end() -> None:
    cutter = Cutter()
    for _ in range(3):
        cutter.cut(b"\x1b[200~" if _ == 0 else b"x" * MOST_PASTED)
    [piece] = cutter.cut(b"\x1b[201~")
    assert len(piece.text) <= MOST_PASTED


def test_esc_alone_is_a_key_after_a_while_and_the_beginning_of_an_answer_is_none() -> None:
    clock = Clock()
    cutter = Cutter(clock)
    assert cutter.cut(b"\x1b") == []
    assert cutter.rest() == []
    clock.now += 0.11
    assert cutter.rest() == [Piece("key", "\x1b")]
    assert cutter.cut(b"\x1b[3;1") == []
    clock.now += 0.11
    assert cutter.rest() == []
    clock.now += 0.5
    assert cutter.rest() == []
    assert cutter.cut(b"w") == [Piece("text", "w")]


def test_whatever_comes_the_next_key_is_read() -> None:
    draw = random.Random(4)
    bytes_ = [27, 27, 27, *b"[]O_P;?<~mMuRct", *range(48, 58), *range(256)]
    for _ in range(3000):
        data = bytes(draw.choices(bytes_, k=draw.randint(1, 40)))
        cut = draw.randint(0, len(data))
        found = read(data[:cut], data[cut:], b"\x1b\\\x1b[201~", b"\x03")
        assert found[-1] == "ctrl+c", data
