"""Loads and placements of experts: what real files hold, what a swap changes, and files that are damaged or odd."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import zipfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import fields_of, reasons

from npu_tui.analysis.experts import best_swap, copies_in
from npu_tui.cli.main import main
from npu_tui.jobs.opening import open_job
from npu_tui.load.formats.experts import expert_files_in, read_expert_files, read_group_list
from npu_tui.output.report_schema import ExpertsReport, experts_at
from npu_tui.strings import say
from npu_tui.tui.job_map import heat_picture
from npu_tui.tui.job_overview import Examined, Overview
from npu_tui.tui.job_screen import JobScreen
from npu_tui.tui.job_tables import job_table


def _real() -> Path:
    folder = os.environ.get("NPU_TUI_TRACES")
    if not folder:
        pytest.skip(reason="NPU_TUI_TRACES is not set: it names the folder of the real profiles")
    return Path(folder) / "experts"


def test_the_loads_of_a_real_engine_are_those_of_its_files():
    report = experts_at(_real())
    assert report is not None
    decode, prefill = report.loads
    assert (prefill.layers, prefill.experts, prefill.tokens, decode.tokens) == (58, 4, 243_269_632, 14_697_255)
    for phase, figures in (("prefill", (3.4259, 3.6624, 3.8415)), ("decode", (1.1148, 1.5224, 2.9667))):
        uneven = [row.expert_uneven for row in report.layers if row.phase == phase]
        assert (min(uneven), round(median(uneven), 4), max(uneven)) == pytest.approx(figures, abs=1e-4)
        assert uneven.index(max(uneven)) == 4
    # One rank alone says nothing about others.
    assert prefill.uneven is prefill.uneven_swapped is None
    assert all(row.swap_expert is None and row.uneven is None for row in report.layers)
    files = read_expert_files(expert_files_in(_real()))
    columns = {dump.phase: dump.tokens.sum(axis=0).tolist() for dump in files.dumps}
    assert columns["prefill"] == [222_371_758, 6_868_606, 7_051_724, 6_977_544]
    assert columns["decode"] == [3_677_949, 3_393_020, 3_433_156, 4_193_130]


def test_a_real_placement_has_its_copies():
    report = experts_at(_real())
    assert report is not None
    (row,) = report.placements
    assert (row.layers, row.devices, row.slots, row.experts, row.redundant, row.twice) == (58, 64, 5, 256, 64, 49)
    assert row.most_copies == {"9": 6, "8": 31, "7": 18, "6": 3}
    (placement,) = read_expert_files(expert_files_in(_real())).placements
    assert placement.slots[0, 0].tolist() == [0, 237, 88, 240, 85]
    assert (np.bincount(placement.slots[0].ravel()) > 1).sum() == 53
    assert row.missing == 0


def _placement(*layers: list[list[int]]) -> dict[str, Any]:
    return {
        "moe_layer_count": len(layers),
        "layer_list": [
            {
                "layer_id": layer,
                "device_count": len(devices),
                "device_list": [
                    {"device_id": device, "device_expert": experts} for device, experts in enumerate(devices)
                ],
            }
            for layer, devices in enumerate(layers)
        ],
    }


def test_the_expert_map_of_an_engine_is_a_placement_whatever_its_name(tmp_path: Path):
    file = tmp_path / "map.json"
    file.write_text(json.dumps(_placement([[7, 2, 0, 3, 5], [6, 1, 4, 7, 2]])))
    report = experts_at(file)
    assert report is not None
    (row,) = report.placements
    assert (row.layers, row.devices, row.slots, row.experts, row.redundant) == (1, 2, 5, 8, 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_swap_is_that_of_trying_all(seed: int):
    draw = np.random.default_rng(seed)
    tokens = np.rint(draw.gamma(1.5, 1000, (6, 3)))
    experts = np.arange(18).reshape(6, 3)
    hot = int(tokens.sum(axis=1).argmax())
    after = {}
    for slot, other, other_slot in itertools.product(range(3), range(6), range(3)):
        swapped = tokens.copy()
        swapped[hot, slot], swapped[other, other_slot] = tokens[other, other_slot], tokens[hot, slot]
        after[slot, other, other_slot] = swapped.sum(axis=1).max()
    swap = best_swap(tokens, experts)
    assert swap is not None
    assert (swap.place, swap.most) == (hot, min(after.values()))
    assert after[swap.expert % 3, swap.other, swap.other_expert % 3] == swap.most


def test_no_swap_brings_a_second_copy_to_a_device():
    tokens, experts = np.array([[50.0, 40.0], [10.0, 8.0]]), np.array([[0, 1], [0, 1]])
    assert best_swap(tokens, experts) is None
    assert best_swap(tokens, np.array([[0, 1], [2, 3]])) is not None
    assert best_swap(np.ones((3, 2)), np.arange(6).reshape(3, 2)) is None  # even


def test_copies_on_one_device_and_experts_without_a_place():
    slots = np.array([[[0, 0], [1, -1]], [[0, 1], [2, 0]]])
    copies = copies_in(slots)
    assert (copies.experts, copies.redundant, copies.twice, copies.missing) == (3, 1, 1, 1)
    assert copies.most == {2: 2}


def _dump(folder: Path, tokens: Any, phase: str = "decode") -> None:
    """The dumps of all ranks by ``tokens`` (layers, ranks, experts)."""
    for rank in range(len(tokens[0])):
        rows = [",".join(str(int(cell)) for cell in layer[rank]) for layer in tokens]
        (folder / f"{phase}_{rank}.csv").write_text("\n".join(rows) + "\n")


def _report(folder: Path) -> ExpertsReport:
    report = experts_at(folder)
    assert report is not None
    return report


def test_swaps_are_told_with_what_they_change(tmp_path: Path):
    _dump(tmp_path, [[[60, 40], [10, 10]], [[10, 10], [10, 10]]])
    report = _report(tmp_path)
    (load,), (first, second) = report.loads, report.layers
    assert (load.uneven, load.uneven_swapped) == (1.5, 1.125)
    assert (first.uneven, first.slowest, first.expert, first.rank) == (1.6667, 0, 0, 0)
    assert (first.slowest, first.swap_rank, first.uneven_swapped) == (0, 1, 1.1667)
    assert (second.uneven, second.swap_expert) == (1.0, None)
    assert "1.67 → 1.17 times the mean" in report.verdict[1]


def test_experts_have_the_numbers_of_the_placement_that_fits(tmp_path: Path):
    _dump(tmp_path, [[[60, 40], [10, 10]]])
    (tmp_path / "decode_global_deployment.json").write_text(json.dumps(_placement([[9, 4], [7, 5]])))
    (tmp_path / "prefill_global_deployment.json").write_text(json.dumps(_placement([[0, 1], [2, 3]])))
    (row,) = _report(tmp_path).layers
    assert (row.expert, row.swap_with in (7, 5)) == (9, True)
    (tmp_path / "decode_global_deployment.json").unlink()
    (tmp_path / "prefill_global_deployment.json").write_text(json.dumps(_placement([[0, 1, 2], [3, 4, 5]])))
    report = _report(tmp_path)
    assert report.layers[0].expert == 0
    assert any("numbered rank by rank" in line for line in reasons(report))


def test_what_cannot_be_read_is_said_in_a_line_and_loses_nothing_else(tmp_path: Path):
    _dump(tmp_path, [[[60, 40], [10, 10], [5, 5]], [[10, 10], [10, 10], [5, 5]]])
    good = _report(tmp_path)
    (tmp_path / "decode_3.csv").write_bytes(b"\xff\x00,,\n")
    (tmp_path / "decode_4.csv").write_text("1,2,3\n")
    (tmp_path / "decode_5.csv").write_text("")
    (tmp_path / "decode_00.csv").write_text("1,1\n1,1\n")
    (tmp_path / "decode_6.csv").mkdir()
    (tmp_path / "model_gen_config.json").write_text("[1]")
    (tmp_path / "a_global_deployment.json").write_text('{"layer_list": 3}')
    (tmp_path / "b_global_deployment.json").write_text("[" * 100_000)
    (tmp_path / "expert_map.json").write_text(
        '{"layer_list": [{"layer_id": 0, "device_list": [{"device_id": 0, "device_expert": [1, true]}, 7,'
        ' {"device_id": 1, "device_expert": [2, 3]}]}, {"layer_id": 0, "device_list": []}, {"layer_id": -1}]}'
    )
    report = _report(tmp_path)
    assert report.ranks == good.ranks
    assert report.layers == good.layers
    assert [(row.devices, row.slots) for row in report.placements] == [(1, 2)]
    said = "\n".join(reasons(report))
    names = "decode_3 decode_4 decode_5 decode_00 decode_6 model_gen a_global b_global expert_map"
    for name in names.split():
        assert name in said
    assert all("\n" not in line for line in reasons(report))
    assert "4 entries left out" in said


def test_cells_that_are_no_tokens_are_unknown_and_a_heading_is_none(tmp_path: Path):
    (tmp_path / "decode_0.csv").write_text("\ufeffe0,e1\r\n10,-1\r\n20,nan\r\n5,5,5\r\n7,7.0\r\n")
    (tmp_path / "decode_1.csv").write_text("1,1\n1,1\n1,1\n1,1\n")
    report = _report(tmp_path)
    assert [row.tokens for row in report.ranks] == [44, 8]
    assert any("4 cells are not token counts" in line for line in reasons(report))


def test_of_several_collections_the_last_counts(tmp_path: Path):
    _dump(tmp_path, [[[1, 1], [1, 1]], [[8, 0], [0, 8]], [[4, 4], [2, 2]]])
    (tmp_path / "model_gen_config.json").write_text('{"num_moe_layers": 2}')
    report = _report(tmp_path)
    assert [row.tokens for row in report.layers] == [16, 12]
    assert sum("the last ones count" in line for line in reasons(report)) == 2


def _group_list(file: Path, numbers: list[int], storage: str = "LongStorage") -> None:
    """What torch.save writes of a tensor of ``numbers``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tensor = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01ctorch\n"
        + storage.encode()
        + b"\nq\x02X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K"
        + bytes([len(numbers)])
        + b"tq\x05QK\x00K"
        + bytes([len(numbers)])
        + b"\x85q\x06K\x01\x85q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\x09tq\x0aRq\x0b."
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", tensor)
        archive.writestr("archive/data/0", np.array(numbers, "<i8" if storage == "LongStorage" else "<i4").tobytes())
        archive.writestr("archive/version", "3\n")


