from __future__ import annotations

import copy

import numpy as np
import pytest
from measured import report_of

from npu_tui.gate.checks import limit_checks
from npu_tui.gate.measures import Limit, measures, parse_limit, parse_share
from npu_tui.subjects import SUBJECTS

KEYS = {
    "free": "free_us",
    "host_late": "free_host_late_us",
    "exposed_communication": "communication_not_overlapped_us",
}
NAMES = {name: f"{name}_p99" if unit == "step" else name for name, unit in SUBJECTS["profile"].items()}
"""What each limit on a profile measures."""


def value_of(found, name):
    if name == "lost":
        return found["dispatch"]["lost_us"]
    if name == "step":
        return round(float(np.percentile([step["duration_us"] for step in found["steps"]], 99)), 3)
    return found["overlap"][KEYS[name]]


@pytest.mark.parametrize(
    ("text", "share"),
    [("10%", 0.1), (" 2.5 %", 0.025), ("0%", 0.0), ("10", None), ("-1%", None), ("%", None), ("nan%", None)],
)  # fmt: skip
def test_shares(text, share):
    assert parse_share(text) == (None if share is None else pytest.approx(share))


def test_limits_are_shares_or_times_with_a_unit():
    assert parse_limit("free", "time", "10%") == Limit("free", share=0.1)
    assert parse_limit("lost", "time", "5ms") == Limit("lost", time=5000.0)
    assert parse_limit("step", "step", "0.2 s") == Limit("step_p99", time=200_000.0)
    assert parse_limit("step", "step", "decode:p50 9ms") == Limit("decode:p50", time=9000.0)
    assert parse_limit("ttft", "latency", "max:1s") == Limit("ttft:max", time=1e6)
    assert parse_limit("peak", "size", "2GiB") == Limit("peak", size=1 << 31)
    assert parse_limit("fragmentation", "share", "5%") == Limit("fragmentation", share=0.05)
    for unit, text in [
        ("time", "10"), ("time", "-5ms"), ("time", "fast"), ("time", "decode:p50:9ms"), ("step", "10%"),
        ("latency", "10%"), ("size", "10"), ("size", "10%"), ("share", "5ms"), ("share", "0.1"), ("time", ""),
    ]:  # fmt: skip
        assert parse_limit("free", unit, text) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_time_passes_at_its_limit_and_fails_above(found, name):
    measured, value = measures(report_of(found)), value_of(found, name)
    assert value > 0
    for limit, status, over in ((value, "pass", 0.0), (value - 1, "fail", 1.0), (value + 10, "pass", -10.0)):
        (check,) = limit_checks(measured, [Limit(NAMES[name], time=limit)])
        assert (check.status, check.value_us) == (status, value)
        assert check.over_us == pytest.approx(over, abs=0.001)


@pytest.mark.parametrize("name", [name for name, unit in SUBJECTS["profile"].items() if unit == "time"])
def test_a_share_is_one_of_the_device_time(found, name):
    measured = measures(report_of(found))
    share = value_of(found, name) / found["overlap"]["total_us"]
    for limit, status in ((share * 1.001, "pass"), (share * 0.999, "fail")):
        (check,) = limit_checks(measured, [Limit(NAMES[name], share=limit)])
        assert check.status == status
        assert check.share == pytest.approx(share)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_measured_is_no_pass(found, name):
    bare = copy.deepcopy(found)
    for key in bare["overlap"]:
        bare["overlap"][key] = None
    bare["dispatch"]["lost_us"] = None
    bare["steps"] = []
    bare["not_checked"] = [{"id": "device", "reason": "no device"}, {"id": "steps", "reason": "no steps"}]
    (check,) = limit_checks(measures(report_of(bare)), [Limit(NAMES[name], time=1e9)])
    assert check.status == "not_measured"
    assert check.text == ("no steps" if name == "step" else "no device")


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
