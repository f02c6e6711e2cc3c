"""``npu-tui record`` and ``analyse``: from a slow job to a profile that can be opened, and to its verdict."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_tui.cli.parser import Parser, parser_of
from npu_tui.cli.streams import DONE, INTERRUPTED, StatusLine, refuse, write
from npu_tui.record import Progress, RecordClock, RecordError, RecordRequest, StoppedError, stopped_at
from npu_tui.strings import say, words
from npu_tui.trace.text import drawable, padded, printable, wait_text, whole_number, wrapped

if TYPE_CHECKING:
    from npu_tui.record.recording import Recorder, RecordingSource

_SHOWN_SECONDS = 0.25
_LINE_SECONDS = 30.0
"""Seconds between two lines about one state, where there is no terminal that a line could change on."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


def record_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui record``."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help=say("record.dir"))
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--url", metavar="URL", help=say("record.url"))
    way.add_argument("--service", metavar="FILE.json", help=say("record.service"))
    way.add_argument("--dyno", metavar="HOST[:PORT]", help=say("record.dyno"))
    way.add_argument("--setup", action="store_true", help=say("record.setup"))
    parser.add_argument("--certs", metavar="FOLDER", help=say("record.certs"))
    parser.add_argument("--steps", default="5", metavar="N", help=say("record.steps"))
    parser.add_argument("--warmup", default="0", metavar="N", help=say("record.warmup"))
    parser.add_argument("--seconds", metavar="S", help=say("record.seconds"))
    parser.add_argument("--at", metavar="STEP", help=say("record.at"))
    parser.add_argument("--ranks", default="", metavar="0,8", help=say("record.ranks"))
    parser.add_argument("--level", choices=("0", "1", "2"), default="1", help=say("record.level"))
    parser.add_argument("--stack", action="store_true", help=say("record.stack"))
    parser.add_argument("--shapes", action="store_true", help=say("record.shapes"))
    parser.add_argument("--memory", action="store_true", help=say("record.memory"))
    parser.add_argument("-o", "--out", metavar="FOLDER", help=say("record.out"))
    parser.add_argument("--python", default="python3", metavar="PYTHON", help=say("record.python"))
    parser.add_argument("--wait", default="600", metavar="S", help=say("record.wait"))
    parser.add_argument("--every", metavar="10m", help=say("record.every"))
    parser.add_argument("--keep", metavar="N", help=say("record.keep"))
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--report", action="store_true", help=say("record.report"))
    then.add_argument("--check", nargs=argparse.REMAINDER, metavar="LIMIT", help=say("record.check"))


def run_record(parser: Parser, options: argparse.Namespace) -> int:
    """Record what ``options`` name, then open, report or check it; returns the exit code."""
    if options.setup:
        _write_setup()
        return DONE
    source = _source_option(parser, options)
    wanted = _record_request(parser, options)
    every, keep = _repeated(parser, options)
    from npu_tui.record.recording import Recorder

    recorder = Recorder(source, wanted)
    while True:
        code = _followed(recorder.record(clock := _ShownClock()), clock)
        if code == DONE:
            code = _then(recorder, options, every is not None)
            if keep is not None:
                recorder.keep(keep)
        if every is None or code == INTERRUPTED:
            return code
        time.sleep(every)


def _number_option(parser: Parser, options: argparse.Namespace, name: str, least: int = 0) -> int:
    found = whole_number(getattr(options, name))
    if found is None or found < least:
        parser.error(say("record.bad_number", option=f"--{name}", least=least))
    return found


def _rank_option(parser: Parser, options: argparse.Namespace) -> tuple[int, ...]:
    found = []
    for part in filter(None, map(str.strip, options.ranks.split(","))):
        rank = whole_number(part)
        if rank is None:
            parser.error(say("record.bad_ranks", text=options.ranks))
        found.append(rank)
    return tuple(found)


def _source_option(parser: Parser, options: argparse.Namespace) -> RecordingSource:
    from npu_tui.record.recording import RecordingSource

    ways = [options.dir, options.url, options.service, options.dyno]
    if sum(way is not None for way in ways) != 1:
        parser.error(say("record.one_way"))
    if options.url is not None and options.out is None:
        parser.error(say("record.needs_out"))
    return RecordingSource(
        None if options.dir is None else Path(options.dir).absolute(),
        options.url,
        None if options.service is None else Path(options.service),
        options.dyno,
        None if options.certs is None else Path(options.certs),
        options.python,
    )