@pytest.mark.parametrize("storage", ["LongStorage", "IntStorage"])
def test_group_lists_of_dumped_products_are_loads(tmp_path: Path, storage: str):
    for rank, layers in enumerate(([[60, 40], [10, 30]], [[10, 10], [30, 10]])):
        tensors = tmp_path / "step_3" / "actor" / f"rank{rank}" / "dump_tensor_data"
        for number, counts in enumerate(each for layer in layers for each in (layer, layer)):  # two products a layer
            name = f"NPU.npu_grouped_matmul.{number + 8}.forward.kwargs.group_list.pt"
            _group_list(tensors / name, counts if rank else np.cumsum(counts).tolist(), storage)
    report = _report(tmp_path)
    assert [(row.phase, row.rank, row.tokens) for row in report.ranks] == [
        ("step_3 actor", 0, 140),
        ("step_3 actor", 1, 60),
    ]
    assert [row.expert_tokens for row in report.layers] == [60, 30]
    rank = tmp_path / "step_3" / "actor" / "rank2" / "dump_tensor_data"
    for at, content in enumerate((b"", b"PK\x03\x04", b"\x80\x02cos\nsystem\n.")):
        rank.mkdir(parents=True, exist_ok=True)
        (rank / f"NPU.npu_grouped_matmul.{at}.forward.kwargs.group_list.pt").write_bytes(content)
    os.mkfifo(rank / "NPU.npu_grouped_matmul.3.forward.kwargs.group_list.pt")
    again = _report(tmp_path)
    assert again.ranks == report.ranks
    assert any("rank2" in line for line in reasons(again))


