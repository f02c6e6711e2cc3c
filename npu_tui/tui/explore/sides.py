"""A comparison on screen: to the other side, one side or both, how the clocks lie, and other steps."""

from __future__ import annotations

from npu_tui.strings import say
from npu_tui.trace.text import brief, duration_text, printable
from npu_tui.tui.session import Session
from npu_tui.view.explorer import Explorer
from npu_tui.view.scene import BASE, NEW, Face, Pair, Selected

_LONGEST_NAME = 40
_NEXT: dict[Face, Face] = {"both": "base", "base": "new", "new": "both"}


class Sides:
    """The two profiles of ``session``, which ``explorer`` shows; without a comparison each says that there is none."""

    def __init__(self, session: Session, explorer: Explorer) -> None:
        self._session = session
        self._explorer = explorer

    def align(self) -> str:
        """Lay the two sides on each other another way: the selected slices, all that is matched, or the steps."""
        pair = self._session.scene.pair
        if pair is None:
            return say("compared.none")
        if pair.alignment == "step":
            return self._align_here(pair) or self._align_all(pair)
        return self._align_all(pair) if pair.alignment == "operation" else self._align_steps(pair)

    def _align_steps(self, pair: Pair) -> str:
        self._explorer.leave()
        pair.alignment = "step"
        self._explorer.set_offsets(pair.offsets)
        self._explorer.show(*pair.step(self._session.scene.offsets))
        return say("compared.aligned.step")

    def _align_here(self, pair: Pair) -> str:
        """Lay the selected slice on its counterpart; nothing where none is selected or it has none."""
        selected, picture = self._explorer.state.selection, self._session.picture
        twin = None if selected is None or picture is None else picture.counterpart(selected.trace, selected.item)
        if selected is None or twin is None:
            return ""
        other = Selected(1 - selected.trace, twin)
        base, new = (selected, other) if selected.trace == BASE else (other, selected)
        scene = self._session.scene
        by = scene.times(base)[0] - scene.times(new)[0]
        self._explorer.shift(NEW, by)
        pair.alignment = "operation"
        name = brief(printable(self._session.scene.traces[selected.trace].name_of(selected.item)), _LONGEST_NAME)
        return say("compared.aligned.operation", name=name, by=duration_text(abs(by)))

    def _align_all(self, pair: Pair) -> str:
        self._explorer.leave()
        self._explorer.set_offsets(pair.offsets)
        pair.alignment = "every"
        self._explorer.show(*pair.step(self._session.scene.offsets))
        return say("compared.aligned.every")

    def counterpart(self) -> str:
        """To the slice of the other side that the selected one, or the one under the cursor, is matched with."""
        if self._explorer.state.selection is None:
            self._explorer.select_under_cursor()
        selected, picture = self._explorer.state.selection, self._session.picture
        if picture is None:
            return say("compared.none")
        if selected is None:
            return say("select.none")
        twin = picture.counterpart(selected.trace, selected.item)
        if twin is None:
            return say("compared.no_twin", side=say(f"compare.column.{'new' if selected.trace == BASE else 'base'}"))
        if picture.pair.face != "both":
            self._turn(picture.pair, "new" if selected.trace == BASE else "base")
        scene = self._session.scene
        traces = [scene.traces[selected.trace], scene.traces[1 - selected.trace]]
        lengths = [
            int(trace.slices.end[item] - trace.slices.start[item])
            for trace, item in zip(traces, (selected.item, twin), strict=True)
        ]
        self._explorer.select(Selected(1 - selected.trace, twin))
        base, new = lengths if selected.trace == BASE else lengths[::-1]
        name = brief(printable(traces[1].name_of(twin)), _LONGEST_NAME)
        return say("compared.twin", name=name, base=base, new=new, delta=new - base)

    def turn(self) -> str:
        """Show both sides, the first, or the second."""
        pair = self._session.scene.pair
        if pair is None:
            return say("compared.none")
        self._turn(pair, _NEXT[pair.face])
        return say(f"compared.shown.{pair.face}")

    def _turn(self, pair: Pair, face: Face) -> None:
        """Show ``face``: of one side the rows stand where those of the other stood."""
        alike = "both" not in (face, pair.face)
        pair.face = face
        self._explorer.list.show_face(alike)

    def step(self, direction: int) -> str:
        """Draw the next (1) or previous (-1) step of both sides."""
        picture, explorer = self._session.picture, self._explorer
        if picture is None:
            return say("compared.none")
        if not picture.move(direction):
            return say("step.last" if direction > 0 else "step.first")
        scene, pair = self._session.scene, picture.pair
        explorer.leave()
        if pair.alignment == "operation":
            pair.alignment = "step"
        explorer.state.selection = None
        explorer.set_offsets(pair.offsets)
        scene.findings = picture.marks()
        explorer.show(*pair.step(scene.offsets))
        base, new = picture.drawn.windows
        return say(
            "compared.steps", base=base.number, new=new.number, base_wall=base.wall, new_wall=new.wall,
            delta=new.wall - base.wall,
        )  # fmt: skip
