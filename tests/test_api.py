"""The Python API as a notebook uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from measured import answers, profile_at
from written import fields_of

import npu_tui
from npu_tui.output.envelope import side_by_side

ROOT = Path(__file__).resolve().parents[1]
BOUND, HEALTHY, JOB = (ROOT / "fixtures" / name for name in ("dispatch_bound", "healthy", "two_ranks"))

NOTEBOOK = f"""
import sys
import npu_tui
assert not {{"numpy", "polars", "msgspec", "npu_tui.api"}} & set(sys.modules)

p = npu_tui.open({str(BOUND)!r}, cached=False)
worst = p.sql("SELECT file, line, lost FROM code_lines ORDER BY lost DESC").row(0, named=True)
print(worst["file"], worst["line"])

import polars as pl
busiest = (
    p.kernels.group_by("type").agg(pl.col("duration").sum() / 1e6, calls=pl.len())
    .sort("duration", descending=True).collect()
)
print(busiest["type"][0], busiest["calls"][0])
print(p.links.filter(pl.col("category") == "HostToDevice").select(pl.len()).collect().item())
print(p.steps.collect().height, p.findings.select("id").collect()["id"][0])
print(p.report().data.dispatch.links)
print(p.compare(npu_tui.open({str(HEALTHY)!r}, cached=False)).verdict)
print(p.timeline(range="1ms..2ms").svg[:4])
assert not {{"textual", "rich"}} & {{name.partition(".")[0] for name in sys.modules}}
"""


def test_a_notebook_runs() -> None:
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = answers(profile_at(BOUND).trace, opened=BOUND)
    line, kernel, links, steps, dispatched, _, picture = done.stdout.splitlines()
    worst = told["dispatch"]["code_lines"][0]
    assert line == f"{worst['file']} {worst['line']}"
    assert int(kernel.rsplit(" ", 1)[1]) == sum(
        row["count"] for row in told["operators"] if row["type"] == kernel.rsplit(" ", 1)[0]
    )
    assert int(links) >= told["dispatch"]["links"] == int(dispatched)
    assert steps == f"{len(told['steps'])} {told['findings'][0]['id']}"
    assert picture == "<svg"


@pytest.fixture(scope="module")
def profile() -> npu_tui.Profile:
    return npu_tui.open(BOUND, cached=False)


def test_every_table_is_an_attribute(profile: npu_tui.Profile) -> None:
    for name in profile.tables:
        frame = getattr(profile, name)
        assert isinstance(frame, pl.LazyFrame)
        assert frame.collect_schema() == profile.table(name).collect_schema()
    assert set(profile.tables) <= set(dir(profile))
    with pytest.raises(AttributeError, match="no attribute 'kernel'"):
        profile.kernel  # noqa: B018


def test_report_is_that_of_the_command(profile: npu_tui.Profile) -> None:
    whole = answers(profile_at(BOUND).trace, opened=BOUND)
    assert fields_of(profile.report().json()) == whole
    assert side_by_side(profile.report().to_dict()) == whole
    assert str(profile.report()) == profile.report().text()
    assert profile.verdict.splitlines() == whole["verdict"] == profile.report().verdict
    part = profile.report(range="2ms..4ms").to_dict()
    assert part["sections"]["selection"] == {"start_us": 2000.0, "end_us": 4000.0, "step": None}
    assert profile.report(range=(2_000_000, 4_000_000)).to_dict() == part
    assert profile.report(range=(None, 4_000_000)).data.selection is not None
    number = next(row["step"] for row in whole["steps"] if row["step"] is not None)
    assert profile.report(step=number).data.selection is not None


def test_notebooks_show_pages(profile: npu_tui.Profile, tmp_path: Path) -> None:
    assert profile._repr_html_().count("<svg") == 1
    assert "slices" in repr(profile)
    assert profile.report()._repr_html_().startswith("<iframe sandbox")
    compared = profile.compare(npu_tui.open(HEALTHY, cached=False))
    assert compared._repr_html_().startswith("<iframe sandbox")
    assert compared.to_dict()["kind"] == "compare"
    profile.timeline(step=None, dark=True).save(tmp_path / "lanes.svg")
    assert (tmp_path / "lanes.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_job_has_tables_of_all_ranks() -> None:
    job = npu_tui.open_job(JOB, cached=False)
    assert job.ranks.select("rank").collect()["rank"].to_list() == [0, 1]
    assert not len(job.stages.collect())
    counts = job.sql("SELECT rank, count(*) AS n FROM slices GROUP BY rank ORDER BY rank")["n"].to_list()
    assert counts == [len(each.measured.trace.slices) for each in job.profiles]
    assert "2 ranks" in repr(job)
    assert job._repr_html_().startswith("<pre>")


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda p: npu_tui.open("/nowhere"), "/nowhere"),
        (lambda p: npu_tui.open(JOB), "two_ranks"),
        (lambda p: npu_tui.open_job(ROOT / "fixtures" / "decimal_pids" / "nothing"), "nothing"),
        (lambda p: p.sql("SELECT nam FROM slices"), "there is no column nam; did you mean name?"),
        (lambda p: p.table("kernel"), "there is no table kernel; did you mean kernels?"),
        (lambda p: p.report(range="4ms..2ms"), "a range is two times, such as 12ms..14ms"),
        (lambda p: p.report(range=(5, 5)), "a range is two times, such as 12ms..14ms"),
        (lambda p: p.report(step=99), "step 99 does not exist or launched nothing"),
        (lambda p: p.timeline(range="1ms..2ms", step=1), "give a range or a step, not both"),
        (lambda p: npu_tui.open(5), "path is a int: str | PathLike is asked for"),
        (lambda p: npu_tui.open_job(None), "path is a NoneType"),
        (lambda p: p.sql(b"SELECT 1"), "query is a bytes: str is asked for"),
        (lambda p: p.table(["slices"]), "name is a list"),
        (lambda p: p.report(range=3), "range is a int: str | tuple | None is asked for"),
        (lambda p: p.report(range=("a", 5)), "range is a str: tuple[int | None, int | None] is asked for"),
        (lambda p: p.report(range=(1, 2, 3)), "a range is two times"),
        (lambda p: p.report(step=1.5), "step is a float: int | str | None is asked for"),
        (lambda p: p.compare("base"), "other is a str: Profile is asked for"),
        (lambda p: p.borrow(None), "eager is a NoneType"),
        (lambda p: p.timeline().save(3), "path is a int"),
    ],
)
def test_errors_are_one_line(profile: npu_tui.Profile, ask, told: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(npu_tui.Error) as caught:
        ask(profile)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_are_those_of_the_stub() -> None:
    import ast

    stub = ast.parse((ROOT / "npu_tui" / "__init__.pyi").read_text(encoding="utf-8"))
    named = {each.asname for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for each in node.names}
    assert named == set(npu_tui.__all__)
    assert all(getattr(npu_tui, name) is not None for name in npu_tui.__all__)
    with pytest.raises(AttributeError):
        npu_tui.nothing  # noqa: B018
