"""What collectives of a job cost once all ranks have come, against the same one in other steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from by_hand import ByHand

from npu_tui.cli.main import main


def _job(folder: Path, steps: int) -> Path:
    """Two ranks; the second comes 400 us later to the first collective of each step, the second one is slow once."""
    for rank in range(2):
        trace = ByHand()
        for step in range(steps):
            begin = 5000.0 * step
            trace.step(step, begin, 5000)
            late = 400.0 * rank
            trace.launch("aclnnMm_MatMulV2_MatMulV2", begin + 2, begin + 10, 1000 + late)
            trace.group(f"hcom_allReduce__021_{2 * step}_1", begin + 1010 + late, 700 - late)
            trace.launch("aclnnAdd_Add_Add", begin + 20, begin + 1720, 300)
            slow = 250 if step == 1 else 0
            trace.group(f"hcom_allReduce__021_{2 * step + 1}_1", begin + 2030, 100 + slow)
        trace.write(folder, rank)
    return folder


@pytest.mark.parametrize("steps", [1, 4])
def test_costs_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int) -> None:
    folder = str(_job(tmp_path, steps))
    assert main(["ranks", folder, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["sections"]["collective_costs"]
    slow = 250 if steps > 1 else 0
    assert (row["type"], row["count"]) == ("allReduce", 2 * steps)
    assert row["waited_us"] == pytest.approx(400 * steps, abs=5)
    assert row["without_wait_us"] == pytest.approx(400 * steps + slow, abs=5)
    assert (row["fastest_us"], row["slowest_us"]) == (
        pytest.approx(100, abs=2),
        pytest.approx(max(300, 100 + slow), abs=2),
    )
    assert row["beyond_us"] == (pytest.approx(slow, abs=5) if steps > 1 else None)
    assert main(["query", folder, "select type, collectives, beyond from job_collective_costs", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"allReduce,{2 * steps},")
    assert main(["ranks", folder]) == 0
    assert "Collectives by type and group, once all ranks had come" in capsys.readouterr().out
