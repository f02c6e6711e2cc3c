"""Causes that no rule knows are named by line and gain; ``python tests/unforeseen.py`` tries all of them."""

from __future__ import annotations

import pytest
from unforeseen import judge

NAMED = (
    "lock_of_logging_thread",
    "json_of_metrics",
    "thread_pool_result",
    "lambda_in_scheduler",
    "compiled_extension",
    "regex_on_tokens",
    "tokenizer_in_loop",
    "yaml_reload",
)
HIDDEN = ("stat_on_nfs", "zlib_compression")
"""The host is far enough ahead of the device."""


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMED)
def test_a_cause_is_named_by_line_and_gain(name: str) -> None:
    causes, _ = judge(name, 3)
    assert causes
    for cause in causes:
        assert cause.gain > 0.05 * cause.step
        assert cause.owner, cause
        assert cause.finding, cause


@pytest.mark.parametrize("name", HIDDEN)
def test_what_the_device_hides_gains_nothing(name: str) -> None:
    causes, _ = judge(name, 3)
    assert all(cause.gain < 0.03 * cause.step for cause in causes)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["healthy_device_bound", "healthy_far_ahead", "healthy_no_frames"])
def test_a_healthy_job_is_quiet(name: str) -> None:
    assert judge(name, 3) == ([], [])
