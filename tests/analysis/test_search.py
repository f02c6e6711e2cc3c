from __future__ import annotations

import numpy as np

from npu_tui.analysis.search import slices_named, wanted_names


def names(trace, text: str) -> set[str]:
    return {trace.name_of(item) for item in slices_named(trace, wanted_names(trace, text))}


def test_small_letters_find_any_case(bundled):
    trace = bundled.trace
    expected = [item for item in range(len(trace.slices)) if "matmul" in trace.name_of(item).lower()]
    assert expected
    assert sorted(slices_named(trace, wanted_names(trace, "matmul")).tolist()) == expected


def test_a_capital_makes_the_case_count(bundled):
    assert names(bundled.trace, "MatMul")
    assert all("MatMul" in name for name in names(bundled.trace, "MatMul"))
    assert not names(bundled.trace, "MATMUL")


def test_hits_come_by_start(bundled):
    trace = bundled.trace
    starts = trace.slices.start[slices_named(trace, wanted_names(trace, "a"))]
    assert (np.diff(starts) >= 0).all()


def test_blanks_and_signs_are_part_of_the_name(bundled):
    assert names(bundled.trace, "ProfilerStep#")
    assert not names(bundled.trace, "ProfilerStep#.*")


def test_no_text_finds_nothing(bundled):
    assert not len(slices_named(bundled.trace, wanted_names(bundled.trace, "")))


def test_an_unknown_name_finds_nothing(bundled):
    assert not len(slices_named(bundled.trace, wanted_names(bundled.trace, "no such kernel")))
