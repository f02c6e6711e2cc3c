import numpy as np
import pytest
from builders import make_trace

from npu_tui.view.curves import StepCurve, counter_curve, counter_levels, quantity_text
from npu_tui.view.viewport import Viewport


def curve(*samples: tuple[int, float], end: int = 1000) -> StepCurve:
    trace = make_trace({}, samples={"other": [(0, 99.0)], "mine": list(samples)})
    return counter_curve(trace.counters, 1, end)


def levels(found: StepCurve, view: Viewport | None = None) -> list[int]:
    return counter_levels(found, view or Viewport(0, 1000, 10)).tolist()


def test_columns_show_the_highest_value_that_held_in_them() -> None:
    assert levels(curve((100, 0.0), (230, 7.0), (260, 3.5), (600, 7.0), (605, 0.0), (690, 1.0))) == [
        0, 1, 8, 5, 5, 5, 8, 2, 2, 2
    ]  # fmt: skip


def test_a_value_holds_into_a_view_without_samples() -> None:
    found = curve((0, 0.0), (100, 7.0), (900, 0.0))
    assert levels(found, Viewport(30, 100, 10)) == [8] * 10


def test_the_chart_stops_where_the_trace_ends() -> None:
    assert levels(curve((100, 0.0), (300, 7.0), end=500)) == [0, 1, 1, 8, 8, 0, 0, 0, 0, 0]


def test_a_series_of_one_value_is_a_thin_line() -> None:
    assert levels(curve((250, 1800.0), (800, 1800.0))) == [0, 0, *[1] * 8]


def test_a_value_replaced_at_the_left_edge_does_not_hold_in_the_column() -> None:
    assert levels(curve((0, 7.0), (200, 0.0), (500, 3.5))) == [8, 8, 1, 1, 1, *[5] * 5]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("low", "middle", "high"),
    [(-1.7e308, 0.0, 1.7e308), (0.0, 1e-323, 2e-323), (2.0**1020, 1.5 * 2.0**1020, 2.0**1021)],
)
def test_values_far_apart_or_close_together_have_a_scale(low: float, middle: float, high: float) -> None:
    assert levels(curve((100, low), (300, high), (600, middle))) == [0, 1, 1, 8, 8, 8, 5, 5, 5, 5]


@pytest.mark.parametrize("samples", [[], [(0, float("nan")), (5, float("inf"))]])
def test_a_series_without_numbers_is_empty(samples: list[tuple[int, float]]) -> None:
    assert levels(curve(*samples)) == [0] * 10


def test_the_value_at_a_time_is_that_of_the_last_sample() -> None:
    found = curve((100, 2.0), (200, np.nan), (300, 4.0))
    assert [found.at(time) for time in (99, 100, 299, 300, 10**9)] == [None, 2.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12.5, "12.5"),
        (1800.0, "1.8k"),
        (999.6, "1k"),
        (3.42e9, "3.42G"),
        (-2.5e6, "-2.5M"),
        (0.123, "0.123"),
        (0.00012, "1e-04"),
        (823.0, "823"),
        (1e22, "1e+22"),
    ],
)
def test_values_are_short(value: float, text: str) -> None:
    assert quantity_text(value) == text