def _record_request(parser: Parser, options: argparse.Namespace) -> RecordRequest:
    from npu_tui.record.recording import PROFILES

    out = options.out or (Path(options.dir) / PROFILES if options.dir is not None else PROFILES)
    seconds = None if options.seconds is None else _seconds(parser, "--seconds", options.seconds)
    return RecordRequest(
        Path(out).absolute(),
        _number_option(parser, options, "steps", 1),
        _number_option(parser, options, "warmup"),
        _rank_option(parser, options),
        None if options.at is None else _number_option(parser, options, "at", 1),
        int(options.level),
        options.stack,
        options.shapes,
        options.memory,
        seconds,
        _seconds(parser, "--wait", options.wait),
    )


def _seconds(parser: Parser, option: str, text: str) -> float:
    """The seconds that ``text`` says: a number, or one with s, m or h."""
    number = whole_number(text.rstrip("smh"))
    unit = _UNITS.get(text[len(text.rstrip("smh")) :] or "s")
    if number is None or unit is None or number < 1:
        parser.error(say("record.bad_seconds", option=option, text=text))
    return float(number * unit)


def _repeated(parser: Parser, options: argparse.Namespace) -> tuple[float | None, int | None]:
    if options.every is None:
        if options.keep is not None:
            parser.error(say("record.keep_every"))
        return None, None
    return _seconds(parser, "--every", options.every), None if options.keep is None else _number_option(
        parser, options, "keep", 1
    )


