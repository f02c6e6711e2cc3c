from __future__ import annotations

import copy

import numpy as np
import pytest
from measured import report_of

from npu_tui.gate.checks import limit_checks
from npu_tui.gate.measures import LIMITS, OF_SERVICES, SHARED, Limit, measures, parse_limit, parse_share

KEYS = {
    "max_free": "free_us",
    "max_host_late": "free_host_late_us",
    "max_exposed_communication": "communication_not_overlapped_us",
}


def value_of(found, option):
    if option == "max_lost":
        return found["dispatch"]["lost_us"]
    if option == "max_step":
        return round(float(np.percentile([step["duration_us"] for step in found["steps"]], 99)), 3)
    return found["overlap"][KEYS[option]]


@pytest.mark.parametrize(
    ("text", "share"),
    [("10%", 0.1), (" 2.5 %", 0.025), ("0%", 0.0), ("10", None), ("-1%", None), ("%", None), ("nan%", None)],
)  # fmt: skip
def test_shares(text, share):
    assert parse_share(text) == (None if share is None else pytest.approx(share))


def test_limits_are_shares_or_times_with_a_unit():
    assert parse_limit("max_free", "10%") == Limit("free", share=0.1)
    assert parse_limit("max_lost", "5ms") == Limit("lost", time=5000.0)
    assert parse_limit("max_step", "0.2 s") == Limit("step_p99", time=200_000.0)
    for option, text in [("max_free", "10"), ("max_free", "-5ms"), ("max_free", "fast"), ("max_step", "10%")]:
        assert parse_limit(option, text) is None


@pytest.mark.parametrize("option", [option for option in LIMITS if option not in OF_SERVICES])
def test_a_time_passes_at_its_limit_and_fails_above(found, option):
    measured, value = measures(report_of(found)), value_of(found, option)
    assert value > 0
    for limit, status, over in ((value, "pass", 0.0), (value - 1, "fail", 1.0), (value + 10, "pass", -10.0)):
        (check,) = limit_checks(measured, [Limit(LIMITS[option], time=limit)])
        assert (check.status, check.value_us) == (status, value)
        assert check.over_us == pytest.approx(over, abs=0.001)


@pytest.mark.parametrize("option", SHARED)
def test_a_share_is_one_of_the_device_time(found, option):
    measured = measures(report_of(found))
    share = value_of(found, option) / found["overlap"]["total_us"]
    for limit, status in ((share * 1.001, "pass"), (share * 0.999, "fail")):
        (check,) = limit_checks(measured, [Limit(LIMITS[option], share=limit)])
        assert check.status == status
        assert check.share == pytest.approx(share)


@pytest.mark.parametrize("option", [option for option in LIMITS if option not in OF_SERVICES])
def test_what_is_not_measured_is_no_pass(found, option):
    bare = copy.deepcopy(found)
    for key in bare["overlap"]:
        bare["overlap"][key] = None
    bare["dispatch"]["lost_us"] = None
    bare["steps"] = []
    bare["not_checked"] = [{"id": "device", "reason": "no device"}, {"id": "steps", "reason": "no steps"}]
    (check,) = limit_checks(measures(report_of(bare)), [Limit(LIMITS[option], time=1e9)])
    assert check.status == "not_measured"
    assert check.text == ("no steps" if option == "max_step" else "no device")


def test_lost_time_is_summed_over_devices(found):
    twice = found | {"dispatch": [found["dispatch"], found["dispatch"]]}
    assert measures(report_of(twice)).times["lost"] == pytest.approx(2 * found["dispatch"]["lost_us"])
    unknown = found | {"dispatch": [found["dispatch"], found["dispatch"] | {"lost_us": None}]}
    assert measures(report_of(unknown)).times["lost"] is None


def test_percentiles_are_linear_over_the_steps(found):
    steps = [found["steps"][0] | {"duration_us": float(length)} for length in range(1, 101)]
    measured = measures(report_of(found | {"steps": steps}))
    assert (measured.times["step_p50"], measured.times["step_p99"], measured.steps) == (50.5, 99.01, 100)
    assert measured.per_step("free") == pytest.approx(found["overlap"]["free_us"] / 100, abs=0.001)
    assert measured.per_step("step_p99") == 99.01
