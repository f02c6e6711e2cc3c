from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from written import fields_of

from npu_tui import __version__
from npu_tui.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
HEALTHY = ROOT / "fixtures" / "healthy"


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The program as a process of its own, its output no terminal."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-m", "npu_tui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def refused(*arguments: str) -> tuple[int, str]:
    """Exit code and words of wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code)


def test_help():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "npu-tui [COMMAND] [PATH …]" in done.stdout
    assert (
        "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 input not readable or output not writable, "
        "70 internal error, 130 interrupted." in " ".join(done.stdout.split())
    )


@pytest.mark.parametrize("command", ["demo", "screenshot", "check", "settings"])
def test_help_of_a_command(command, capsys):
    assert refused(command, "--help") == 0
    assert f"npu-tui {command}" in capsys.readouterr().out


def test_help_imports_nothing_heavy():
    heavy = {"numpy", "textual", "polars", "rich", "msgspec"}
    code = f"import sys, npu_tui.cli.main; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"npu-tui {__version__} (")


def test_version_says_who_reads_traces(monkeypatch):
    monkeypatch.setenv("NPU_TUI_SCANNER", "off")
    assert "Python" in run("--version").stdout


def test_the_report_where_stdout_is_no_terminal(capsys):
    done = run(str(HEALTHY))
    assert (done.returncode, done.stderr) == (0, "")
    assert main(["report", str(HEALTHY)]) == 0
    assert capsys.readouterr().out == done.stdout


def test_the_current_directory_without_a_path(monkeypatch, capsys):
    monkeypatch.chdir(HEALTHY)
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "Device time\n" in said
    assert "Findings: nothing to work on\n" in said


def test_a_list_of_several_profiles_without_a_path(tmp_path, monkeypatch, capsys):
    shutil.copytree(HEALTHY.parent / "two_ranks", tmp_path / "run 1")
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert [line.split("  ")[-1] for line in said.out.splitlines()[3:]] == [
        "'run 1'",
        "'run 1/rank0_ascend_pt'",
        "'run 1/rank1_ascend_pt'",
    ]
    assert "heat" not in said.out


def test_a_list_of_several_runs_of_one_rank(tmp_path, capsys):
    shutil.copytree(HEALTHY, tmp_path / "a_ascend_pt")
    shutil.copytree(HEALTHY.parent / "dispatch_bound", tmp_path / "b_ascend_pt")
    assert main([str(tmp_path)]) == 0
    assert {line.split("/")[-1] for line in capsys.readouterr().out.splitlines()[3:]} == {"a_ascend_pt", "b_ascend_pt"}


def test_the_report_of_the_demo(capsys):
    assert main(["demo"]) == 0
    assert "for Python: 96 launches came too late" in capsys.readouterr().out
    assert main(["demo", "healthy"]) == 0
    assert "5 starved" in capsys.readouterr().out


def test_the_demo_lists_its_names(capsys):
    assert refused("demo", "nothing") == 2
    said = capsys.readouterr().err
    assert "dispatch_bound" in said
    assert "healthy" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("--frobnicate",),
        ("screenshot",),
        ("screenshot", "x.json"),
        ("screenshot", str(HEALTHY), "-o", "x.svg", "--size", "wide"),
        ("screenshot", str(HEALTHY), "-o", "x.svg", "--size", "5x5"),
        ("screenshot", str(HEALTHY), "-o", "x.svg", "--size", "-120x40"),
    ],
)
def test_wrong_usage(arguments, capsys):
    assert refused(*arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [(), ("screenshot", "-o", "x.svg")])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b'{"a": 1}', "expected"),
        (b"[]", "event"),
        (b"\x00\xff\x1b[2J", "byte 0"),
    ],
)
def test_input_that_is_not_readable_is_one_line_on_stderr(tmp_path, monkeypatch, capsys, command, content, words):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "trace_view.json"
    if content is not None:
        file.write_bytes(content)
    assert main([*command[:1], str(file), *command[1:]]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"npu-tui: {file}: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert said.err.strip().isprintable()
    assert not (tmp_path / "x.svg").exists()


def test_a_directory_without_a_trace(tmp_path, capsys):
    assert main([str(tmp_path)]) == 3
    assert "trace_view.json" in capsys.readouterr().err


def test_a_directory_of_several_ranks_names_one(tmp_path, capsys):
    for rank in (0, 1):
        folder = tmp_path / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        folder.mkdir(parents=True)
        (folder / "trace_view.json").write_text("[]")
    assert main([str(tmp_path)]) == 3
    assert "rank0_ascend_pt" in capsys.readouterr().err


def test_interrupted(monkeypatch):
    def interrupt(path, *rest, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("npu_tui.cli.explore.explore", interrupt)
    assert main([str(HEALTHY)]) == 130


def test_a_screenshot_is_a_picture(tmp_path, capsys):
    picture = tmp_path / "x.svg"
    assert main(["screenshot", str(HEALTHY), "-o", str(picture), "--size", "100x30", "--keys", "x c"]) == 0
    text = "".join(ElementTree.fromstring(picture.read_text(encoding="utf-8")).itertext()).replace("\xa0", " ")
    assert "rank 0" in text
    assert "chain" in text
    assert capsys.readouterr().err == ""


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path, capsys):
    missing = tmp_path / "no such folder" / "x.svg"
    assert main(["screenshot", str(HEALTHY), "-o", str(missing)]) == 3
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert str(missing) in said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [("report", str(HEALTHY)), ("report", str(HEALTHY), "--format", "json"), ("keys",)])
def test_a_full_disk_behind_stdout_is_one_line(words):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "npu_tui", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (3, "npu-tui: standard output: No space left on device\n")


def test_want_of_memory_is_one_line(monkeypatch, capsys):
    def exhausted(parser, options):
        raise MemoryError

    monkeypatch.setattr("npu_tui.cli.report.run_report", exhausted)
    assert main(["report", str(HEALTHY)]) == 3
    assert capsys.readouterr().err.startswith("npu-tui: not enough memory")


def test_a_picture_of_a_pipe(tmp_path):
    trace = next(HEALTHY.rglob("trace_view.json")).read_bytes()
    command = [sys.executable, "-m", "npu_tui", "screenshot", "-", "-o", str(tmp_path / "x.svg")]
    done = subprocess.run(command, input=trace, capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ElementTree.parse(tmp_path / "x.svg").getroot() is not None


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-m", "npu_tui", str(HEALTHY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as started:
        started.stdout.close()
        said = started.stderr.read()
        started.wait(60)
    assert (said, started.returncode) == ("", 0)


def test_report_as_text_and_json(capsys):
    def told(*words):
        assert main(["report", str(HEALTHY), *words]) == 0
        return capsys.readouterr().out

    assert "Dispatch" in told()
    found = fields_of(told("--format", "json"))
    assert (found["schema_version"], found["source"]["rank"]) == (2, 0)
    part = fields_of(told("--format", "json", "--range", "1ms..5ms"))
    assert part["overlap"]["total_us"] <= 4000.0 < found["overlap"]["total_us"]


@pytest.mark.parametrize("words", [("--range", "later"), ("--step", "999"), ("--format", "xml")])
def test_report_refuses_wrong_usage(words):
    assert refused("report", str(HEALTHY), *words) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("report fixtures/healthy >&-", "npu-tui: standard output is closed; redirect it to a file or a pipe\n"),
        ("report - <&-", "npu-tui: -: there is no standard input; give a file\n"),
    ],
)
def test_streams_that_the_shell_has_closed(command: str, said: str) -> None:
    done = subprocess.run(["bash", "-c", f'"{sys.executable}" -m npu_tui {command}'], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, said)
