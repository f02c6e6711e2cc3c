"""Some fields of the JSON report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npu_tui.cli.main import main

PROFILE = str(Path(__file__).resolve().parents[2] / "fixtures" / "dispatch_bound")


def report(capsysbinary: pytest.CaptureFixture[bytes], *words: str) -> dict[str, object]:
    assert main(["report", PROFILE, "--format", "json", *words]) == 0
    found: dict[str, object] = json.loads(capsysbinary.readouterr().out)
    return found


def test_fields_are_those_of_the_whole_report(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    names = "verdict, findings.id,findings.evidence.lane,overlap.free_us"
    whole, some = report(capsysbinary), report(capsysbinary, "--fields", names)
    assert list(some) == ["schema_version", "verdict", "findings", "sections"]
    assert some["verdict"] == whole["verdict"]
    assert some["sections"] == {"overlap": {"free_us": whole["sections"]["overlap"]["free_us"]}}
    assert report(capsysbinary, "--fields", names.replace("overlap", "sections.overlap")) == some
    old = report(capsysbinary, "--fields", names, "--schema", "1")
    assert list(old) == ["schema_version", "overlap", "verdict", "findings"]
    assert (old["schema_version"], old["overlap"], old["findings"]) == (
        1,
        some["sections"]["overlap"],
        some["findings"],
    )
    assert some["findings"] == [
        {"id": each["id"], "evidence": [{"lane": place["lane"]} for place in each["evidence"]]}
        for each in whole["findings"]
    ]


@pytest.mark.parametrize("names", ["sections,overlap.free_us", "overlap,sections", "sections.overlap,sections"])
def test_all_sections_are_all_of_them(names: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert report(capsysbinary, "--fields", names)["sections"] == report(capsysbinary)["sections"]


@pytest.mark.parametrize("names", ["findings.id,findings", "findings,findings.id"])
def test_what_is_asked_for_whole_is_whole(names: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert report(capsysbinary, "--fields", names)["findings"] == report(capsysbinary)["findings"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "json", "--fields", "findings.idd"), "there is no field findings.idd; did you mean findings.id?"),
        (("--format", "json", "--fields", "overlap.fre_us"), "field overlap.fre_us; did you mean overlap.free_us?"),
        (("--format", "json", "--fields", "sections.overlp"), "field sections.overlp; did you mean sections.overlap?"),
        (("--format", "json", "--fields", "overlp"), "there is no field overlp; did you mean overlap?"),
        (("--format", "json", "--fields", "overlp", "--schema", "1"), "field overlp; did you mean overlap?"),
        (("--format", "json", "--fields", "zzz"), "there is no field zzz\n"),
        (("--format", "json", "--fields", "verdict.x"), "there is no field verdict.x; did you mean verdict?"),
        (("--fields", "verdict"), "--fields needs --format json"),
    ],
)
def test_what_is_not_there(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", PROFILE, *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


JOB = str(Path(PROFILE).with_name("two_ranks"))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["report", JOB], "rank_table.rank,source.ranks"),
        (["ranks", JOB], "verdict,rank_table"),
        (["compare", PROFILE, PROFILE], "step.verdict,parts.id"),
        (["compare", JOB, JOB], "paired_by,findings"),
        (["explain", "UTIL"], "explanations.id"),
    ],
)
def test_every_document_gives_some_of_its_fields(
    words: list[str], names: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    def told(*more: str) -> dict[str, object]:
        assert main([*words, "--format", "json", *more]) == 0
        answer: dict[str, object] = json.loads(capsysbinary.readouterr().out)
        return answer.pop("sections", {}) | answer

    whole, some = told(), told("--fields", names)
    assert set(some) == {"schema_version", *(name.partition(".")[0] for name in names.split(","))}
    for name in names.split(","):
        field, _, inner = name.partition(".")
        rows, of_all = (value if isinstance(value, list) else [value] for value in (some[field], whole[field]))
        assert len(rows) == len(of_all)
        for row, full in zip(rows, of_all, strict=True):
            assert row == ({inner: full[inner]} if inner else full)


def test_a_job_names_the_field_that_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ranks", JOB, "--format", "json", "--fields", "rank_tabel"])
    assert ended.value.code == 2
    assert "there is no field rank_tabel; did you mean rank_table?" in capsys.readouterr().err