@given(
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=20),
    st.floats(0, 1),
)
def test_damaged_group_lists_are_read_or_refused_in_words(tmp_path_factory, packed, damages, kept):
    """However a member is packed, and wherever bytes are wrong or missing."""
    path = tmp_path_factory.mktemp("lists") / "list.pt"
    _group_list(path, [3, 4, 5])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    data = bytearray(path.read_bytes())
    for at, byte in damages:
        data[int(at * len(data))] = byte
    path.write_bytes(data[: len(data) if kept > 0.5 else int(2 * kept * len(data))])
    with contextlib.suppress(ValueError, OSError):
        numbers = read_group_list(path)
        assert packed == zipfile.ZIP_STORED
        assert len(numbers) <= 256
        assert (numbers >= 0).all()


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_every_format_tells_them_alone_and_beside_a_profile(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    _dump(tmp_path, [[[60, 40], [10, 10]]])
    assert main(["report", str(tmp_path), "--format", form]) == 0
    alone = capfd.readouterr().out
    assert "1.67 → 1.17" in alone
    if form == "html":
        assert "+66.7%" in alone  # the map of ranks by layer
    if form == "json":
        report = fields_of(alone)
        (finding,) = report["findings"]
        assert (finding["id"], finding["severity"], finding["ranks"]) == ("EXPERT.SWAP", "medium", [0])
        assert (report["source"]["kinds"], report["not_checked"]) == (
            ["experts"],
            [{"id": "experts.alone", "reason": say("job.experts.alone")}],
        )


def test_nothing_readable_is_an_error_of_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "decode_0.csv").write_text("")
    assert main(["report", str(tmp_path)]) == 3
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_beside_a_profile_they_stand_in_its_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    profile = Path(__file__).parents[2] / "fixtures" / "healthy"
    folder = tmp_path / "one_ascend_pt"
    folder.mkdir()
    for child in profile.iterdir():
        (folder / child.name).symlink_to(child)
    (folder / "expert_hotspot").mkdir()
    _dump(folder / "expert_hotspot", [[[60, 40], [10, 10]]])
    assert main(["report", str(folder), "--format", "json"]) == 0
    report = fields_of(capfd.readouterr().out)
    assert report["expert_files"]["loads"][0]["uneven"] == 1.6667
    assert report["experts"] == []


def _shown(path: Path) -> tuple[Overview, str]:
    """The first screen of a job, and how large its panel is."""
    screen = JobScreen(path)
    screen.show(Examined(open_job(path)))
    assert screen.view is not None
    return screen.view, screen.panel.growth


def test_dumps_are_a_job_with_a_map_of_ranks_by_layer(tmp_path: Path):
    _dump(tmp_path, [[[60, 40], [10, 10]], [[10, 10], [10, 10]]])
    view, growth = _shown(tmp_path)
    assert growth == "normal"
    picture, table = heat_picture(view), job_table(view, "job_experts")
    assert [(row.label, row.shares.round(3).tolist()) for row in picture.rows] == [
        ("0", [0.133, 0.0]),
        ("1", [-0.133, 0.0]),
    ]
    assert (picture.columns, picture.heads, len(table.rows)) == (("0", "1"), (), 2)
    view.next_finding(1)
    assert (view.metric, view.rank) == ("experts", 0)
    file = tmp_path / "map.json"
    file.write_text(json.dumps(_placement([[0, 1], [2, 3]])))
    placed, growth = _shown(file)
    assert growth == "full"  # there is no map
    assert [row.cells[0] for row in job_table(placed, "job_experts").rows] == ["map.json"]
