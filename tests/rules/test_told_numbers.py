"""Numbers in the texts of ``npu-tui explain`` are those that the code compares with."""

from __future__ import annotations

import re

import pytest

from npu_tui.analysis import drains, host_owners, limits, memory
from npu_tui.compare import differences, kernels
from npu_tui.jobs import against, expert_loads
from npu_tui.output.explain import KINDS
from npu_tui.rules import cpu, data, needless, parallelism
from npu_tui.rules import kernels as kernel_rules
from npu_tui.rules import links as planes
from npu_tui.rules.rule import SEVERITY_MEDIUM
from npu_tui.strings import LANGUAGES, say, texts_of

PERCENT = 100
COMPARED: dict[str, set[float]] = {
    "DISPATCH.INTERRUPT": {limits.SHORT_NS / 1_000},
    "COMM.SMALL": {parallelism.BUCKET / 2**20},
    "COMM.LINK": {planes._SLOWER, data.LARGE_BYTES / 1e6},
    "COMM.SPEED": {*planes._USUAL_SPEEDS.values(), data.LARGE_BYTES / 1e6},
    "OP.OUTLIER": {limits.FEWEST_EQUALS, limits.A_PART * PERCENT},
    "HOST.QUOTA": {cpu.PERIOD_NS / 1e6},
    "HOST.WORK": {host_owners.WORK_NS / 1e6},
    "KERNEL.SHAPE": {kernel_rules._BLOCK},
    "OP.MASK": {needless._COMPRESSED_SIDE, 2, 3},  # two values of sparse_mode
    "OP.EMBEDDING": {limits.HARDLY_ANY * PERCENT},
    "MEM.VECTOR": {limits.BEST_PERCENTILE},
    "DIFF.RANK": {limits.HARDLY_ANY * PERCENT, 1, 1 / against._FALSE},
    "DIFF.KERNEL.SLOWER": {kernels._DISCOVERY, kernels._FEW_CALLS * PERCENT},
    "DIFF.MEMORY": {differences._MEMORY_SHARE * PERCENT, differences._MEMORY_LEAST / 2**20},
    "DIFF.FREQ": {differences._FREQUENCY_SHARE * PERCENT},
    "EXPERT.LOAD": {expert_loads._UNEVEN},
    "EXPERT.SWAP": {limits.LITTLE},
    "LINK.SLOW": {limits.OUTLYING, limits.NEARLY_ALL},
    "ROLE.SLOW": {SEVERITY_MEDIUM.default * PERCENT},
    "SNAPSHOT.PIECES": {memory._MAX_EVENTS, 2},  # a small segment of the allocator, 2 MiB
}
"""What the digits of each text say, in the unit of the text; a text that is not here has none.

Nothing in them is a figure of hardware, of a standard or of a setting but what ``FIXED`` holds.
"""
FIXED = re.compile(
    r"95 ?%|DIFF\.\w+|1 MiB|(?:16|32)(?: to 16)?[- ]?(?:bit|位)|转成 16 位"
    r"|=[01]|[A-Za-z_]\w*\d|\{[^}]*\}|不含 0|exclude 0"
)
IN_WORDS = {
    "DISPATCH.INTERRUPT": ("a quarter", drains._GOOD_PART, 0.25),
    "PIPELINE.TRANSFER": ("at least twice", limits.MORE_THAN_ONE, 2.0),
    "ROLE.SLOW": ("at least twice", round(limits.MAINLY / (1 - limits.MAINLY), 6), 2.0),
    "LINK.SLOW": ("robust standard deviations", limits.OUTLYING, 5.0),
}


def numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", FIXED.sub("", text))}


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_every_explanation_are_those_of_the_code(language: str) -> None:
    told = {kind.id: numbers(texts_of(language)[f"explain.{kind.id}"]) for kind in KINDS}
    expected = {id: {round(value, 6) for value in COMPARED.get(id, ())} for id in told}
    differing = {id: (told[id], expected[id]) for id in told if told[id] != expected[id]}
    assert not differing
    assert COMPARED.keys() <= told.keys()


@pytest.mark.parametrize("id", IN_WORDS)
def test_numbers_in_words_are_those_of_the_code(id: str) -> None:
    words, compared, said = IN_WORDS[id]
    assert words in texts_of(LANGUAGES[0])[f"explain.{id}"]
    assert compared == said


def test_more_steps_than_a_line_holds_end_open() -> None:
    shown = say("finding.steps.first", count=8, all=12, steps=[3, 4, 5, 6, 7, 8])
    assert shown == "Seen in 8 of 12 steps: 3, 4, 5, 6, 7, 8, …"
