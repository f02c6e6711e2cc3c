"""Our own regular expressions and what is made with them, on texts of 30,000 characters: a slow one hangs this test."""

from __future__ import annotations

import contextlib

import pytest

from npu_tui.analysis.code_lines import user_line
from npu_tui.analysis.operators import collective_type, foreign_type, operator_type
from npu_tui.analysis.search import SearchError, parse_search
from npu_tui.jobs.rank_files import call_name
from npu_tui.load.json_chunks import _SEPARATOR
from npu_tui.query.engine import refused
from npu_tui.query.frames import possible_names
from npu_tui.trace.text import parse_duration
from npu_tui.tui.flags import _FLAG
from npu_tui.view.bars import _KERNEL

LENGTH = 30_000
UNITS = (
    "\\/", "\\", "/", "/a ", " /a", "_12345678", "_1", "-1", "_", "a", "A1", "<", "<a>", "(", "()", "..", ".a", " ",
    "a,", "from a,", '"', "'", "--\n", "/*", "1.", "hcom_", "aclnn_", "e9", "\t", "::", "[", "名",
)  # fmt: skip
ENDS = ("", "\0!")


@pytest.mark.few(6)
@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_for_ever(unit: str) -> None:
    for end in ENDS:
        for begin in ("/", "aclnnA"):
            text = begin + unit * (LENGTH // len(unit)) + end
            for read in (foreign_type, operator_type, collective_type, call_name, user_line, parse_duration):
                read(text)  # type: ignore[operator]
            for pattern in (_FLAG, _KERNEL):
                pattern.fullmatch(text)
            _SEPARATOR.fullmatch(text.encode())
            refused(text)
            possible_names(text, ["slices"])
            with contextlib.suppress(SearchError):
                parse_search(text)


@pytest.mark.parametrize("pairs", [1, 2, 26, 40])
def test_an_unfinished_pattern_is_plain_text(pairs: int) -> None:
    text = "/" + "\\/" * pairs + "x"
    ((term,),) = [parse_search(text).terms]
    assert (term.text, term.pattern) == (text, False)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("k" + "_12345678" * 30 + "x", "k" + "_12345678" * 30 + "x"),
        ("k" + "_12345678" * 30, "k"),
        ("void gemm<float, f<3> >(int)_a1b2c3d4-7", "gemm"),
        ("_1", "_1"),
        ("fused_0d1d2d3d_4", "fused"),
    ],
)
def test_tails_of_kernels(name: str, kind: str) -> None:
    assert foreign_type(name) == kind
