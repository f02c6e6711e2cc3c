"""Profiles of different kinds against each other: another chip, a database, another level, two ranks."""

import os
from pathlib import Path

import pytest
from gpu import as_gpu
from measured import profile_at
from written import html_comparison, text_comparison

from npu_tui.analysis.operators import foreign_type
from npu_tui.compare.comparison import ProfileComparison
from npu_tui.compare.differences import differences
from npu_tui.compare.measured import MeasuredSide
from npu_tui.compare.picture import ComparisonPicture, compared_scene
from npu_tui.load.load import opening_of
from npu_tui.output.compare_report import compared as typed
from npu_tui.profile.profile import Profile
from npu_tui.rules.find import RULES
from npu_tui.view.explorer import Explorer
from npu_tui.view.painter import Painter
from tests.conftest import WITHOUT_TRACES

_FIXTURES = Path(__file__).parents[2] / "fixtures"
_TRACES = os.environ.get("NPU_TUI_TRACES")
_REAL = pytest.mark.skipif(_TRACES is None, reason=WITHOUT_TRACES)
_FASTER = 0.045
"""A GPU that needs 45 s where the NPU needs 1000 s."""


def side(path):
    opening = opening_of(Path(path), cached=False)
    return MeasuredSide(Profile(opening.trace(), opening.source))


def real(name):
    return side(Path(_TRACES or ".") / name)


def test_a_gpu_is_compared_by_operation(tmp_path):
    npu = side(_FIXTURES / "healthy")
    gpu = side(as_gpu(npu, _FASTER, tmp_path / "a100.pt.trace.json"))
    found = ProfileComparison(gpu, npu)
    assert found.by_operation
    assert found.comparability.verdict in ("comparable", "partly")
    assert found.kernels_matched < 1.0, "attention is another operation on a GPU"
    attention = "aten::scaled_dot_product_attention", "npu::npu_fusion_attention"
    found = ProfileComparison(
        gpu, npu, renamed={attention[0]: attention[1], f"{attention[0]}_grad": f"{attention[1]}_grad"}
    )
    assert found.kernels_matched == 1.0
    assert found.operations_matched > 0.5, "the NPU has operations of its own"
    groups = {row.identity.type: row for row in found.groups}
    assert {"aten::mm", "aten::gelu", "npu::npu_fusion_attention"} <= set(groups)
    assert all(row.rung == "operation" for row in found.groups)
    # Steps of one side are not those of the other: kernels differ by a few percent between them.
    assert groups["aten::mm"].new.total / groups["aten::mm"].base.total == pytest.approx(1 / _FASTER, rel=0.1)
    assert found.computing.new.mean() / found.computing.base.mean() == pytest.approx(1 / _FASTER, rel=0.05)
    assert found.computing.verdict == "slower"
    assert found.lines == [], "lines of a GPU are where functions begin"
    assert not found.comparability.config, "one side tells no settings"
    report = typed(found)
    # What holds on both: findings about NPUs only are left out.
    assert {each.id for each in report.profile_findings} <= {rule.id for rule in RULES if rule.gpu is not None}
    row = next(row for row in report.groups if row.type == "aten::mm")
    assert row.ratio == pytest.approx(1 / _FASTER, rel=0.1)
    text = text_comparison(report)
    assert f"{found.computing.new.mean() / found.computing.base.mean():.3g}× the time of the base" in text


def test_the_same_gpu_twice_is_the_same(tmp_path):
    gpu = side(as_gpu(side(_FIXTURES / "healthy"), _FASTER, tmp_path / "a100.pt.trace.json"))
    found = ProfileComparison(gpu, gpu)
    assert not found.by_operation
    assert found.step.verdict == "same"
    assert differences(found) == []


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int, float*)",
         "at::native::vectorized_elementwise_kernel"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("MatMulV2_12", "MatMulV2"),
        ("te_matmul_3f9a1c2b7d4e_1", "te_matmul"),
        ("42", "42"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, int, 2>(float*)",
         "at::native::CatArrayBatchedCopy"),
        ("void at::native::<unnamed>::cunn_SoftMaxForward<4>(float*)", "at::native::cunn_SoftMaxForward"),
    ],
)  # fmt: skip
def test_names_lose_what_differs_from_run_to_run(name, type_):
    assert foreign_type(name) == type_


@_REAL
@pytest.mark.parametrize("level", ["level0", "level1"])
@pytest.mark.parametrize("rank", [0, 1])
def test_text_and_database_of_one_job(level, rank):
    """The same job, host and day: computing is the same, and no step is called slower."""
    found = ProfileComparison(real(f"text/{level}/rank{rank}_ascend_pt"), real(f"db/{level}/rank{rank}_ascend_pt"))
    assert found.computing.verdict == "same"
    assert found.step.verdict != "slower"
    assert found.operations_matched > 0.99
    assert found.kernels_matched > 0.99
    assert len(found.collectives) == 4
    assert all(row.base and row.new for row in found.collectives)


