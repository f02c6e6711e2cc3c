"""What is written as JSON is valid by the schema that ``npu-tui schema`` prints, and in schema 1 as it always was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from answers import commands
from jsonschema import Draft202012Validator

import npu_tui
from npu_tui.cli.main import main
from npu_tui.output import envelope
from npu_tui.output.envelope import REPORTS, json_bytes, report_schema, side_by_side
from tests.jobs.test_history import made, put
from tests.load.test_snapshot import MB, simulated, written

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import write_service

Captured = pytest.CaptureFixture[bytes]
ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
HEALTHY, BOUND, RANKS = (str(FIXTURES / name) for name in ("healthy", "dispatch_bound", "two_ranks"))

ENVELOPE = ["schema_version", "kind", "source", "verdict", "findings", "sections", "not_checked", "health"]
OLD = {
    "report": "schema_version selection source trace layers overlap steps step_times links dispatch operators "
    "kernel_groups memory cross_check files metadata link_matrix communication collective_costs apis host_operators "
    "modules borrowed fusion lanes cores names ports engine_steps engine_kinds experts expert_files steps_from latency "
    "latency_parts latencies service_engines requests batch_kinds transfers left_out cpu_time critical_path verdict "
    "findings not_checked health",
    "compare": "schema_version kind base new comparability step computing parts groups stream_overlap_us lines "
    "collectives config findings profile_findings not_judged owners",
    "ranks": "source hosts groups steps verdict clock rank_table heat collectives links missing findings not_checked "
    "expert_layers expert_ranks pipelines stages passes expert_files schema_version kind roles role_steps stints "
    "role_clock critical_path collective_costs",
    "memory": "schema_version kind source verdict devices findings not_checked health",
    "compare_memory": "schema_version kind base new verdict devices base_only_devices new_only_devices",
    "compare_jobs": "schema_version kind base new verdict paired_by step computing transfer parts stages ranks "
    "base_only_ranks new_only_ranks links findings not_judged",
    "compare_service": "schema_version kind tool_version verdict base new unlike forward_change figures parts findings",
    "log": "schema_version kind path verdict runs series changes not_checked",
    "whatif": "schema_version kind path device per count warm_up recorded_us replayed_us error step_us step_after_us "
    "gain_us changes timeline replays micro_batches micro_batches_after",
    "explain": "findings words schema_version kind",
    "check": "schema_version path passed checks notes",
    "baseline": "kind schema_version written_by source selection definitions tolerances measures_us",
}
"""The fields of schema 1 in their order."""


def _printed(words: list[str], capsysbinary: Captured) -> Any:
    assert main(words) in (0, 1)
    return json.loads(capsysbinary.readouterr().out)


def _made(tmp_path: Path) -> dict[str, list[str]]:
    """Command lines of documents that no fixture of the repository makes."""
    for folder, content in (("a", simulated()), ("b", simulated(leak=4 * MB))):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder, content)
    for cause in ("healthy", "scheduler"):
        write_service(tmp_path / cause, cause, 1, 12)
    for number in range(12):
        put(
            tmp_path / "log",
            made(f"c{number}", 100.0 + number // 6 * 20, f"2026-11-{number + 1:02}T00:00:00Z"),
            f"{number}",
        )
    (tmp_path / "log" / "broken.json").write_text("{")
    snapshots = [str(tmp_path / side / "snapshot.pkl") for side in "ab"]
    services = [str(tmp_path / cause) for cause in ("healthy", "scheduler")]
    return {
        "report": ["report", services[1]],
        "memory": ["report", snapshots[1]],
        "compare_memory": ["compare", *snapshots],
        "compare_service": ["compare", *services],
        "compare_jobs": ["compare", RANKS, RANKS],
        "log": ["log", "--log", str(tmp_path / "log")],
        "explain": ["explain"],
        "doctor": ["doctor"],
        "tables": ["query", HEALTHY],
        "check": ["check", snapshots[1], "--max-peak", "1GB", "--max-free", "5%"],
        "whatif": ["whatif", BOUND, "kernel MatMul x0.5"],
        "compare": ["compare", HEALTHY, BOUND],
        "ranks": ["ranks", RANKS],
    }


def as_it_was(new: dict[str, Any]) -> dict[str, Any]:
    """What schema 1 said where schema 2 says ``new``, by a twin of the writer; of findings all that may be there."""
    kind, reasons = new["kind"], [row["reason"] for row in new["not_checked"]]
    old = side_by_side(new) | {"schema_version": 1, "not_judged": reasons}
    if new["source"] is not None:
        old |= {"path": new["source"].get("path")}
    if kind == "compare":
        old["not_judged"] = [{"id": row["id"], "text": row["reason"]} for row in new["not_checked"]]
    if kind == "compare_memory":
        old |= new["source"]
    if kind == "ranks":
        old["verdict"] = " ".join(new["verdict"])
    if kind in ("ranks", "log"):
        old["not_checked"] = reasons
    if kind == "explain":
        old["findings"] = new["sections"]["explanations"]
    if part := old.get("expert_files"):
        old["expert_files"] = part | {"not_checked": [row["reason"] for row in part["not_checked"]]}
    return old


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` without fields that it does not declare."""
    for part in (schema, *schema.get("$defs", {}).values()):
        if part.get("properties"):
            part.setdefault("additionalProperties", False)
    return schema


def held(words: list[str], capsysbinary: Captured) -> str:
    """Hold both schemas of an answer against their declarations, and one against the other; the kind of it."""
    new, old = (_printed([*words, "--format", "json", "--schema", version], capsysbinary) for version in "21")
    return agreeing(new, old)


