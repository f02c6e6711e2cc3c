"""The picture of a screen: inner spaces and edges as the cells have them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from npu_tui.output.svg import CELL_HEIGHT, CELL_WIDTH, Box, Picture, picture_file, svg

_SVG = "{http://www.w3.org/2000/svg}"
WHITE, BLACK, RED = (255, 255, 255), (0, 0, 0), (255, 0, 0)


def test_inner_spaces_are_kept_by_old_and_new_browsers() -> None:
    root = ElementTree.fromstring(svg([[("  a   b  ", WHITE, BLACK, 0)]], "title"))
    (text,) = root.iter(f"{_SVG}text")
    assert text.text == "a   b"
    assert (text.get("x"), text.get("textLength")) == (str(2 * CELL_WIDTH), str(5 * CELL_WIDTH))
    assert any(re.search(r"text\s*{\s*white-space: pre\s*}", style.text or "") for style in root.iter(f"{_SVG}style"))
    (group,) = root.iter(f"{_SVG}g")
    assert group.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"


def boxes(shape: ElementTree.Element) -> list[tuple[float, ...]]:
    """Left, top, width and height of the boxes that a filled path is made of."""
    found, left, top = [], 0.0, 0.0
    for part in re.findall(r"m([-.\d]+) ([-.\d]+)h([-.\d]+)v([-.\d]+)h-[.\d]+z", shape.get("d") or ""):
        across, down, width, height = map(float, part)
        left, top = left + across, top + down
        found.append((left, top, width, height))
    return found


def test_neighbouring_cells_share_their_edge_and_only_slopes_are_smoothed() -> None:
    root = ElementTree.fromstring(svg([[("█", WHITE, RED, 0), ("▌╱─", BLACK, RED, 0)]], ""))
    (group,) = root.iter(f"{_SVG}g")
    assert group.get("shape-rendering") == "crispEdges"
    _, white, black, *_ = root.iter(f"{_SVG}path")
    (first,), (second,) = boxes(white), boxes(black)
    assert first[0] + first[2] == second[0]
    lines = [line for line in root.iter(f"{_SVG}path") if line.get("stroke")]
    assert [line.get("shape-rendering") for line in lines] == ["auto", None]


def test_however_many_shapes_come_before_none_is_out_of_place() -> None:
    """A picture of a timeline has boxes at any place; each begins from the one before."""
    shapes = [Box(k * 12_345.678_9 / 7_000, 7.3 * (k % 61), 0.517_3, 8.1, RED) for k in range(7_000)]
    root = ElementTree.fromstring(picture_file(Picture("", 20_000, 600, shapes)))
    (path,) = [path for path in root.iter(f"{_SVG}path") if path.get("fill") == "#ff0000"]
    found = sorted(boxes(path))
    assert len(found) == len(shapes)
    apart = max(
        abs(one - other)
        for shape, box in zip(shapes, found, strict=True)
        for one, other in zip((shape.left, shape.top, shape.width, shape.height), box, strict=True)
    )
    assert apart <= 0.001 + 1e-9


def test_what_continues_is_one_shape() -> None:
    row = [("██", BLACK, WHITE, 0), ("▆▆▆╱╱", BLACK, WHITE, 0), ("█", WHITE, WHITE, 0)]
    root = ElementTree.fromstring(svg([row, row], ""))
    ground, front, slopes, white = root.iter(f"{_SVG}path")
    assert boxes(ground) == [(0, 0, 8 * CELL_WIDTH, 2 * CELL_HEIGHT)]
    full, *levels = boxes(front)
    assert full == (0, 0, 2 * CELL_WIDTH, 2 * CELL_HEIGHT)
    assert [(left, width) for left, _, width, _ in levels] == [(2 * CELL_WIDTH, 3 * CELL_WIDTH)] * 2
    assert all(top % CELL_HEIGHT and top + height in (CELL_HEIGHT, 2 * CELL_HEIGHT) for _, top, _, height in levels)
    assert (slopes.get("d") or "").count("m") == 4
    assert boxes(white) == [(7 * CELL_WIDTH, 0, CELL_WIDTH, 2 * CELL_HEIGHT)]


def test_a_line_that_goes_on_is_drawn_once() -> None:
    root = ElementTree.fromstring(svg([[("───", WHITE, BLACK, 0)], [(" │ ", WHITE, BLACK, 0)]] * 2, ""))
    (line,) = [path for path in root.iter(f"{_SVG}path") if path.get("stroke")]
    assert line.get("d") == "m0 9h27m-13.5 9v18m-13.5 9h27m-13.5 9v18"


def test_what_lies_over_a_ground_is_drawn_after_every_ground() -> None:
    row = [("▌", RED, BLACK, 0), ("▌", RED, WHITE, 0)]
    paths = list(ElementTree.fromstring(svg([row, row[::-1]], "")).iter(f"{_SVG}path"))
    assert [path.get("fill") for path in paths] == ["#000000", "#ffffff", "#ff0000"]
    assert [len(boxes(path)) for path in paths] == [2, 2, 2], "halves of one column are one box"
