"""The compiled scanner makes of damaged traces what the reader in Python makes of them."""

from __future__ import annotations

import pytest
import scanner

from npu_tui.native.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiled scanner for this machine")


def test_mutants_are_the_same_to_the_bit() -> None:
    _, problems = scanner.run_mutants(seed=7, numbers=range(12))
    assert problems == []


def test_every_cut_gives_the_complete_events() -> None:
    _, problems = scanner.run_cuts("healthy", 0, 4_001)
    assert problems == []


def test_giants_are_the_same() -> None:
    ended, problems = scanner.run_giants(scale=100)
    assert problems == []
    assert ended["same"] > 10
