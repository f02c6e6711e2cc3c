from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tui.analysis.search import (
    FIELDS,
    LAUNCHES,
    FrameTerm,
    LaunchClass,
    Place,
    SearchError,
    SliceClass,
    StepNumber,
    Text,
    Time,
    parse_search,
)
from npu_tui.trace.args import Arg
from npu_tui.trace.classes import OpClass

PLACES = ("Stream 3", "Group 7 Communication", "CANN", "Ascend Hardware")

READ = {
    "Gelu": [Text("Gelu")],
    "aten::add": [Text("aten::add")],
    "nn.Module: Linear": [Text("nn.Module: Linear")],
    "/home/user/train.py(3): step": [Text("/home/user/train.py(3): step")],
    "/mat.*mul/": [Text("mat.*mul", pattern=True)],
    "/a b/ /c/": [Text("a b", pattern=True), Text("c", pattern=True)],
    "Mul /^aclnn/": [Text("Mul"), Text("^aclnn", pattern=True)],
    "name:Mul": [Text("Mul")],
    "name=aten::mul": [Text("aten::mul", whole=True)],
    "name:/^aten/": [Text("^aten", pattern=True)],
    "dur>1ms": [Time("dur", ">", 1_000_000)],
    "dur<=40us start>=12": [Time("dur", "<=", 40_000), Time("start", ">=", 12_000_000)],
    "end<1.5s dur=20ns": [Time("end", "<", 1_500_000_000), Time("dur", "=", 20)],
    "layer:cann Mul": [Place("layer", "cann", False), Text("Mul")],
    "layer:Ascend Hardware Mul": [Place("layer", "ascend hardware", False), Text("Mul")],
    "lane:Stream 3": [Place("lane", "stream 3", False)],
    'lane="Stream 3" x': [Place("lane", "stream 3", True), Text("x")],
    "class:starved": [LaunchClass("starved")],
    "class:near_vertical": [LaunchClass("near-vertical")],
    "class:cube": [SliceClass(OpClass.CUBE)],
    "line:main.py:354": [FrameTerm("main.py", 354)],
    "line:main.py": [FrameTerm("main.py", None)],
    "line:354": [FrameTerm("", 354)],
    "step:50": [StepNumber(50)],
    "step:#50": [StepNumber(50)],
    "arg:Input Dims~1024": [Arg("input dims", "~", "1024")],
    "arg:Input Dims~1024 Mul dur>1ms": [Arg("input dims", "~", "1024"), Text("Mul"), Time("dur", ">", 1_000_000)],
    "arg:1024": [Arg("", "~", "1024")],
    "arg:Block Dim>=20": [Arg("block dim", ">=", "20")],
    'arg:Input type~"long int" Mul': [Arg("input type", "~", "long int"), Text("Mul")],
    "arg:Task Type=AI_CORE": [Arg("task type", "=", "ai_core")],
    "arg:Call stack~": [Arg("call stack", "~", "")],
    "": [],
    "   ": [],
}

REFUSED = {
    "dur>": "dur needs",
    "dur:1ms": "dur needs",
    "dur>soon": "dur>40us",
    "class:": "class:starved",
    "class:slow": "near-vertical",
    "layer:": "layer:cann",
    "layer>3": "layer needs a colon",
    "step:x": "step:50",
    "line:": "line:main.py:354",
    "arg:": "arg needs",
    "arg>3": "arg needs",
    "arg:size>big": "arg needs",
    "/(/": "not a valid regular expression",
}


@pytest.mark.parametrize(("text", "terms"), READ.items(), ids=repr)
def test_a_query_is_read(text: str, terms: list[object]):
    assert list(parse_search(text, PLACES).terms) == terms


@pytest.mark.parametrize(("text", "words"), REFUSED.items(), ids=repr)
def test_what_cannot_be_looked_for_says_in_one_line_what_is_allowed(text: str, words: str):
    with pytest.raises(SearchError, match=re.escape(words)) as refused:
        parse_search(text, PLACES)
    assert "\n" not in str(refused.value)


def test_case_counts_only_with_a_capital():
    assert Text("matmul").any_case
    assert not Text("MatMul").any_case
    assert Text(r"^\S+\Wmul", pattern=True).any_case
    assert not Text(r"\SMul", pattern=True).any_case


@given(st.text(alphabet='ab /:~<>="\\(1.', max_size=20), st.sampled_from(FIELDS), st.sampled_from(LAUNCHES))
def test_any_text_is_read_or_refused(text: str, field: str, launch: str):
    for line in (text, f"{field}:{text}", f"{text} class:{launch}"):
        with suppress(SearchError):
            assert bool(parse_search(line, PLACES).terms) == bool(line.strip())
