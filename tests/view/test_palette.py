import numpy as np
import pytest

from npu_tui.trace.classes import OpClass
from npu_tui.view.palette import DARK, GROUNDS, LIT, PLAIN, SHADES, ZEBRA, Ink, bar

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


def test_every_ink_is_in_the_table_once() -> None:
    numbers = [bar(op_class, shade) for op_class, shade in BARS] + [int(ink) for ink in Ink]
    assert len(set(numbers)) == len(numbers)
    assert (DARK.xterm[numbers] >= 16).all()


@pytest.mark.parametrize(("op_class", "shade"), [pair for pair in BARS if pair[0] != OpClass.WAIT])
def test_labels_can_be_read_on_every_bar(op_class: OpClass, shade: int) -> None:
    label = light(DARK.rgb[Ink.LABEL])
    # A zebra shade is the darkest; the bar it belongs to carries at least 4:1.
    least = 3.0 if shade == ZEBRA else 4.0
    assert contrast(light(DARK.rgb[bar(op_class, shade)]), label) > least


def test_shades_differ_in_lightness_only_a_little() -> None:
    for op_class in OpClass:
        plain, lit = light(DARK.rgb[bar(op_class, PLAIN)]), light(DARK.rgb[bar(op_class, LIT)])
        assert plain < lit


def test_red_is_for_starved_launches_only() -> None:
    def red(rgb: np.ndarray) -> bool:
        return rgb[0] > 180 and rgb[1] < 90 and rgb[2] < 90

    assert red(DARK.rgb[Ink.ALERT])
    others = [bar(*pair) for pair in BARS] + [ink for ink in Ink if ink not in (Ink.ALERT, Ink.ALERT_LOW)]
    assert not any(red(DARK.rgb[number]) for number in others)


def test_grounds_are_dark_in_both_tables() -> None:
    for ink in GROUNDS:
        assert light(DARK.rgb[ink]) < 0.06
        assert light(xterm_rgb(int(DARK.xterm[ink]))) < 0.08
