"""What is written as JSON is valid by the schema that ``npu-tui schema`` prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from npu_tui.cli.main import main
from npu_tui.output.schemas import REPORTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Captured = pytest.CaptureFixture[bytes]
ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
HEALTHY, BOUND, RANKS = (str(FIXTURES / name) for name in ("healthy", "dispatch_bound", "two_ranks"))


def printed(words: list[str], capsysbinary: Captured) -> Any:
    assert main(words) == 0
    return json.loads(capsysbinary.readouterr().out)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("report", ["report", HEALTHY]),
        ("report", ["report", BOUND, "--range", "1ms..9ms"]),
        ("compare", ["compare", HEALTHY, BOUND]),
        ("ranks", ["ranks", RANKS]),
    ],
)
def test_documents_are_valid(name: str, words: list[str], capsysbinary: Captured) -> None:
    schema = printed(["schema", name], capsysbinary)
    Draft202012Validator.check_schema(schema)
    document = printed([*words, "--format", "json"], capsysbinary)
    Draft202012Validator(schema).validate(document)
    document["source" if "source" in document else "schema_version"] = []
    assert not Draft202012Validator(schema).is_valid(document)


SETTINGS = {
    "": True,
    '[screen]\nlanguage = "zh"\n[keys]\nzoom_in = ["w", "+"]\n[thresholds]\nnear_vertical_us = 20': True,
    '[screen]\nlanguage = "xx"': False,
    "[thresholds]\nnear_vertical_us = -1": False,
    "[thresholds]\nnear_vertical = 1": False,
    "[key]": False,
}


def test_a_settings_file_is_valid_where_the_program_takes_it(tmp_path: Path, capsysbinary: Captured) -> None:
    schema = printed(["schema", "settings"], capsysbinary)
    Draft202012Validator.check_schema(schema)
    path = tmp_path / "settings.toml"
    for text, valid in SETTINGS.items():
        assert Draft202012Validator(schema).is_valid(tomllib.loads(text)) == valid, text
        path.write_text(text)
        assert (main(["settings", "--check", "--config", str(path)]) == 0) == valid, text


def test_every_document_has_a_schema() -> None:
    known = {
        "report",
        "compare",
        "ranks",
        "memory",
        "compare_memory",
        "compare_jobs",
        "compare_service",
        "log",
    }
    assert set(REPORTS) == known
