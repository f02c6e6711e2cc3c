"""Which language is spoken, and what stays English in every one of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from npu_tui.cli.main import main
from npu_tui.cli.parser import choose_language, given, language_of_locale
from npu_tui.output.document import Cell, Table
from npu_tui.output.text import table_lines
from npu_tui.strings import language, say, speaking, texts_of
from npu_tui.trace.text import cell_count, padded, shortened, wrapped

ROOT = Path(__file__).resolve().parents[1]
PROFILE = str(ROOT / "fixtures" / "dispatch_bound")
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "NPU_TUI_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh-Hans.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
    ],
)
def test_the_locale_chooses(variables: dict[str, str], wanted: str) -> None:
    assert language_of_locale(variables) == wanted


def chosen(*words: str) -> tuple[list[str], str]:
    """What is left of ``words`` for the command, and the language."""
    said = given([*words])
    return said.words, choose_language(said.lang, said.config)


def test_the_option_goes_before_settings_and_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[screen]\nlanguage = "zh"\n', encoding="utf-8")
    monkeypatch.setenv("NPU_TUI_CONFIG", str(settings))
    assert chosen("report", "x") == (["x"], "zh")
    assert chosen("--lang", "en", "report", "x") == (["x"], "en")
    assert chosen("report", "--lang=en", "x") == (["x"], "en")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert chosen("--lang", "auto") == ([], "zh")
    other = tmp_path / "other.toml"
    other.write_text('[screen]\nlanguage = "en"\n', encoding="utf-8")
    assert chosen("report", "--config", str(other))[1] == "en"
    assert chosen("report", "--", "--lang", "en")[0] == ["--", "--lang", "en"]


def test_a_language_without_texts_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["report", "--lang", "de", PROFILE])
    assert end.value.code == 2
    assert "--lang" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["report"], ["check"], ["compare"], ["whatif"], ["settings"], ["cache"]])
def test_help_is_chinese_and_fits(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--lang", "zh", *command, "--help"])
    told = capsys.readouterr().out
    for key, text in texts_of("en").items():
        if key.startswith("argparse.") and text == text.strip() and "%" not in text:
            assert text not in told, key
    body = told.split("\n\n", 1)[1]
    assert HAN.search(body)
    assert all(cell_count(line) <= 80 for line in body.split("\n"))


def test_wrong_usage_is_said_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--lang", "zh", "report", "--format", "pdf"])
    told = capsys.readouterr().err
    assert "无效的选择" in told
    assert "错误" in told


def test_reports_are_chinese_and_json_is_english(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lang", "zh", "report", PROFILE]) == 0
    assert "设备时间\n" in capsys.readouterr().out
    assert language() == "zh"
    for words in (["report", PROFILE], ["check", PROFILE, "--max-free", "1%", "--fail-on", "low"]):
        main(["--lang", "zh", *words, "--format", "json"])
        told = capsys.readouterr().out
        assert json.loads(told)
        assert not HAN.search(told)
    assert main(["--lang", "zh", "report", "/nowhere", "--format", "json"]) == 3
    assert HAN.search(capsys.readouterr().err)


def test_a_baseline_is_english(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "base.json"
    assert main(["--lang", "zh", "check", PROFILE, "--write-baseline", str(file)]) == 0
    assert not HAN.search(file.read_text(encoding="utf-8"))
    assert HAN.search(capsys.readouterr().out)


def test_one_language_inside_another() -> None:
    with speaking("zh"):
        assert say("finding.class.dispatch") == "下发"
    assert say("finding.class.dispatch") == "DISPATCH"


def test_columns_count_cells() -> None:
    with speaking("zh"):
        names = [[Cell(name), Cell(time)] for name, time in (("未掩盖通信", "1.5 ms"), ("communication", "12.5 ms"))]
        row, other = table_lines(Table("overlap", "", ("", ""), (False, True), names))
    assert row.index("1.5") == len("communication") - 5 + 2 + 1
    assert other == "communication  12.5 ms"
    assert padded("下发", 6) == "下发  "
    assert padded("下发", 6, right=True) == "  下发"
    assert shortened("下发太慢", 5) == "下发…"
    assert shortened("下发", 4) == "下发"


def test_lines_break_between_han_characters_and_at_blanks() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("one two three", 9, "  ", "    ") == ["  one two", "    three"]
    assert wrapped("设备空闲，等待 Host 下发。", 10) == ["设备空闲，", "等待 Host", "下发。"]
    assert wrapped("（下发）", 6) == ["（下", "发）"]
    assert wrapped("", 9) == []
    for cells in range(4, 40):
        text = say("finding.free.unknown") + " 没有（HostToDevice）连线，无法判断。"
        lines = wrapped(text, cells)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert not any(line[0] in "，。）" for line in lines)


def test_parts_of_free_time_have_a_colon_of_their_language(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--lang", "zh", PROFILE]) == 0
    text = capsys.readouterr().out
    assert "空闲：" in text
    assert not re.search(r"[\u4e00-\u9fff]: ", text)
