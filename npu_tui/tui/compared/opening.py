"""Two profiles as a session that holds the second against the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_tui.compare.comparison import Comparison
from npu_tui.compare.drawing.picture import Picture
from npu_tui.profile.profile import Profile
from npu_tui.tui.session import Session, make_session


def compared_session(compare: Callable[[Sequence[Profile]], Comparison], profiles: Sequence[Profile]) -> Session:
    """The session of two profiles, compared as ``compare`` says; the starts of their steps lie on one another."""
    session, picture = make_session(profiles), Picture(compare(profiles))
    scene = session.scene
    scene.pair = picture.pair
    scene.offsets = scene.pair.offsets
    scene.findings = picture.marks()
    return Session(profiles, scene, picture=picture)
