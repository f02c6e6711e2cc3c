"""Crops are traces of the same events, and say what a range of the whole trace says."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from measured import answers, profile_at

from npu_tui.analysis.device import Window
from npu_tui.cli.main import main
from npu_tui.load.load import load
from npu_tui.output.whatif import NoReplayError, replay_of
from npu_tui.profile.parts import WHOLE_TRACE, parse_range
from npu_tui.profile.selection import part_of
from npu_tui.trace.model import Trace

if TYPE_CHECKING:
    from conftest import Sample

sys.path.append(str(Path(__file__).resolve().parents[1] / "load" / "database"))

from small import small_database

_EVENT, _BETWEEN = json.JSONDecoder(), re.compile(r"[\s,]*")
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
BOUND, HEALTHY = FIXTURES / "dispatch_bound", FIXTURES / "healthy"


def crop(path: Path, folder: Path, *options: str, name: str = "trace_view.json", code: int = 0) -> Path:
    out = folder / name
    assert main(["crop", str(path), "-o", str(out), "--no-cache", *options]) == code
    return out


def texts(trace: Trace) -> Counter[str]:
    """Every event of a trace as it stands in its file."""
    text = Path(trace.files[0].path).read_text(encoding="utf-8")
    at = text.index("[", max(text.find('"traceEvents"'), 0)) + 1
    found: Counter[str] = Counter()
    while (begins := _BETWEEN.match(text, at).end()) < len(text) and text[begins] != "]":  # type: ignore[union-attr]
        at = _EVENT.raw_decode(text, begins)[1]
        found[text[begins:at]] += 1
    assert found.total() == sum(trace.events.values())
    return found


def added(out: Trace, trace: Trace) -> Counter[str]:
    """The events of a crop that its trace does not have, but for the one that tells the range."""
    found = texts(out) - texts(trace)
    (told,) = [text for text in found if "npu_tui_crop" in text]
    del found[told]
    return found


def middle(trace: Trace, low: float = 0.2, high: float = 0.5) -> str:
    return f"{int(trace.end * low)}ns..{int(trace.end * high)}ns"


def alone(trace: Trace, folder: Path) -> Path:
    """The events of ``trace`` without the files beside them."""
    file = folder / "alone.json"
    file.write_bytes(Path(trace.files[0].path).read_bytes())
    return file


def shifted(told: list[dict[str, Any]], by: int) -> list[dict[str, Any]]:
    return [{**row, "start_us": round(row["start_us"] + by / 1000, 3)} for row in told]


SUMS = ("total_us", "computing_us", "communication_us", "communication_not_overlapped_us", "overlapped_us", "free_us")


def says_the_same(whole: Trace, cut: Trace, span: str, whole_span: bool = False) -> None:
    """The report of ``cut`` against that of the range ``span`` of ``whole``."""
    selection = parse_range(span)
    assert selection is not None
    by = cut.start_ns - whole.start_ns
    low, high = selection.window.start - by, selection.window.end - by
    own = answers(cut) if whole_span else answers(cut, parse_range(f"{low}ns..{high}ns"))
    told = answers(whole, selection)
    assert [own["overlap"][name] for name in SUMS] == [told["overlap"][name] for name in SUMS]
    if not whole_span:
        assert [{**row, "core": None} for row in own["operators"]] == [
            {**row, "core": None} for row in told["operators"]
        ]
        assert own["apis"] == told["apis"]
        assert shifted(own["communication"], by) == told["communication"]
        assert own["links"] == told["links"]
        launched = [row["links"] for row in _dispatches(told)]
        assert [row["links"] for row in _dispatches(own)] == launched


def _dispatches(told: dict[str, Any]) -> list[dict[str, Any]]:
    return told["dispatch"] if isinstance(told["dispatch"], list) else [told["dispatch"]]


def test_all_of_a_trace_is_the_trace(bundled: Sample, tmp_path: Path) -> None:
    out = load(crop(bundled.path, tmp_path))
    assert texts(out) == texts(bundled.trace)
    whole, own = answers(load(alone(bundled.trace, tmp_path))), answers(out)
    for told in (whole, own):
        told["source"] |= {"path": "", "bytes": 0, "kind": "", "writer": None}
    assert own == whole


def test_a_range_keeps_events_as_they_are(bundled: Sample, tmp_path: Path) -> None:
    trace = bundled.trace
    span = middle(trace)
    out = load(crop(bundled.path, tmp_path, "--range", span))
    assert not added(out, trace)
    window = parse_range(span).window  # type: ignore[union-attr]
    touched = int(((trace.slices.end > window.start) & (trace.slices.start < window.end)).sum())
    assert touched <= len(out.slices) < len(trace.slices)
    assert 0 < len(out.links) < len(trace.links)
    assert not out.health.skipped
    says_the_same(load(alone(trace, tmp_path)), out, span)


@pytest.mark.parametrize("real", ["level1/rank1", "single_card"], indirect=True)
def test_a_range_of_real_profiles_says_the_same(real: Sample, tmp_path: Path) -> None:
    whole = load(alone(real.trace, tmp_path))
    for low, high in ((0.2, 0.5), (0.45, 0.46), (0.0, 1.0)):
        span = middle(real.trace, low, high)
        out = load(crop(real.path, tmp_path, "--range", span))
        assert not added(out, real.trace)
        says_the_same(whole, out, span)


@pytest.mark.parametrize("real", ["level1/rank0", "single_card"], indirect=True)
def test_clipped_slices_add_up_to_the_range(real: Sample, tmp_path: Path) -> None:
    whole = load(alone(real.trace, tmp_path))
    span = middle(real.trace)
    out = load(crop(real.path, tmp_path, "--range", span, "--clip"))
    window = parse_range(span).window  # type: ignore[union-attr]
    assert out.end <= window.end - window.start
    assert out.start_ns >= whole.start_ns + window.start
    says_the_same(whole, out, span, whole_span=True)
    changed = added(out, real.trace)
    edges = (whole.slices.start < window.start) | (whole.slices.end > window.end)
    touched = (whole.slices.end > window.start) & (whole.slices.start < window.end)
    assert sum(changed.values()) == int((edges & touched).sum())


def test_what_launched_a_kernel_comes_with_it(tmp_path: Path) -> None:
    trace = load(BOUND)
    span = middle(trace, 0.1, 0.3)
    out = load(crop(BOUND, tmp_path, "--range", span))
    bound = out.links_of("HostToDevice")
    assert len(bound)
    assert (out.links.source_slice[bound] >= 0).all()
    before = answers(trace, parse_range(span))["dispatch"]["code_lines"]
    assert before
    by = out.start_ns - trace.start_ns
    window = parse_range(span).window  # type: ignore[union-attr]
    after = answers(out, parse_range(f"{window.start - by}ns..{window.end - by}ns"))["dispatch"]["code_lines"]
    assert {(row["file"], row["line"]) for row in after} == {(row["file"], row["line"]) for row in before}


def test_lanes_and_names_choose(tmp_path: Path) -> None:
    trace = load(HEALTHY)
    hardware = next(layer for layer in trace.layers if layer.kind == "hardware")
    out = load(crop(HEALTHY, tmp_path, "--lanes", hardware.name.lower()))
    assert len(out.slices) == sum(trace.lanes[lane].last - trace.lanes[lane].first for lane in hardware.lanes)
    named = load(crop(HEALTHY, tmp_path, "--slices", "matmul", "--lanes", "Stream"))
    wanted = [trace.name_of(item) for item in range(len(trace.slices))]
    on = {lane.index for lane in trace.file_lanes if "stream" in lane.name.lower()}
    count = sum(
        "matmul" in name.lower() and lane in on for name, lane in zip(wanted, trace.slices.lane.tolist(), strict=True)
    )
    assert len(named.slices) == count > 0
    whole = load(crop(HEALTHY, tmp_path, "--slices", "matmul"))
    assert len(whole.links_of("HostToDevice"))


@pytest.mark.parametrize("fixture", [BOUND, HEALTHY])
def test_a_crop_is_judged_as_its_range_is(fixture: Path, tmp_path: Path) -> None:
    """The frames around the range are kept, so the rest of them would look like a pause of the host."""
    trace = load(fixture)
    low, high = int(0.3 * trace.end), int(0.5 * trace.end)
    file = tmp_path / "whole.json"
    file.write_bytes(Path(trace.files[0].path).read_bytes())
    span = f"{low}ns..{high}ns"
    cropped = profile_at(crop(file, tmp_path, "--range", span, name="part.json")).part(WHOLE_TRACE)
    whole = part_of(profile_at(file), span)
    shift = whole.trace.start_ns - cropped.trace.start_ns
    assert cropped.trace.health.cropped == (low + shift, high + shift)
    assert cropped.window == Window(low + shift, high + shift)
    assert [message.code for message in cropped.trace.health.warnings].count("odd.cropped") == 1
    assert cropped.facts[0].sums == whole.facts[0].sums
    said, meant = ([each.id for each in part.findings.findings if each.part_of is None] for part in (cropped, whole))
    assert set(said[:2]) == set(meant[:2])
    with pytest.raises(NoReplayError):
        replay_of(profile_at(tmp_path / "part.json"))
    again = profile_at(crop(tmp_path / "part.json", tmp_path, "--range", "0ns..", name="again.json"))
    assert again.trace.health.cropped is not None


def test_a_step_is_a_crop(tmp_path: Path) -> None:
    trace = load(HEALTHY)
    number = next(
        int(trace.names[code].partition("#")[2]) for code in trace.slices.name if "ProfilerStep#" in trace.names[code]
    )
    out = load(crop(HEALTHY, tmp_path, "--step", str(number)))
    assert 0 < len(out.slices) < len(trace.slices)


def test_a_crop_may_be_packed(tmp_path: Path) -> None:
    plain, packed = crop(BOUND, tmp_path), crop(BOUND, tmp_path, name="x.json.gz")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_what_stands_around_the_events_stays(tmp_path: Path) -> None:
    path = next((FIXTURES / "kineto").rglob("*.pt.trace.json"))
    found = json.loads(crop(path, tmp_path).read_text(encoding="utf-8"))
    own = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() == own.keys()
    assert {name: value for name, value in found.items() if name != "traceEvents"} == {
        name: value for name, value in own.items() if name != "traceEvents"
    }


def test_a_crop_may_take_the_place_of_its_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace_view.json"
    file.write_bytes((BOUND / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_bytes())
    before = load(file)
    crop(file, tmp_path, "--range", middle(before))
    assert 0 < len(load(file).slices) < len(before.slices)
    assert [each.name for each in tmp_path.iterdir()] == ["trace_view.json"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-o", "x.txt"], "-o needs a name that ends in .json or .json.gz"),
        (["-o", "x.json", "--lanes", "nowhere"], "no lane or layer name contains nowhere"),
        (["-o", "x.json", "--slices", "nothing like that"], "no slices are left"),
        (["-o", "x.json", "--range", "2ms..1ms"], "a range is two times"),
        ([], "-o"),
    ],
)
def test_what_is_wrong_is_told(capsys: pytest.CaptureFixture[str], options: list[str], told: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["crop", str(BOUND), "--no-cache", *options])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crop", str(BOUND), "--no-cache", "-o", "/nowhere/x.json"]) == 3
    assert capsys.readouterr().err == "npu-tui: /nowhere/x.json: No such file or directory\n"


def test_a_database_has_no_events_to_crop(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = small_database(tmp_path / "ascend_pytorch_profiler_0.db")
    with pytest.raises(SystemExit) as caught:
        main(["crop", str(database), "-o", str(tmp_path / "x.json"), "--no-cache"])
    assert caught.value.code == 2
    assert "is a database" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