class _ended_by_signals:  # noqa: N801 - used as a statement
    """Inside, Ctrl+C and the signals that end a program raise ``KeyboardInterrupt`` once, then end ``clock``.

    What puts the switch of a job back, or takes a half analysis away, is not interrupted by impatience; the third is
    heard at once.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    _MOST = 3

    def __init__(self, clock: RecordClock) -> None:
        self._clock, self._heard = clock, 0

    def __enter__(self) -> None:
        # What a shell has a program ignore stays ignored.
        self._before = {each: signal.getsignal(each) for each in self._SIGNALS}
        for each, before in self._before.items():
            if before is not signal.SIG_IGN:
                signal.signal(each, self._interrupt)

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)

    def _interrupt(self, number: int, frame: Any) -> None:
        self._heard += 1
        self._clock.stop()
        if self._heard >= self._MOST:
            os._exit(INTERRUPTED)
        if self._heard == 1 and not (frame and frame.f_code.co_filename.startswith("<frozen importlib")):
            raise KeyboardInterrupt  # the callback of an import lock would swallow it; the clock has it too


class _ShownClock(RecordClock):
    """A clock that shows on a terminal what is waited for, and since when; elsewhere each state is a line."""

    def __init__(self) -> None:
        super().__init__()
        self._line = StatusLine()
        self._begun = self._since = self.now()
        self._text = self._stage = self._code = ""
        self._told = 0.0

    def tell(self, progress: Progress) -> None:
        """``progress`` is what is going on from now on."""
        stage = say(f"record.stage.{progress.stage}")
        text = f"{stage}: {printable(words(progress.said))}"
        if stage != self._stage:
            self.keep()
            self._since = self.now()
        is_news = progress.said.code != self._code or self.now() - self._told >= _LINE_SECONDS
        self._stage, self._text, self._code = stage, text, progress.said.code
        if not self._line.is_on and is_news:
            self._told = self.now()
            self._print(text)

    def wait(self, seconds: float) -> None:
        """Wait, and show meanwhile how long it has been."""
        until = self.now() + seconds
        while self._line.is_on and self.now() + _SHOWN_SECONDS < until:
            self._draw()
            super().wait(_SHOWN_SECONDS)
        self._draw()
        super().wait(max(until - self.now(), 0))

    def _draw(self) -> None:
        self._line.show(f"{self._text}  {wait_text((self.now() - self._since) * 1e9)}")

    def _print(self, text: str) -> None:
        begun = padded(wait_text((self.now() - self._begun) * 1e9), 9)
        print(f"{begun}  {drawable(text)}", file=sys.stderr, flush=True)

    def keep(self) -> None:
        """Let what is going on stand on the terminal as it is now."""
        self.clear()
        if self._line.is_on and self._text:
            self._print(self._text)

    def clear(self) -> None:
        """Take the line away that shows what is waited for."""
        self._line.show("")


def _followed(states: Generator[Progress], clock: _ShownClock) -> int:
    """Print every state until the last one, or why there is none; returns the exit code."""
    last = None
    try:
        with _ended_by_signals(clock), closing(states):
            for last in states:
                clock.tell(last)
    except RecordError as error:
        clock.clear()
        return refuse(words(error.message))
    except (KeyboardInterrupt, StoppedError):
        clock.clear()
        refuse(words(stopped_at(last)))
        return INTERRUPTED
    clock.keep()
    return DONE


def _then(recorder: Recorder, options: argparse.Namespace, repeated: bool) -> int:
    """Open, report or check what has been recorded; compare it with the recording before. Returns the exit code."""
    from npu_tui.cli.explore import on_terminal
    from npu_tui.cli.main import main

    newest, before = str(recorder.newest), recorder.before
    if options.check is not None:
        return main(["check", newest, *options.check])
    if not (repeated or options.report) and on_terminal():
        return _explored(recorder)
    code = main(["report", newest])
    if before is not None and code == DONE:
        write("\n")
        code = main(["compare", str(before), newest])
    return code


def _explored(recorder: Recorder) -> int:
    """Explore what has been recorded, beside the recording before, from where it can be recorded again."""
    from npu_tui.cli.explore import explore
    from npu_tui.compare.comparison import held_against
    from npu_tui.load.load import opening_of
    from npu_tui.subjects import subject_at

    newest, before = recorder.newest, recorder.before
    assert newest is not None
    parser = parser_of("")
    options = parser.parse_args([])
    several = [subject_at(opening_of(path, False)).of_several for path in (before, newest) if path is not None]
    if before is not None and not any(several):
        return explore([before, newest], parser, options, compare=held_against, recorder=recorder)
    base = before if all(several) else None
    return explore([newest], parser, options, base=base, recorder=recorder)


def _write_setup() -> None:
    from npu_tui.record.recording import JOBS, shell_of

    width = max(shutil.get_terminal_size().columns, 40)
    for job in JOBS:
        lines = [say(f"record.setup.{job.job}"), *(f"  {line}" for line in (job.set, job.code, job.record) if line)]
        write("\n".join([*wrapped(lines[0], width), *lines[1:], "", ""]))
    shell = shell_of()
    write(say("record.setup.shell") + "\n")
    for name, value in shell.variables.items():
        write(f"  {name}={printable(shlex.quote(value))}\n")
    if not shell.variables:
        write("  " + say("record.setup.no_variable") + "\n")
    for name, place in shell.programs.items():
        write(f"  {name}: {say('record.setup.absent') if place is None else printable(place)}\n")


def analyse_options(parser: Parser) -> None:
    """Add the arguments and options of ``npu-tui analyse``."""
    parser.add_argument("path", metavar="PATH", help=say("record.raw_path"))
    parser.add_argument("--ranks", default="", metavar="0,8", help=say("record.raw_ranks"))
    parser.add_argument("--jobs", metavar="N", help=say("record.jobs"))
    parser.add_argument("--python", default="python3", metavar="PYTHON", help=say("record.python"))
    parser.add_argument("--dry-run", action="store_true", help=say("record.dry_run"))


def run_analyse(parser: Parser, options: argparse.Namespace) -> int:
    """Analyse the raw profiles that ``options`` name; returns the exit code."""
    from npu_tui.record.outputs import analysed, raw_below, shell_line

    ranks = _rank_option(parser, options)
    jobs = None if options.jobs is None else _number_option(parser, options, "jobs", 1)
    try:
        raws = raw_below(Path(options.path), ranks)
        if not raws:
            return refuse(say("record.no_raw", path=options.path))
        if options.dry_run:
            write(shell_line(raws, options.python) + "\n")
            return DONE
    except RecordError as error:
        return refuse(words(error.message))
    code = _followed(analysed(raws, clock := _ShownClock(), options.python, jobs), clock)
    if code == DONE:
        for raw in raws:
            write(printable(str(raw.folder)) + "\n")
    return code
