"""Cells of CSV are never run by a spreadsheet."""

from __future__ import annotations

import pytest

from npu_tui.tui.tabs.table import _inert


@pytest.mark.parametrize("cell", ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-1+1|x", "\t=1", "-x"])
def test_a_formula_becomes_text(cell: str) -> None:
    assert _inert(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["-5", "+12.5 %", "-1,204 µs", "MatMul", "", "a=b", "-3.2%"])
def test_figures_and_names_stay(cell: str) -> None:
    assert _inert(cell) == cell
