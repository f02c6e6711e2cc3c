from __future__ import annotations

import re
import subprocess
import sys

import pytest

from npu_tui.analysis.thresholds import Thresholds
from npu_tui.cli.main import main
from npu_tui.cli.streams import DONE, USAGE
from npu_tui.output.explain import WIDTH, explain_document, findings_document, kind_of, nearest, unknown
from npu_tui.output.text import ALL
from npu_tui.output.text import text as text_of
from npu_tui.rules.explanation import document_title
from npu_tui.rules.find import RULES
from npu_tui.rules.model import Kind


def explain(kind: Kind, thresholds: Thresholds | None = None) -> str:
    return text_of(explain_document(kind, thresholds), ALL, WIDTH)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_everything_about_a_rule(rule) -> None:
    text = explain(rule)
    assert text.startswith(rule.id)
    for threshold in rule.thresholds:
        assert f"{threshold.name} " in text
    for source in rule.sources:
        assert document_title(source) in text
    assert "What to do:" in text
    assert rule.pages
    assert all(
        re.match(r"https://(www\.)?(hiascend|gitcode|pytorch|docs\.python)\.\w+/", address) for _, address in rule.pages
    )
    assert all(line[:1] in "+- " for line in rule.change.splitlines())
    assert max(len(line) for line in text.splitlines() if "https://" not in line) <= 150


def test_the_user_s_thresholds_are_shown() -> None:
    rule = kind_of("dispatch.free")
    assert rule is not None
    assert re.search(r"free_share += 0\.1 ", explain(rule))
    assert re.search(r"free_share += 0\.37 ", explain(rule, Thresholds(free_share=0.37)))


def test_all_ids_are_listed() -> None:
    text = text_of(findings_document(), ALL)
    assert all(f"  {rule.id} " in text for rule in RULES)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("straggler", "COMM.STRAGGLER"), ("STEP.STRAT", "STEP.START"), ("vertical", "DISPATCH.VERTICAL"), ("py", "PY.GC")],
)
def test_the_nearest(word: str, meant: str) -> None:
    assert nearest(word) == meant
    assert f"did you mean {meant}?" in unknown(word)


@pytest.mark.parametrize("word", ["NOPE", "", "xyz"])
def test_where_nothing_is_near_all_are_listed(word: str) -> None:
    assert nearest(word) is None
    assert all(rule.id in unknown(word) for rule in RULES)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == DONE
    assert "COMM.STRAGGLER" in capsys.readouterr().out
    assert main(["explain", "comm.straggler"]) == DONE
    assert "Notify_Wait" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["explain", "COMM.STRAGLER\x1b[31m"])
    assert stop.value.code == USAGE
    words = capsys.readouterr().err
    assert "COMM.STRAGGLER" in words
    assert "\x1b" not in words


def test_explaining_loads_no_screen() -> None:
    code = (
        "import sys; from npu_tui.cli.main import main; main(['explain']); "
        "sys.exit(any(name.startswith(('textual', 'polars')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
