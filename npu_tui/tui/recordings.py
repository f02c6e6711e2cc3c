"""``:record``: the job is recorded again beside the explorer, and shown beside what is on screen."""

from __future__ import annotations

from collections.abc import Callable
from os.path import expanduser
from pathlib import Path
from threading import Thread

from npu_tui.record.progress import RecordClock, RecordError, StoppedError
from npu_tui.record.recording import PROFILES, Recorder, RecordingSource
from npu_tui.record.request import RecordRequest
from npu_tui.strings import say, words
from npu_tui.trace.text import printable

_PATIENCE = 5.0
"""Seconds in which a recording that is stopped puts the switch of the job back."""


class Recordings:
    """Records in a thread of its own, by the ``recorder`` of the command line or for a folder that is named.

    ``hold`` shows what is waited for, ``tell`` says why there is none, ``show`` gets what was recorded, and the
    recording before it; all three are called from that thread.
    """

    def __init__(
        self,
        recorder: Recorder | None,
        hold: Callable[[str], object],
        tell: Callable[[str], object],
        show: Callable[[Path, Path | None], object],
    ) -> None:
        self._recorder = recorder
        self._hold, self._tell, self._show = hold, tell, show
        self._clock = RecordClock()
        self._thread: Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a recording is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, folder: str) -> str:
        """Record the job that watches ``folder``, that of the last time where it is empty; what to tell the user."""
        if self.is_busy:
            return say("record.busy")
        if folder.strip():
            place = Path(expanduser(folder.strip())).absolute()
            self._recorder = Recorder(RecordingSource(place), RecordRequest(place / PROFILES))
        if self._recorder is None:
            return say("record.which")
        self._clock = RecordClock()
        self._thread = Thread(target=self._run, args=(self._recorder, self._clock), name="record", daemon=True)
        self._thread.start()
        return ""

    def _run(self, recorder: Recorder, clock: RecordClock) -> None:
        try:
            for progress in recorder.record(clock):
                self._hold(f"{say(f'record.stage.{progress.stage}')}: {printable(words(progress.said))}")
        except StoppedError:
            return
        except RecordError as error:
            self._hold("")
            self._tell(printable(words(error.message)))
            return
        self._hold("")
        if recorder.newest is not None:
            self._show(recorder.newest, recorder.before)

    def stop(self) -> None:
        """Break a recording off; the switch of the job is off afterwards."""
        self._clock.stop()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
