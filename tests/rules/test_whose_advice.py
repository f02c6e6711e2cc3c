"""Whose advice: what only torch_npu has is advised to programs of torch_npu alone, and every command is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from by_hand import ByHand
from measured import profile_at

from npu_tui.cli.parser import COMMANDS, parser_of
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.rules.find import OF_TORCH
from npu_tui.strings import say, texts_of, words

_TORCH = re.compile(
    r"torch|\.item\(|TASK_QUEUE|CPU_AFFINITY|Python|\.to\(|async_op|num_workers|with_stack|ProfilerLevel"
)
"""Words of advice that only programs of PyTorch can follow."""


def _of_acl(call: str) -> ByHand:
    """A program that launches through AscendCL and waits for each result; no Python."""
    trace = ByHand()
    for k in range(30):
        begin = 2000.0 * k
        for n in range(4):
            trace.launch(f"Conv2D_{n}", begin + 10 * n, begin + 20 + 60 * n, 50, call=f"AscendCL@{call}")
        trace.call("AscendCL@aclrtSynchronizeStream", begin + 50, 240)
    return trace


@pytest.mark.parametrize("call", ["aclmdlExecuteAsync", "aclopExecuteV2"])
def test_a_program_without_python_gets_no_advice_of_torch(tmp_path: Path, call: str) -> None:
    profile = profile_at(_of_acl(call).write(tmp_path))
    told = profile.findings.findings
    assert {"HOST.PAUSE", "DISPATCH.VERTICAL"} < {each.id for each in told if each.severity == "high"}
    advice = [words(text) for each in told for text in each.advice]
    assert any("Let the host run ahead" in text for text in advice)
    assert not [text for text in advice if _TORCH.search(text)]


def test_what_names_torch_is_known_to(tmp_path: Path) -> None:
    """A new advice with such words must say whether it is torch_npu's; those of GPUs and of snapshots are apart."""
    said = {key: text for key, text in texts_of("en").items() if key.startswith("finding.advice.")}
    rules = {f"finding.advice.{word}" for word in _advised()}
    untold = [key for key, text in said.items() if key in rules and _TORCH.search(text) and key not in OF_TORCH]
    assert untold == []


def _advised() -> set[str]:
    from npu_tui.rules.find import RULES

    return {word for rule in RULES for word in rule.advice}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_command_that_is_advised_is_one(language: str) -> None:
    for key, text in texts_of(language).items():
        for command, rest in re.findall(r"npu-tui ([a-z]+)((?: [A-Z{-][^ ,.;:`。，)）]*)*)", text):
            if command not in COMMANDS:
                assert not rest.strip().startswith(("PATH", "DIR", "BASE", "--")), (key, text)
                continue
            options = parser_of(command)._option_string_actions
            assert all(word in options for word in rest.split() if word.startswith("--") and len(word) > 2), (key, text)


def test_a_trace_of_another_tool_gets_none(tmp_path: Path) -> None:
    path = tmp_path / "build.json"
    path.write_text(
        '[{"ph":"X","name":"link","pid":1,"tid":1,"ts":0,"dur":9},{"ph":"X","name":"cc","pid":1,"tid":2,"ts":3,"dur":7}]'
    )
    said = str(report_document(report(profile_at(path))))
    assert not re.search("NPU|ascend_pt|Level0|Level1", said)
    assert say("finding.verdict.other_tool") in said


@pytest.mark.parametrize("call", ["hipLaunchKernel", "cudaLaunchKernelExC"])
def test_launches_without_kernels_are_told(tmp_path: Path, call: str) -> None:
    trace = ByHand(gpu=True)
    for k in range(25):
        trace.call(call, 10.0 * k, 4)
    trace.call("cudaDeviceSynchronize", 260, 4)
    profile = profile_at(trace.write(tmp_path))
    assert profile.kind == "kineto"
    assert "25 launches" in words(profile.findings.verdict[0])
