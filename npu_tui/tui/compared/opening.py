"""Two profiles as a session that holds the second against the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.picture import Picture, compared_scene
from npu_tui.profile.profile import Profile
from npu_tui.tui.session import Session


def compared_session(compare: Callable[[Sequence[Profile]], Comparison], profiles: Sequence[Profile]) -> Session:
    """The session of two profiles, compared as ``compare`` says."""
    picture = Picture(compare(profiles))
    return Session(profiles, compared_scene(picture), picture=picture)
