"""Files that texts name: put where they say, under the name they say, each is found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from measured import profile_at

from npu_tui.load.find import find_source
from npu_tui.output.report import report
from npu_tui.strings import texts_of

_FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "level0"
_PACKAGE = Path(__file__).resolve().parents[2] / "npu_tui"
_FILE = re.compile(r"(?<![\w{*<>./-])[a-z][\w<>*]*\.(?:jsonl?|csv|db|txt|pkl|pickle|bin|yaml|toml)\b")
_OPENED = {
    "request.csv": ("http_rid,start_time(ms)\na,1.0\n", "service"),
    "batch.csv": ("name,res_list,start_time(ms),end_time(ms)\n", "service"),
    "forward.csv": ("name,start_time(ms),end_time(ms),forward_iter\n", "service"),
    "trace.txt": ("# tracer: nop\n#\n", "ftrace"),
}
"""What is opened by itself: its beginning, and what it is then."""
_BESIDE = frozenset({
    "ftrace_data.db", "pid_mapping.json", "model_gen_config.json", "profiler_config.json", "visualize_data.bin",
    "ascend_pytorch_profiler_*.db", "msprof_*.db", "msprof_*.json",
})  # fmt: skip
"""What tests of its own subject read, each under this name."""


def _named() -> list[str]:
    every = [name for language in ("en", "zh") for text in texts_of(language).values() for name in _FILE.findall(text)]
    return sorted({name for name in every if not name.endswith((".html", ".svg"))})


@pytest.mark.parametrize("name", _named())
def test_a_file_that_a_text_names_is_found_under_that_name(tmp_path: Path, name: str) -> None:
    if name in _OPENED:
        content, kind = _OPENED[name]
        (tmp_path / name).write_text(content)
        assert find_source(tmp_path / name).kind == kind
        return
    if name in _BESIDE:
        pattern = name.partition("*")[0]
        assert any(pattern in file.read_text() for file in _PACKAGE.rglob("*.py"))
        return
    profile = tmp_path / "rank_ascend_pt"
    shutil.copytree(_FIXTURE, profile)
    output = profile / "ASCEND_PROFILER_OUTPUT"
    if name == "profiler_info_<rank>.json":
        for old in profile.glob("profiler_info_*"):
            old.rename(profile / "profiler_info_7.json")
        assert profile_at(profile).trace.rank == 7
        return
    if name == "trace_view.json":
        assert find_source(profile).path == output / name
        return
    place = profile if name.startswith("profiler_") else output
    (place / name).write_text("{}" if name.endswith(".json") else "a,b\n1,2\n")
    (found,) = [row for row in report(profile_at(profile)).files if row.name == name]
    assert found.state != "missing"
