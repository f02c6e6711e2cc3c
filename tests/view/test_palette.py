import numpy as np
import pytest

from npu_tui.trace.classes import OpClass
from npu_tui.view.overview import MARK_INKS
from npu_tui.view.palette import DARK, GROUNDS, LIT, PALETTES, PLAIN, SHADES, Ink, Palette, bar

XTERM_STEPS = (0, 95, 135, 175, 215, 255)


def xterm_rgb(code: int) -> tuple[int, int, int]:
    if code >= 232:
        return (8 + 10 * (code - 232),) * 3
    red, rest = divmod(code - 16, 36)
    return XTERM_STEPS[red], XTERM_STEPS[rest // 6], XTERM_STEPS[rest % 6]


def light(rgb: tuple[int, int, int] | np.ndarray) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(v) / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


BARS = [(op_class, shade) for op_class in OpClass for shade in range(SHADES)]


NUMBERS = [bar(op_class, shade) for op_class, shade in BARS] + [int(ink) for ink in Ink]

# The inks of two groups never lie in one lane; an alert may lie on or beside any of them.
HOST = (OpClass.FRAME, OpClass.OP, OpClass.QUEUE, OpClass.CANN)
DEVICE = (OpClass.CUBE, OpClass.VECTOR, OpClass.COMMUNICATION, OpClass.MEMORY, OpClass.OTHER)
PAIRS = [
    (bar(one), bar(other)) for group in (HOST, DEVICE) for k, one in enumerate(group) for other in group[k + 1 :]
] + [(bar(kind), int(Ink.ALERT)) for kind in OpClass if kind != OpClass.WAIT]
LEAST = {
    "dark": (0.09, 0.065),
    "light": (0.12, 0.1),
    "colour-blind": (0.135, 0.115),
    "colour-blind-light": (0.126, 0.1),
}
"""The smallest distance in true colours and in 256 colours."""

# Colours as dichromats see them, on linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.
EYES = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(rgb: np.ndarray) -> np.ndarray:
    part = rgb / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def oklab(light: np.ndarray) -> np.ndarray:
    """Linear RGB in OKLab (Ottosson 2020)."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(np.clip(light @ cones.T, 0, None)) @ lab.T


def distances(rgb: np.ndarray, eyes: str) -> np.ndarray:
    """The OKLab distance of each of ``PAIRS``."""
    seen = oklab(np.clip(linear(rgb.astype(np.float64)) @ EYES[eyes].T, 0, 1))
    one, other = np.array(PAIRS).T
    return np.linalg.norm(seen[one] - seen[other], axis=1)


def xterm_table(palette: Palette) -> np.ndarray:
    return np.array([xterm_rgb(max(int(code), 16)) for code in palette.xterm])


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_colours_that_share_a_lane_can_be_told_apart(palette: Palette, eyes: str) -> None:
    true, few = LEAST[palette.name]
    assert distances(palette.rgb, eyes).min() >= true
    assert distances(xterm_table(palette), eyes).min() >= few


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_a_class_keeps_its_hue_in_every_theme(palette: Palette) -> None:
    for kind in OpClass:
        seen = oklab(linear(np.array([table.rgb[bar(kind)] for table in (DARK, palette)], np.float64)))
        hues, chroma = np.degrees(np.arctan2(seen[:, 2], seen[:, 1])), np.hypot(seen[:, 1], seen[:, 2])
        apart = abs((hues[1] - hues[0] + 180) % 360 - 180)
        assert apart <= 22 or chroma.max() < 0.04, kind  # below that a colour is grey
        assert palette.ansi[bar(kind)] == DARK.ansi[bar(kind)] or kind == OpClass.OTHER, kind
        # A grey class stays grey, a coloured one is never faded to it.
        assert (chroma[0] < 0.04) == (chroma[1] < 0.04), kind
    assert palette.ansi[bar(OpClass.OTHER)] in (7, 8)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_sixteen_colours_tell_classes_of_a_lane_apart(palette: Palette) -> None:
    for group in (HOST, DEVICE):
        assert len({int(palette.ansi[bar(kind)]) for kind in group}) == len(group)
    grounds = {int(palette.ansi[ink]) for ink in GROUNDS - {Ink.LABEL, Ink.WINDOW, Ink.CURSOR}}
    assert not grounds & {int(palette.ansi[bar(kind)]) for kind in OpClass}
    for ink in (Ink.TEXT, Ink.BRIGHT, Ink.ALERT, Ink.SELECTED, Ink.NEAR, Ink.QUEUED, Ink.ACCENT):
        assert palette.ansi[ink] != palette.ansi[Ink.LANE]
    assert palette.ansi[Ink.RANGE] != palette.ansi[Ink.LANE] != palette.ansi[Ink.CURSOR]
    assert palette.ansi[Ink.NAME_FOCUS] != palette.ansi[Ink.LANE]
    for kind in OpClass:
        assert kind == OpClass.WAIT or palette.ansi[bar(kind)] != palette.ansi[Ink.LABEL]
        assert palette.ansi[bar(kind)] != palette.ansi[Ink.ALERT]


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_words_can_be_read(palette: Palette) -> None:
    def ratio(rgb: np.ndarray, ink: int, ground: int) -> float:
        return contrast(light(rgb[ink]), light(rgb[ground]))

    for rgb, slack in ((palette.rgb, 1.0), (xterm_table(palette), 0.85)):
        for ground in (Ink.LANE, Ink.VOID, Ink.BAND, Ink.FOCUS, Ink.RANGE):
            assert ratio(rgb, Ink.TEXT, ground) >= 7 * slack
        assert ratio(rgb, Ink.BRIGHT, Ink.NAME_FOCUS) >= 7 * slack
        assert ratio(rgb, Ink.DIM, Ink.LANE) >= 4.5 * slack
        assert ratio(rgb, Ink.WAIT_LABEL, Ink.WAIT_GROUND) >= 4.5 * slack
        assert ratio(rgb, Ink.ALERT, Ink.LANE) >= 4 * slack
        assert ratio(rgb, Ink.LANE, Ink.SELECTED) >= 7 * slack
        for ink in (Ink.ACCENT, Ink.NEAR, Ink.SHALLOW, Ink.QUEUED, Ink.NEGATIVE, Ink.LINK, Ink.HIT):
            assert ratio(rgb, ink, Ink.LANE) >= 3.5 * slack, ink
        for kind in OpClass:
            assert kind == OpClass.WAIT or ratio(rgb, bar(kind), Ink.LANE) >= 1.5 * slack


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_a_bar_is_seen_on_every_ground(palette: Palette) -> None:
    """A pass, or any slice, in the row of the cursor, in a range and in both; the cursor's column lights it up."""
    grounds = [(ground, PLAIN) for ground in (Ink.LANE, Ink.FOCUS, Ink.RANGE, Ink.RANGE_FOCUS)]
    for rgb in (palette.rgb, xterm_table(palette)):
        for ground, shade in [*grounds, (Ink.CURSOR, LIT)]:
            for kind in OpClass:
                seen = oklab(linear(np.array([rgb[bar(kind, shade)], rgb[ground]], np.float64)))
                assert np.linalg.norm(seen[0] - seen[1]) >= 0.055, (kind, ground)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_marks_of_findings_are_seen_on_their_row(palette: Palette) -> None:
    """The graver the finding, the more they stand out; sixteen colours show all of them too."""
    for rgb in (palette.rgb, xterm_table(palette)):
        seen = {severity: contrast(light(rgb[ink]), light(rgb[Ink.BAND])) for severity, ink in MARK_INKS.items()}
        assert min(seen["high"], seen["medium"], seen["low"]) >= 4
        assert 2 <= seen["info"] < seen["low"]
    assert palette.ansi[Ink.BAND] not in {int(palette.ansi[ink]) for ink in MARK_INKS.values()}


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_every_ink_is_in_the_table_once(palette: Palette) -> None:
    assert len(set(NUMBERS)) == len(NUMBERS)
    assert (palette.xterm[NUMBERS] >= 16).all()
    assert (palette.ansi < 16).all()


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_labels_can_be_read_on_every_bar(palette: Palette) -> None:
    label = light(palette.rgb[Ink.LABEL])
    for op_class, shade in BARS:
        # One of the other two shades is the darkest; the bar it belongs to carries at least 4:1.
        least = 4.0 if shade == PLAIN else 3.0
        read = contrast(light(palette.rgb[bar(op_class, shade)]), label)
        assert op_class == OpClass.WAIT or read > least, (op_class, shade)


def test_shades_differ_in_lightness_only_a_little() -> None:
    for op_class in OpClass:
        plain, lit = light(DARK.rgb[bar(op_class, PLAIN)]), light(DARK.rgb[bar(op_class, LIT)])
        assert plain < lit


def test_red_is_for_starved_launches_only() -> None:
    def red(rgb: np.ndarray) -> bool:
        return rgb[0] > 170 and rgb[1] < 90 and rgb[2] < 90

    for palette in PALETTES.values():
        assert red(palette.rgb[Ink.ALERT])
        others = [bar(*pair) for pair in BARS] + [ink for ink in Ink if ink not in (Ink.ALERT, Ink.ALERT_LOW)]
        assert not any(red(palette.rgb[number]) for number in others)
        reds = {int(palette.ansi[ink]) for ink in (Ink.ALERT, Ink.ALERT_LOW)}
        assert reds <= {1, 9}
        assert not {int(palette.ansi[number]) for number in others} & {1, 9}


def test_grounds_are_dark_in_both_tables() -> None:
    for ink in GROUNDS:
        assert light(DARK.rgb[ink]) < 0.06
        assert light(xterm_rgb(int(DARK.xterm[ink]))) < 0.08
