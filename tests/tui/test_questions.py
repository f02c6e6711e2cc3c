"""Questions in the user's words, in both languages, lead to the view that answers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from driving import opened
from measured import profile_at

from npu_tui.strings import LANGUAGES, speaking, texts_of
from npu_tui.subjects import subject
from npu_tui.tui.commands import BY_ID, asked
from npu_tui.tui.prompts import nearest_command
from npu_tui.tui.session import make_session
from npu_tui.tui.sheets import help_text

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound"

QUESTIONS = {
    "why is the NPU idle?": "bubbles", "为什么空闲": "bubbles", "top kernels": "tab_operators",
    "which rank is late": "tab_communication", "等谁": "tab_communication", "火焰图": "call_tree",
    "show me a flame graph": "call_tree", "接口耗时": "calls", "api calls": "calls",
    "where is the memory peak": "tab_memory", "显存峰值": "tab_memory", "快捷键": "help", "专家建议": "tab_findings",
    "what should I change": "tab_findings", "集群分析": "ranks", "对比工具": "compare", "批大小": "batches",
    "连续Batch": "batches", "RmsNorm": "tab_operators", "async_npu": "tab_links", "nic.csv": "tab_communication",
    "安装": "tab_summary", "拐点": "tab_summary", "预热": "tab_summary", "异步": "tab_links", "bookmark": "flags",
    "混合精度": "tab_findings", "数据加载": "tab_findings", "异步调度": "tab_findings",
    "is asynchronous scheduling on?": "tab_findings", "卡序号": "tab_communication",
    "where does the time go": "path", "时间去哪了": "path", "what changed?": "compare",
    "any outliers?": "tab_operators",
    "who is waiting": "tab_communication", "通信为什么慢": "tab_communication", "拷贝": "tab_operators",
    "how does the run look without it": "film", "导出报告": "report", "distribution of a kernel": "tab_search",
}  # fmt: skip


@pytest.mark.parametrize(("question", "command"), QUESTIONS.items())
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_question_leads_to_the_command_that_answers(question: str, command: str, language: str) -> None:
    with speaking(language):
        assert asked(question, "lanes")[:1] == [command]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_phrase_is_of_a_command(language: str) -> None:
    keys = [key for key in texts_of(language) if key.startswith("asked.")]
    assert len(keys) > 20
    assert {key.split(".")[1] for key in keys} <= set(BY_ID)


OF_OTHERS = {
    ("job", "which rank is slow"): "tab_job_ranks", ("job", "等谁"): "tab_job_collectives",
    ("job", "why are the NPUs idle"): "tab_job_findings", ("job", "慢卡"): "tab_job_ranks",
    ("job", "which host"): "tab_job_hosts", ("job", "对比工具"): "compare", ("job", "集群分析"): "tab_job_ranks",
    ("memory", "where is the memory peak"): "tab_lines", ("memory", "显存峰值"): "tab_lines",
    ("memory", "what caused the OOM"): "tab_lines", ("service", "slow request"): "tab_lines",
    ("service", "is the KV cache full"): "tab_communication",
}  # fmt: skip


@pytest.mark.parametrize(("place", "command"), OF_OTHERS.items())
def test_other_subjects_have_answers_of_their_own(place: tuple[str, str], command: str) -> None:
    subject_id, question = place
    if subject_id == "job":
        assert asked(question, "job")[:1] == [command]
    else:
        assert asked(question, "lanes", subject(subject_id))[:1] == [command]


def test_a_tab_that_is_not_there_answers_nothing() -> None:
    assert "tab_communication" not in asked("which rank is late", "lanes", subject("memory"))


def test_a_sentence_is_no_misspelt_command() -> None:
    assert nearest_command("is it going to rain tomorrow", "job") is None
    assert nearest_command("recrod", "job") == "record"


def test_what_means_nothing_leads_nowhere() -> None:
    assert asked("qwertz", "lanes") == []
    assert asked("", "lanes") == []


async def test_the_prompt_goes_there() -> None:
    async with opened(make_session([profile_at(DEMO)])) as driver:
        await driver.settle()
        await driver.send(":why is the NPU idle\r")
        await driver.settle()
        assert driver.panel.is_open("lines")
        assert driver.main.contents.lines.view == "bubbles"
        await driver.send(":top kernels\r")
        await driver.settle()
        assert driver.panel.is_open("operators")
        await driver.send(":flame graph\r")
        await driver.settle()
        assert driver.panel.is_open("range")
        told = driver.text()
        assert "calls on " in told
        named = [str(row.cells[-1]) for row in driver.panel.rows]
        assert [name.strip() for name in named] == [str(row.values[-1]) for row in driver.panel.rows]
        assert max(map(len, named)) > 50, "the last column has all that is right of it"


def test_the_help_finds_it() -> None:
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(help_text("lanes", {}, "bookmark"))
    assert ":flags" in console.export_text()
