"""What the profiler of a framework must be told to write a file."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from npu_tui.profile.file_tables import setting_of


@pytest.mark.parametrize(
    ("writer", "file", "setting"),
    [
        ("torch_npu", "operator_details.csv", "activities CPU and NPU"),
        ("mindspore", "operator_details.csv", "activities CPU and record_shapes=True"),
        ("mindspore", "api_statistic.csv", "any level"),
        ("mindspore", "op_statistic.csv", "profiler_level Level1 or Level2"),
        (None, "api_statistic.csv", "profiler_level Level1 or Level2"),
    ],
)
def test_a_file_needs_the_settings_of_its_framework(writer: str | None, file: str, setting: str) -> None:
    assert setting_of(SimpleNamespace(writer=writer), file) == setting
