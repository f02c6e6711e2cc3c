"""Rows of ghosts: what a stream would do in a run with something changed, each under the stream itself."""

from __future__ import annotations

from npu_tui.view.scene import Scene, ScreenRow


def with_ghosts(scene: Scene, index: int, rows: list[ScreenRow]) -> list[ScreenRow]:
    """``rows`` of a layer of trace number ``index`` with the ghost of each lane below the last of its rows."""
    ghosts: dict[int, list[ScreenRow]] = {}
    for number, chart in enumerate(scene.charts[index]):
        if chart.kind == "ghost":
            row = ScreenRow("chart", index, chart.layer, name=chart.name, chart=number)
            ghosts.setdefault(chart.lane, []).append(row)
    if not ghosts:
        return rows
    last = {row.lane: at for at, row in enumerate(rows) if row.lane in ghosts}
    found: list[ScreenRow] = []
    for at, row in enumerate(rows):
        found.append(row)
        if last.get(row.lane) == at:
            found += ghosts[row.lane]
    return found
