from __future__ import annotations

import re
import subprocess
import sys

import pytest
from written import fields_of

from npu_tui.analysis.limits import Thresholds
from npu_tui.cli.main import main
from npu_tui.cli.streams import DONE, USAGE
from npu_tui.manual import TOPICS
from npu_tui.output.explain import (
    KINDS,
    WIDTH,
    Meant,
    explain_document,
    findings_document,
    kind_of,
    meant,
    meant_document,
    nearest,
    unknown,
)
from npu_tui.output.text import ALL
from npu_tui.output.text import text as text_of
from npu_tui.rules.explanation import WORDS, words_called
from npu_tui.rules.find import RULES
from npu_tui.rules.model import Kind
from npu_tui.strings import speaking
from npu_tui.tui.commands import BY_ID


def explain(kind: Kind, thresholds: Thresholds | None = None) -> str:
    return text_of(explain_document(kind, thresholds), ALL, WIDTH)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_everything_about_a_rule(rule) -> None:
    text = explain(rule)
    assert text.startswith(rule.id)
    for threshold in rule.thresholds:
        assert f"{threshold.name} " in text
    for title in rule.documents:
        assert title in text
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
    assert all(word.title in text for word in WORDS)


ASKED = {
    "starved": "starved", "near-vertical": "near_vertical", "near vertical": "near_vertical", "lost time": "lost",
    "exposed": "exposed", "host late": "host_late", "own excess": "own_excess", "idle": "idle", "slow": "slow",
    "wait": "wait", "export": "export", "stack": "stack", "duration": "duration", "legend": "legend", "color": "legend",
    "theme": "theme", "exit": "leave", "compare": "compare", "一级流水": "pipeline", "二级流水": "pipeline",
    "绑核": "binding",
    "亲和算子": "affinity", "亲和": "affinity", "覆盖分析": "overlap", "统计视图": "statistics", "系统视图": "overview",
    "框选": "select", "打断": "drain", "空闲": "idle", "概览": "overview", "时间线": "timeline",
    "对比": "compare",
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_are_found_by_what_people_call_them_in_either_language(language: str) -> None:
    with speaking(language):
        for asked, id in ASKED.items():
            first = next(iter(words_called(asked)), None)
            assert first is not None
            assert first.id == id, asked
            assert first.meaning in text_of(meant_document(meant(asked), asked, lambda commands: []), ALL, 10_000)


def test_documents_are_told_without_the_numbers_of_their_items() -> None:
    assert any(re.search(r"\d-\d\d", source) for rule in RULES for source in rule.sources)
    assert not [title for rule in RULES for title in rule.documents if re.search(r"\d-\d\d", title)]
    assert all(len(set(rule.documents)) == len(rule.documents) > 0 for rule in RULES)


def test_no_advice_is_what_another_one_replaces() -> None:
    """What one rule writes anew is what no other one replaces, such as torch.where."""
    written = {"-": "", "+": "", " ": ""}
    for rule in RULES:
        for line in rule.change.splitlines():
            written[line[0]] += line + "\n"
    for call in ("torch.where(", ".gather(", "one_hot(", "repeat_interleave(", "functional.linear("):
        assert call not in written["+"], call
    for call in ("torch.where(", ".gather(", "functional.linear(", "BatchMatMul", ".permute("):
        assert call in written["-"], call


def test_what_leads_on_from_a_word_is_there() -> None:
    assert {word for kind in KINDS for word in kind.words} <= {word.id for word in WORDS}
    for word in WORDS:
        assert set(word.commands) <= set(BY_ID), word.id
        assert set(word.topics) <= set(TOPICS), word.id
        assert all(address.startswith("https://") for _, address in word.pages), word.id
    affinity = next(word for word in WORDS if word.id == "affinity")
    numbers = {address[-9:-5] for _, address in affinity.pages if "performance_tuning" in address}
    assert numbers == {"0023", "0024", "0025", "0026", "0033", "0034", "0035", "0036", "0100"}


@pytest.mark.parametrize("option", ["fusion_switch_file", "--input_format", "precision_mode", "离线模型"])
def test_options_of_atc_lead_to_the_word(option: str) -> None:
    assert "atc" in [word.id for word in meant(option).words]


def test_a_text_finds_the_findings_that_speak_of_it() -> None:
    assert "OP.AFFINITY_KERNEL" in [kind.id for kind in meant("one_hot").kinds]
    assert meant("of") == meant("xyzzy") == meant("") == Meant([], [])


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        *(("拷贝", "tab_operators"), ("异步", "tab_links"), ("预热", "tab_summary"), ("火焰图", "call_tree")),
        *((name, "tab_operators") for name in ("IndexPutV2", "RmsNorm", "SwiGlu", "RotaryMul", "FlashAttention")),
        *((name, "tab_summary") for name in ("MindStudio", "Insight", "安装", "拐点")),
        *(("flame", "call_tree"), ("快捷键", "help"), ("专家建议", "tab_findings"), ("集群分析", "ranks")),
        *(("对比工具", "compare"), ("卡序号", "tab_job_ranks"), ("批大小", "batches"), ("连续Batch", "batches")),
        *(("async_npu", "tab_links"), ("nic.csv", "tab_communication"), ("混合精度", "tab_findings")),
        *(("数据加载", "tab_findings"), ("异步调度", "tab_findings")),
    ],
)
def test_what_the_explorer_is_asked_is_explained_by_the_same_phrases(asked: str, command: str) -> None:
    found = meant(asked)
    told = text_of(meant_document(found, asked, lambda ids: [(id, BY_ID[id].title) for id in ids]), ALL, WIDTH)
    assert found.words, "documents in JSON tell words alone"
    assert command in found.commands
    assert BY_ID[command].title in told


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
    assert main(["explain", "lost", "time"]) == DONE
    told = capsys.readouterr().out
    assert told.startswith("lost time\n")
    assert re.search(r"x +next starved launch", told), "keys"
    assert main(["explain", "starved", "--format", "json"]) == DONE
    (word,) = fields_of(capsys.readouterr().out)["words"]
    assert (word["id"], word["findings"]) == ("starved", ["DISPATCH.VERTICAL"])
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
