"""``npu-tui query`` from the shell: forms of the answer, where it goes, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asking import FIXTURES, ROOT
from written import fields_of

from npu_tui.cli.main import main
from npu_tui.query.engine import EXAMPLES
from npu_tui.query.frames import ONE_PROFILE, TABLES

PROFILE = str(FIXTURES / "dispatch_bound")
SQL = "SELECT type, count(*) AS calls, sum(duration) AS total FROM kernels GROUP BY type ORDER BY total DESC, type"


def asked(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["query", *words, "--no-cache"]) == code
    return capfd.readouterr().out


def test_json_is_exact_and_safe_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    odd = "a\u202eb\x9b\x7f\U000e0041\u4e2d"
    for form in ("json", "ndjson"):
        written = asked(capfd, PROFILE, f"SELECT '{odd}' AS t", "--format", form)
        assert [char for char in written if not char.isprintable()] == ["\n"]
        assert json.loads(written if form == "ndjson" else written.strip()[1:-1]) == {"t": odd}
        assert "\u4e2d" in written


def test_answers_agree_in_every_form(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = json.loads(asked(capfd, PROFILE, SQL, "--format", "json"))
    assert len(told) > 3
    assert [json.loads(line) for line in asked(capfd, PROFILE, SQL, "--format", "ndjson").splitlines()] == told
    assert pl.read_csv(BytesIO(asked(capfd, PROFILE, SQL).encode())).to_dicts() == told
    readers: dict[str, Any] = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "csv": pl.read_csv}
    for form, read in readers.items():
        file = tmp_path / f"answer.{form}"
        asked(capfd, PROFILE, SQL, "-o", str(file))
        assert read(file).with_columns(pl.col("type").cast(pl.String)).to_dicts() == told
    lines = asked(capfd, PROFILE, SQL, "--format", "table").splitlines()
    assert lines[0].split() == ["type", "calls", "total"]
    assert [line.split() for line in lines[1:]] == [[row["type"], str(row["calls"]), str(row["total"])] for row in told]


def test_without_sql_tables_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    text = asked(capfd, PROFILE)
    for table in TABLES.values():
        if table.id in ONE_PROFILE:
            assert f"{table.id}: " in text
    assert "duration[ns]" in text
    one = asked(capfd, PROFILE, "kernels")
    assert [line.split()[0] for line in one.splitlines()[2:]][: len(TABLES["kernels"].sql)] == [
        column.id for column in TABLES["kernels"].sql
    ]
    found = fields_of(asked(capfd, PROFILE, "--format", "json"))["tables"]
    assert [row["table"] for row in found] == list(ONE_PROFILE)


def test_examples_are_the_gallery(capfd: pytest.CaptureFixture[str]) -> None:
    text = asked(capfd, "--examples")
    assert all(sql in text for sql in EXAMPLES.values())


def test_a_query_comes_from_a_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text(f"-- kernels by type\n{SQL};\n", encoding="utf-8")
    assert asked(capfd, PROFILE, "--file", str(file)) == asked(capfd, PROFILE, SQL)


def test_rows_are_limited(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["query", PROFILE, "SELECT name FROM slices", "--format", "table", "--no-cache"]) == 0
    out, told = capfd.readouterr()
    assert len(out.splitlines()) == 101
    assert told == "only the first 100 rows; --limit 0 shows all\n"
    whole = asked(capfd, PROFILE, "SELECT name FROM slices", "--format", "table", "--limit", "0")
    assert len(whole.splitlines()) == len(asked(capfd, PROFILE, "SELECT name FROM slices").splitlines()) > 101
    assert len(asked(capfd, PROFILE, "SELECT name FROM slices", "--limit", "5").splitlines()) == 6


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["SELECT nam FROM slices"], 2, "npu-tui: there is no column nam; did you mean name?\n"),
        (["SELECT * FROM slice"], 2, "npu-tui: there is no table slice; did you mean slices?\n"),
        (["SELECT * FROM ranks"], 2, "npu-tui: there is no table ranks; did you mean links?\n"),
        (["SELECT 1", "-o", "/nowhere/x.csv"], 3, "npu-tui: /nowhere/x.csv: No such file or directory\n"),
    ],
)
def test_what_is_wrong_is_one_line(capfd: pytest.CaptureFixture[str], words: list[str], code: int, told: str) -> None:
    assert main(["query", PROFILE, *words, "--no-cache"]) == code
    out, err = capfd.readouterr()
    assert (out, err) == ("", told)


@pytest.mark.parametrize(
    "words", [["--limit", "-1"], ["--limit", "x"], ["--file", "/nowhere.sql"], ["--format", "xml"]]
)
def test_wrong_usage_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["query", PROFILE, *([] if "--file" in words else ["SELECT 1"]), *words])
    assert caught.value.code == 2


def test_hostile_names_do_not_reach_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": str(number), "dur": 1, "name": name}
        for number, name in enumerate(["\x1b[31mred", "a\u202eb", "\ud800", "=cmd()", "two\nlines"])
    ]
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(events), encoding="utf-8")
    for form in ("table", "csv", "json"):
        text = asked(capfd, str(file), "SELECT name FROM slices ORDER BY start", "--format", form)
        assert not {"\x1b", "\u202e", "\ud800"} & set(text)
        assert "=cmd()" in text


def test_a_folder_of_ranks_has_rows_of_all(capfd: pytest.CaptureFixture[str]) -> None:
    job = str(FIXTURES / "two_ranks")
    told = json.loads(
        asked(capfd, job, "SELECT rank, count(*) n FROM slices GROUP BY rank ORDER BY rank", "--format", "json")
    )
    assert [row["rank"] for row in told] == [0, 1]
    ranks = json.loads(asked(capfd, job, "SELECT rank, came_last FROM ranks ORDER BY rank", "--format", "json"))
    assert [row["rank"] for row in ranks] == [0, 1]


ENDLESS = """
import sys
import npu_tui.query.query as tables
from npu_tui.cli.main import main
own = tables.query
def query(*words):
    print("begun", flush=True)
    return own(*words)
tables.query = query
sql = "SELECT sum(sin(a.start * b.start) * cos(c.value)) FROM slices a CROSS JOIN slices b CROSS JOIN counters c"
sql += " WHERE sin(a.start + b.start) * cos(c.value + b.duration) > 0.1"
sys.exit(main(["query", sys.argv[1], sql, "--no-cache"]))
"""


def test_ctrl_c_ends_a_long_query() -> None:
    command = [sys.executable, "-c", ENDLESS, PROFILE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