def agreeing(new: Any, old: Any) -> str:
    """Hold an answer in schemas 2 and 1 against their declarations, and one against the other; the kind of it."""
    kind: str = new["kind"]
    for document, version in ((new, "2"), (old, "1")):
        if isinstance(document, dict):
            Draft202012Validator(closed(report_schema(kind, version))).validate(document)
    assert list(new) == ENVELOPE
    assert new["schema_version"] == 2
    assert all(set(row) == {"id", "reason"} and row["reason"] for row in new["not_checked"])
    if kind in ALONE:
        assert [len(row) for row in old] == [len(row) for row in new["sections"][ALONE[kind]]]
        return kind
    assert list(old) == OLD[kind].split()
    was = as_it_was(new)
    for row, known in zip(old.get("findings", []), was["findings"], strict=True):
        assert row == {name: known[name] for name in row}
    assert {name: was[name] for name in old if name != "findings"} == {
        name: old[name] for name in old if name != "findings"
    }
    return kind


ALONE = {"doctor": "facts", "tables": "tables"}
"""Documents that were a list in schema 1."""


@pytest.mark.few(10)
@pytest.mark.parametrize("name", [name for name in commands() if "real-" not in name])
def test_both_schemas_of_every_answer(name: str, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written in schema 2, which is the usual one, would say the same in schema 1."""
    written, usual = list[tuple[Any, ...]](), envelope.document
    monkeypatch.setattr(envelope, "document", lambda *told: written.append(told) or usual(*told))
    if main([*commands()[name], "--format", "json"]) > 1:  # such as what cannot be replayed
        assert capsysbinary.readouterr().out == b""
        return
    ((data, verdict, schema),) = written
    assert schema == 2
    old = json.loads(json_bytes(data, verdict, "1"))
    assert agreeing(json.loads(capsysbinary.readouterr().out), old) in name


def test_both_schemas_of_what_is_no_fixture(tmp_path: Path, capsysbinary: Captured) -> None:
    made_here = _made(tmp_path)
    assert {kind: held(words, capsysbinary) for kind, words in made_here.items()} == {kind: kind for kind in made_here}
    assert made_here.keys() | {"baseline"} == REPORTS.keys()


def test_the_environment_asks_for_a_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsysbinary: Captured
) -> None:
    told = {
        version: _printed(["ranks", RANKS, "--format", "json", "--schema", version], capsysbinary) for version in "12"
    }
    report = npu_tui.open(HEALTHY).report()
    for schema in "12":
        monkeypatch.setenv("NPU_TUI_SCHEMA", schema)
        assert _printed(["ranks", RANKS, "--format", "json"], capsysbinary) == told[schema]
        assert _printed(["schema", "ranks"], capsysbinary) == report_schema("ranks", schema)
        assert report.to_dict()["schema_version"] == json.loads(report.json())["schema_version"] == int(schema)
        base = tmp_path / "base.json"
        assert main(["check", HEALTHY, "--write-baseline", str(base)]) == 0
        capsysbinary.readouterr()
        Draft202012Validator(report_schema("baseline", schema)).validate(json.loads(base.read_text()))
        assert list(json.loads(base.read_text())) == (ENVELOPE if schema == "2" else OLD["baseline"].split())
    # An option of the command goes before what the environment asks for, which is 2.
    assert _printed(["ranks", RANKS, "--format", "json", "--schema", "1"], capsysbinary) == told["1"]


def test_a_schema_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NPU_TUI_SCHEMA", "3")
    assert main(["report", HEALTHY, "--format", "json"]) == 3
    assert capfd.readouterr().err == "npu-tui: NPU_TUI_SCHEMA is 3, but only schemas 1 and 2 can be written\n"
    with pytest.raises(npu_tui.Error, match="NPU_TUI_SCHEMA is 3"):
        npu_tui.open(HEALTHY).report().json()


def test_a_document_that_is_none_is_not_valid(capsysbinary: Captured) -> None:
    for name, words in (("report", ["report", HEALTHY]), ("ranks", ["ranks", RANKS])):
        schema, document = (
            _printed(["schema", name], capsysbinary),
            _printed([*words, "--format", "json"], capsysbinary),
        )
        Draft202012Validator.check_schema(schema)
        assert Draft202012Validator(schema).is_valid(document)
        # Of each section a row, as all of them are checked again for each field.
        document["sections"] = {
            section: rows[:1] if isinstance(rows, list) else rows for section, rows in document["sections"].items()
        }
        assert Draft202012Validator(schema).is_valid(document)
        for field in ENVELOPE:
            assert not Draft202012Validator(schema).is_valid(document | {field: "none"})


SETTINGS = {
    "": True,
    '[screen]\nlanguage = "zh"\n[keys]\nzoom_in = ["w", "+"]\n[thresholds]\nnear_vertical_us = 20': True,
    '[screen]\nlanguage = "xx"': False,
    "[thresholds]\nnear_vertical_us = -1": False,
    "[thresholds]\nnear_vertical = 1": False,
    "[key]": False,
}


def test_a_settings_file_is_valid_where_the_program_takes_it(tmp_path: Path, capsysbinary: Captured) -> None:
    schema = _printed(["schema", "settings"], capsysbinary)
    Draft202012Validator.check_schema(schema)
    path = tmp_path / "settings.toml"
    for text, valid in SETTINGS.items():
        assert Draft202012Validator(schema).is_valid(tomllib.loads(text)) == valid, text
        path.write_text(text)
        assert (main(["settings", "--check", "--config", str(path)]) == 0) == valid, text