@_REAL
@pytest.mark.parametrize("kind", ["text", "db"])
def test_two_levels_leave_out_short_kernels(kind):
    found = ProfileComparison(real(f"{kind}/level0/rank0_ascend_pt"), real(f"{kind}/level1/rank0_ascend_pt"))
    assert found.computing.verdict == "same"
    assert [each.code for each in found.comparability.not_judged] == ["compare.skipped.short_kernels"]


@_REAL
def test_two_ranks_from_databases_are_one_job():
    found = ProfileComparison(real("db/level1/rank0_ascend_pt"), real("db/level1/rank1_ascend_pt"))
    assert found.comparability.verdict == "same_job"
    assert found.paired


def test_an_old_chip_against_a_new_one():
    found = ProfileComparison(side(_FIXTURES / "older_chip"), side(_FIXTURES / "healthy"))
    assert found.comparability.verdict in ("comparable", "partly")
    assert sum(part.exact for part in found.parts) == round(
        len(found.base.walls) * found.new.walls.sum() - len(found.new.walls) * found.base.walls.sum()
    )


_UNLIKE = [
    ("mindspore", "kineto"), ("mindspore", "msprof_two_devices"), ("healthy", "chrome_generic/pretty.json"),
    ("interrupted", "level0"),
]  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("names", _UNLIKE, ids="-".join)
def test_unlike_profiles_are_told_and_drawn(names, turned):
    """Without steps, operations, a device or anything alike there is still a report, a page and a picture."""
    base, new = (side(_FIXTURES / name) for name in (names[::-1] if turned else names))
    found = ProfileComparison(base, new)
    picture = ComparisonPicture(found)
    assert text_comparison(typed(found)).splitlines()[2].startswith("base ")
    assert "</html>" in html_comparison(typed(found), picture)
    for alignment in ("step", "every"):
        picture.pair.alignment = alignment
        scene = compared_scene(picture)
        explorer = Explorer(scene, 100, 20)
        rows = Painter(scene).compose(explorer.rows, explorer.state, 124, 24).grid
        assert rows.text(4).strip()


@pytest.mark.parametrize("annotated", [False, True])
def test_a_step_of_a_gpu_lasts_until_its_last_kernel(tmp_path, annotated):
    """The host runs ahead: a step on the device ends after its slice on the host."""
    npu = side(_FIXTURES / "healthy")
    path = as_gpu(npu, 3.0, tmp_path / "late.pt.trace.json", late_ns=40_000_000, annotated=annotated)
    late = MeasuredSide(side(path).profile, [each.number for each in npu.windows])
    kernels = late.kernels
    assert len(kernels.item) == len(npu.kernels.item), "every kernel is one of a step"
    assert len(late.windows) == len(npu.windows), "annotations on the device are no steps of their own"
    found = ProfileComparison(late, npu)
    assert sum(part.exact for part in found.parts) == round(
        len(found.base.walls) * found.new.walls.sum() - len(found.new.walls) * found.base.walls.sum()
    )
    last = late.windows[-1]
    assert last.end == int((kernels.duration + late.trace.slices.start[kernels.item]).max())


def test_tables_alone_are_compared_by_their_kernels(tmp_path):
    """Two folders of which only kernel_details.csv is left: one kernel takes longer in the second."""
    for name, took in (("base", 50), ("new", 80)):
        rows = ["Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Input Shapes"]
        for step in range(6):
            for k in range(10):
                at = 10_000 * step + 100 * k
                rows.append(f'{step + 1},mm,MatMulV2,AI_CORE,{at}.000,{took}.000,0,"8,8"')
                rows.append(f'{step + 1},add,Add,AI_VECTOR_CORE,{at + 80}.000,10.000,0,"8,8"')
            rows.append(f"{step + 1},hcom_allReduce__1_0_1,hcom_allReduce_,HCCL,{10_000 * step + 1_000}.000,200.000,0,")
        folder = tmp_path / name / "h_1_20250601120000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        folder.mkdir(parents=True)
        (folder / "kernel_details.csv").write_text("\n".join(rows) + "\n")
    base, new = (MeasuredSide(profile_at(next((tmp_path / name).iterdir()), None)) for name in ("base", "new"))
    found = ProfileComparison(base, new)
    assert found.comparability.verdict == "comparable"
    assert [len(each.windows) for each in (base, new)] == [5, 5], "without the first step"
    assert found.computing.base.tolist() == [600_000.0] * 5
    assert found.computing.new.tolist() == [900_000.0] * 5
    groups = {row.identity.type: row for row in found.groups}
    assert (groups["MatMulV2"].change, groups["MatMulV2"].delta) == ("slower", 300_000.0)
    assert (groups["Add"].change, groups["Add"].delta) == ("same", 0.0)
    assert "only kernels are compared" in text_comparison(typed(found))
