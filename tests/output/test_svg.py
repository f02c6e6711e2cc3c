"""The picture of a screen: inner spaces and edges as the cells have them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from npu_tui.output.svg import CELL_WIDTH, svg

_SVG = "{http://www.w3.org/2000/svg}"
WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def test_inner_spaces_are_kept_by_old_and_new_browsers() -> None:
    root = ElementTree.fromstring(svg([[("  a   b  ", WHITE, BLACK, 0)]], "title"))
    (text,) = root.iter(f"{_SVG}text")
    assert text.text == "a   b"
    assert (text.get("x"), text.get("textLength")) == (str(2 * CELL_WIDTH), str(5 * CELL_WIDTH))
    assert any(re.search(r"text\s*{\s*white-space: pre\s*}", style.text or "") for style in root.iter(f"{_SVG}style"))
    (group,) = root.iter(f"{_SVG}g")
    assert group.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"


def test_neighbouring_cells_share_their_edge_and_only_slopes_are_smoothed() -> None:
    root = ElementTree.fromstring(svg([[("█", WHITE, BLACK, 0), ("▌╱─", BLACK, WHITE, 0)]], ""))
    (group,) = root.iter(f"{_SVG}g")
    assert group.get("shape-rendering") == "crispEdges"
    first, second = list(root.iter(f"{_SVG}rect"))[:2]
    assert float(first.get("x", "")) + float(first.get("width", "")) == float(second.get("x", ""))
    assert [line.get("shape-rendering") for line in root.iter(f"{_SVG}path")] == ["auto", None]


def test_what_continues_is_one_shape() -> None:
    row = [("██", BLACK, WHITE, 0), ("▆▆▆╱╱", BLACK, WHITE, 0), ("█", WHITE, WHITE, 0)]
    root = ElementTree.fromstring(svg([row], ""))
    ground, full, levels, white = root.iter(f"{_SVG}rect")
    assert [float(shape.get("width", "")) / CELL_WIDTH for shape in (ground, full, levels, white)] == [8, 2, 3, 1]
    assert float(levels.get("y", "")) > float(full.get("y", ""))
    (slopes,) = root.iter(f"{_SVG}path")
    assert (slopes.get("d") or "").count("M") == 2
