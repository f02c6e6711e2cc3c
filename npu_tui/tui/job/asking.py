"""What is typed after ``:`` in the overview of a job: a rank, a host, or a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from npu_tui.strings import say
from npu_tui.trace.text import printable
from npu_tui.tui.explore.completion import QUIT_WORDS, nearest_command
from npu_tui.tui.explore.palette import Entry
from npu_tui.tui.job.overview import Overview
from npu_tui.tui.keys.commands import BY_ID, commands_of

_DIGITS = 10


class Asking:
    """Obeys what is typed: ``view`` gives the overview, None before it is read; ``run`` runs a command."""

    def __init__(
        self, view: Callable[[], Overview | None], arrange: Callable[[], None], run: Callable[[str], None]
    ) -> None:
        self._view = view
        self._arrange = arrange
        self._run = run

    def obey(self, text: str) -> str:
        """Go to the rank or host that ``text`` names, or run the command; returns what was done."""
        view, lowered = self._view(), text.lower()
        if lowered in QUIT_WORDS:
            self._run("quit")
            return ""
        if view is not None and lowered.isdecimal() and len(lowered) < _DIGITS:
            rank = int(lowered)
            if not view.go_to_rank(rank):
                return say("ranks.no_rank", rank=rank)
            return say("ranks.at", rank=rank, key=BY_ID["open_rank"].press)
        host = None if view is None else next((each for each in view.job.hosts if each.id == text), None)
        if view is not None and host is not None:
            view.show_scope(view.scope_of_host(host.id))
            self._arrange()
            return say("ranks.scope.told", scope=view.scope.name)
        own = {command.id: command for command in commands_of("job")}
        command = own.get(lowered.replace(" ", "_")) or next(
            (each for each in own.values() if each.title.lower() == lowered), None
        )
        if command is not None:
            self._run(command.id)
            return ""
        if not text:
            return ""
        near = nearest_command(text, own)
        return say("ranks.unknown", text=printable(text)) + (say("command.nearest", command=near) if near else "")

    def places(self) -> Iterable[Entry]:
        """The hosts to go to (the palette asks for them)."""
        view = self._view()
        for host in view.job.hosts if view is not None and len(view.job.hosts) > 1 else []:
            told = say("ranks.fact.ranks", ranks=len(host.ranks), hosts=1)
            yield printable(host.id), told, partial(self.obey, host.id)
