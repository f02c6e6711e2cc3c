"""Two profiles on one clock: the scene that holds the second against the first."""

from __future__ import annotations

from npu_tui.compare.drawing.picture import Picture
from npu_tui.profile.scene import make_scene
from npu_tui.view.scene import Scene


def compared_scene(picture: Picture) -> Scene:
    """The scene of ``picture``: the starts of the drawn steps lie on one another, the changes are marked above."""
    scene = make_scene([side.profile for side in picture.comparison.sides])
    scene.pair = picture.pair
    scene.offsets = scene.pair.offsets
    scene.findings = picture.marks()
    return scene
