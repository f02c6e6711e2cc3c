"""``:eager PATH``: replayed kernels get the code of another profile."""

from __future__ import annotations

from collections.abc import Callable
from os.path import expanduser

from npu_tui.load.errors import InputError
from npu_tui.load.load import opening_of
from npu_tui.profile.borrowed_tables import borrow
from npu_tui.profile.profile import Profile
from npu_tui.strings import say, words
from npu_tui.trace.text import brief, printable
from npu_tui.tui.session import Session
from npu_tui.view.explorer import Explorer


class Borrowing:
    """Borrows code for the profile at the selection; ``work`` runs in a thread, ``tell`` says what came of it."""

    def __init__(
        self,
        session: Session,
        explorer: Explorer,
        work: Callable[[Callable[[], object], str], object],
        tell: Callable[[str], object],
    ) -> None:
        self._session = session
        self._explorer = explorer
        self._work = work
        self._tell = tell

    def begin(self, path: str) -> None:
        """Read the profile at ``path`` and borrow what fits."""
        selected = self._explorer.state.selection
        profile = self._session.profiles[0 if selected is None else selected.trace]
        self._work(lambda: self._tell(_borrowed(profile, expanduser(path.strip()))), "eager")


def _borrowed(profile: Profile, path: str) -> str:
    try:
        opening = opening_of(path, True, None)
        found = borrow(profile, Profile(opening.trace(), opening.source, profile.thresholds))
    except InputError as error:
        return printable(words(error.message))
    shares = {"covered_here": found.covered_here, "covered_there": found.covered_there}
    key = "borrow.told" if found.fits.any() else "borrow.told_other"
    return printable(say(key, kernels=len(found.item), unique=int(found.unique.sum()), path=brief(path, 40), **shares))
