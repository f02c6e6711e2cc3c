"""Runs the tests in processes forked from the one that has collected them, so that nothing is imported twice.

``--forks 4`` is what ``pytest -n 4`` of pytest-xdist is, whose processes each import and collect all tests anew. Each
process takes the next stretch of the tests when it is done with one: long stretches first, which share what a file
loads, and single tests at the end, when the others would wait for a long one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from glob import glob
from mmap import mmap
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

import pytest

_ROUNDS = 6
"""Stretches are as long as the tests that are left, dealt out to all processes so many times."""


def stretches(files: list[Path], processes: int) -> Iterator[range]:
    """The tests of ``files``, one each, in stretches that end with a file where one ends soon."""
    begin = 0
    while begin < len(files):
        size = max((len(files) - begin) // (_ROUNDS * processes), 1)
        ends = range(begin + size, min(begin + 2 * size, len(files)))
        end = next((at for at in ends if files[at] != files[at - 1]), min(begin + size, len(files)))
        yield range(begin, end)
        begin = end


class _Told:
    """What a process tells the one that has forked it."""

    def __init__(self, config: pytest.Config, to: Connection) -> None:
        self._config, self.to = config, to

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.to.send(("begins", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.to.send(("report", told))

    def pytest_warning_recorded(self, warning_message: object, when: str, nodeid: str, location: object) -> None:
        self.to.send(("warning", warning_message, when, nodeid, location))


def _run(session: pytest.Session, tasks: list[range], numbers: int, stop: mmap, told: _Told) -> None:
    """Run stretches of ``tasks`` while ``numbers`` of some are left and nobody says ``stop``."""
    config = session.config
    manager = config.pluginmanager
    captured = manager.getplugin("capturemanager")._global_capturing
    for part in (captured.out, captured.err):
        if getattr(part, "tmpfile", None) is not None:  # all processes would share the file behind it
            with TemporaryFile(buffering=0) as own:
                os.dup2(own.fileno(), part.tmpfile.fileno(), inheritable=False)
    manager.getplugin("terminalreporter")._tw._file = open(os.devnull, "w")  # noqa: SIM115 - until it ends
    folders = config._tmp_path_factory
    folders._basetemp = folders.getbasetemp() / f"fork{os.getpid()}"
    folders._basetemp.mkdir(mode=0o700)
    manager.register(told)
    for inherited in list(finalize._registry):
        inherited.atexit = False  # such as the removal of a folder that others read as well

    def following() -> list[int]:
        number = os.read(numbers, 4)
        return list(tasks[int.from_bytes(number, "little")]) if number else []

    left = following()
    while left:
        item = session.items[left.pop(0)]
        left = [] if stop[0] else left or following()
        config.hook.pytest_runtest_protocol(item=item, nextitem=session.items[left[0]] if left else None)


def _forked(session: pytest.Session, tasks: list[range], numbers: int, stop: mmap, sides: list[Connection]) -> int:
    """A process that runs some of ``tasks``; it tells so to the last of ``sides``, and the others are not its own."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for side in sides[:-1]:
            side.close()
        _run(session, tasks, numbers, stop, _Told(session.config, sides[-1]))
        finalize._exitfunc()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what ends pytest is asked by the process that has forked this one


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the tests in so many processes, forked when collected")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config, count = session.config, session.config.getoption("forks")
    if count < 2 or config.option.collectonly or session.testsfailed:
        return None
    if any(Path(file).read_text().startswith("polars-0") for file in glob("/proc/self/task/*/comm")):
        raise pytest.UsageError("a test asks polars while it is imported: its threads do not come along in a fork")
    tasks = list(stretches([item.path for item in session.items], count))
    config._tmp_path_factory.getbasetemp()
    numbers, given = os.pipe()
    os.write(given, b"".join(number.to_bytes(4, "little") for number in range(len(tasks))))
    os.close(given)
    stop = mmap(-1, 1)  # all processes see it
    running: dict[Connection, tuple[int, tuple[str, object] | None]] = {}
    for _ in range(count):
        ours, theirs = Pipe(duplex=False)
        running[ours] = (_forked(session, tasks, numbers, stop, [*running, ours, theirs]), None)
        theirs.close()
    while running:
        for each in wait(list(running)):
            try:
                kind, *told = each.recv()
            except EOFError:
                pid, at = running.pop(each)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if code:
                    _tell_end(config, code, at or ("before any test", ("", None, "")))
                continue
            if kind == "begins":
                running[each] = (running[each][0], tuple(told))
                config.hook.pytest_runtest_logstart(nodeid=told[0], location=told[1])
            elif kind == "warning":
                names = ("warning_message", "when", "nodeid", "location")
                config.hook.pytest_warning_recorded.call_historic(kwargs=dict(zip(names, told, strict=True)))
            else:
                report = config.hook.pytest_report_from_serializable(config=config, data=told[0])
                config.hook.pytest_runtest_logreport(report=report)
        if session.shouldfail or session.shouldstop:
            stop[0] = 1
    os.close(numbers)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def _tell_end(config: pytest.Config, code: int, at: tuple[str, object]) -> None:
    """A process that ends of itself has failed the test that it was at."""
    report = pytest.TestReport(at[0], at[1], {}, "failed", f"the process that ran it ended with {code}", "call")
    config.hook.pytest_runtest_logreport(report=report)
