"""What goes on beside the explorer: the job recorded again (``:record``), raw profiles analysed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os.path import expanduser
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from npu_tui.load.errors import InputError
from npu_tui.load.load import opening_of
from npu_tui.record import Progress, RecordClock, RecordError, RecordRequest, StoppedError, stopped_at
from npu_tui.record.outputs import RawProfile, analysed, opened_of
from npu_tui.record.recording import PROFILES, Recorder, RecordingSource
from npu_tui.strings import say, words
from npu_tui.trace.text import printable

if TYPE_CHECKING:
    from npu_tui.profile.profile import Profile
    from npu_tui.tui.session import Session

# Seconds in which a recording that is stopped puts the switch of the job back, an analysis takes away what it made.
_PATIENCE = 10.0


class Recordings:
    """Records in a thread of its own, by the ``recorder`` of the command line or for a folder that is named.

    ``hold`` shows what is waited for, ``tell`` says why there is none, ``show`` gets what was recorded, and the
    recording before it, ``open`` the profiles that were analysed, and whether to show them on screen; all are called
    from that thread.
    """

    def __init__(
        self,
        recorder: Recorder | None,
        hold: Callable[[str], object],
        tell: Callable[[str], object],
        show: Callable[[Path, Path | None], object],
        open: Callable[[list[Path], bool], object],
    ) -> None:
        self._recorder = recorder
        self._hold, self._tell, self._show, self._open = hold, tell, show, open
        self._clock = RecordClock()
        self._thread: Thread | None = None
        self._last_words = ""

    @property
    def is_busy(self) -> bool:
        """Whether a recording or an analysis is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, folder: str) -> str:
        """Record the job that watches ``folder``, that of the last time where it is empty; returns the message."""
        if self.is_busy:
            return say("record.busy")
        if folder.strip():
            place = Path(expanduser(folder.strip())).absolute()
            self._recorder = Recorder(RecordingSource(place), RecordRequest(place / PROFILES))
        if self._recorder is None:
            return say("record.which")
        recorder = self._recorder
        self._start(recorder.record, lambda: self._recorded(recorder))
        return ""

    def analyse(self, raws: Sequence[RawProfile], first_alone: bool = False) -> str:
        """Analyse ``raws`` as ``npu-tui analyse`` does, then open them; returns the message.

        With ``first_alone`` the first one is opened as soon as it is ready, and the others are only announced.
        """
        if self.is_busy:
            return say("record.busy")
        self._start(lambda clock: self._in_turn([raws[:1], raws[1:]] if first_alone else [raws], clock), lambda: None)
        return ""

    def _in_turn(self, parts: Sequence[Sequence[RawProfile]], clock: RecordClock) -> Iterator[Progress]:
        for number, raws in enumerate(filter(None, parts)):
            yield from analysed(raws, clock)
            self._open([opened_of(raw.folder) for raw in raws], not number)

    def _recorded(self, recorder: Recorder) -> None:
        if recorder.newest is not None:
            self._show(recorder.newest, recorder.before)

    def _start(self, work: Callable[[RecordClock], Iterator[Progress]], done: Callable[[], object]) -> None:
        self._clock = RecordClock()
        self._thread = Thread(target=self._run, args=(work(self._clock), done), name="record", daemon=True)
        self._thread.start()

    def _run(self, states: Iterator[Progress], done: Callable[[], object]) -> None:
        progress = None
        try:
            for progress in states:
                self._hold(f"{say(f'record.stage.{progress.stage}')}: {printable(words(progress.said))}")
        except (RecordError, StoppedError) as error:
            self._hold("")
            told = error.message if isinstance(error, RecordError) else stopped_at(progress)
            self._last_words = printable(words(told))
            self._tell(self._last_words)
        else:
            self._hold("")
            done()

    def cancel(self) -> str:
        """Break off what is under way, soon; returns the message."""
        if not self.is_busy:
            return say("record.nothing_to_stop")
        self._clock.stop()
        return say("record.stops")

    def stop(self) -> str:
        """Break off what is under way, and wait for its end; what there is to say of it."""
        if self._thread is None or not self.is_busy:
            return ""
        self._clock.stop()
        self._thread.join(_PATIENCE)
        return self._last_words


def holds_several(path: Path) -> bool:
    """Whether the profiles of several ranks lie at ``path``."""
    from npu_tui.subjects import subject_at

    try:
        return subject_at(opening_of(path, False)).of_several
    except InputError:  # opening it reports that
        return False


def side_by_side(profiles: Sequence[Profile]) -> Session:
    """The session of two profiles, the second against the first."""
    from npu_tui.compare.comparison import held_against  # who does not compare waits for none of it
    from npu_tui.tui.ranks import compared_session

    return compared_session(held_against, profiles)
