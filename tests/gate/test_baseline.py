from __future__ import annotations

import copy
import json

import pytest
from measured import report_of
from msgspec import convert, to_builtins
from refusals import refused, said

from npu_tui.gate.checks import baseline_checks, differences
from npu_tui.gate.measures import (
    BASELINE_MEASURES,
    TOLERANCE,
    Baseline,
    Measures,
    baseline,
    measures,
    read_baseline,
    write_baseline,
)
from npu_tui.load.errors import InputError


def scaled(measured: Measures, name: str, factor: float) -> Measures:
    times = dict(measured.times)
    times[name] *= factor
    return Measures(times, measured.total, measured.steps, {})


def statuses(measured, base, **tolerances):
    return {check.id: check.status for check in baseline_checks(measured, base, tolerances)}


def baseline_of(found, measured=None, tolerances=None):
    """The fields of the baseline, side by side."""
    return to_builtins(baseline(report_of(found), measured or measures(report_of(found)), tolerances or {}))


@pytest.mark.parametrize("schema", ["1", "2"])
def test_a_file_comes_back_as_it_was_written(found, tmp_path, schema):
    content = baseline_of(found, None, {"free": 0.2})
    write_baseline(tmp_path / "base.json", convert(content, Baseline), schema)
    back = read_baseline(tmp_path / "base.json")
    own = {"kind": "npu-tui baseline", "schema_version": 1} if schema == "1" else {}
    assert {name: back[name] for name in content} == content | own
    assert content["tolerances"] == dict.fromkeys(BASELINE_MEASURES, TOLERANCE) | {"free": 0.2}
    assert set(content["measures_us"]) <= set(content["definitions"])
    lengths = [step["duration_us"] for step in found["steps"]]
    assert min(lengths) < content["measures_us"]["step_p99"] <= max(lengths)
    assert [file.name for file in tmp_path.iterdir()] == ["base.json"]
    assert len((tmp_path / "base.json").read_text().splitlines()) > 20


@pytest.mark.parametrize("name", BASELINE_MEASURES)
def test_each_measure_may_grow_by_its_tolerance(found, name):
    measured = measures(report_of(found))
    base = baseline_of(found, measured)
    assert base["measures_us"][name] > 0
    assert set(statuses(measured, base).values()) == {"pass"}
    for factor, status in ((1.04, "pass"), (1.06, "fail"), (0.5, "pass")):
        assert statuses(scaled(measured, name, factor), base)[name] == status
    assert statuses(scaled(measured, name, 1.06), base, **{name: 0.1})[name] == "pass"


def test_noise_is_no_regression(found):
    measured = measures(report_of(found))
    content = baseline_of(found, measured)
    device = content["measures_us"]["device"]
    content["measures_us"]["lost"] = 0.0001 * device
    for share, status in ((0.0009, "pass"), (0.0015, "fail")):
        times = measured.times | {"lost": share * device * measured.steps}
        assert statuses(Measures(times, measured.total, measured.steps, {}), content)["lost"] == status


def test_a_measure_that_only_the_baseline_has_is_not_measured(found):
    measured = measures(report_of(found))
    content = baseline_of(found, measured)
    less = Measures(measured.times | {"lost": None}, measured.total, measured.steps, {"lost": "no links"})
    assert statuses(less, content)["lost"] == "not_measured"
    content["measures_us"]["lost"] = None
    assert "lost" not in statuses(measured, content)


def test_another_rank_and_step_count_are_noted(found):
    content = baseline_of(found)
    assert differences(report_of(found), content) == []
    other = copy.deepcopy(found)
    other["source"] |= {"rank": 3, "device": None, "step_count": 9}
    other["selection"] = {"start_us": 1.0, "end_us": None, "step": None}
    notes = differences(report_of(other), content)
    assert len(notes) == 4
    assert notes[0] == "rank 3; the baseline is for rank 0"
    assert "unknown" in notes[1]
    assert "per step" in notes[2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "No such file"),
        (b"\xff", "not JSON"),
        (b"", "not JSON"),
        (b"[]", "not a baseline"),
        (b"{}", "not a baseline"),
        ({"schema_version": 3}, "schema 3"),
        ({"schema_version": None}, "schema None"),
        ({"sections": []}, "sections"),
        ({"measures_us": {}}, "measures_us"),
        ({"measures_us": 3}, "measures_us"),
        ({"tolerances": dict.fromkeys(BASELINE_MEASURES, "5%")}, "tolerances"),
        ({"tolerances": dict.fromkeys(BASELINE_MEASURES, -1)}, "tolerances"),
        ({"source": None}, "source"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(found, tmp_path, change, words):
    file = tmp_path / "b.json"
    if isinstance(change, dict):
        file.write_text(json.dumps(baseline_of(found) | change))
    elif change is not None:
        file.write_bytes(change)
    with pytest.raises(InputError) as refused:
        read_baseline(file)
    assert words in said(refused.value)
    assert said(refused.value).startswith(f"{file}: ")
    assert "\n" not in said(refused.value)


def test_a_baseline_of_nothing_is_refused(found, tmp_path):
    content = baseline_of(found)
    content["measures_us"] = dict.fromkeys(BASELINE_MEASURES)
    write_baseline(tmp_path / "base.json", convert(content, Baseline))
    with refused("nothing could be measured"):
        read_baseline(tmp_path / "base.json")
