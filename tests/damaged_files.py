"""Damages every file beside a trace in every way and looks at the profile: nothing may fail, what is lost is said.

``python tests/damaged_files.py [CUTS]`` prints a row per damage with how the files are told; 20 cuts without a number.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "fixtures")]

from beside import profile_with_files  # noqa: E402 - its folder is no package

from npu_tui.load.companion_schema import (  # noqa: E402
    Reading,
    Schema,
    find_file,
)
from npu_tui.load.companions import Companions  # noqa: E402
from npu_tui.load.find import find_source  # noqa: E402
from npu_tui.load.load import load  # noqa: E402
from npu_tui.output.envelope import json_bytes  # noqa: E402
from npu_tui.output.report import report  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.strings import words  # noqa: E402
from npu_tui.trace.model import Trace  # noqa: E402

Damage = Callable[[Path, bytes], None]

OTHERS = {
    "operator_details.csv": """Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us)
aten::mm,"64,1024;\r\n1024,64","main.py(3): train;\r\nmain.py(9): <module>",1.5,2.5,3.5
aten::add,"64,64;\r\n64,64",,0.5,0.75,1.25
""",  # noqa: E501
    "api_statistic.csv": """Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance
0,acl,aclnnMatmul,120.5,4,30.125,28.0,33.0,2.5
host,node,launch,20.25,4,5.0625,4.0,6.0,0.5
""",
    "static_op_mem.csv": """Device_id,Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)
0,MatMulV2_1,model,1,0,3,1024.5
0,Add_2,model,1,2,4,12
""",
    "data_preprocess.csv": """Device_id,Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us),Stream ID,Task ID
0,1751342400000811.240\t,GetNext,120.5,30.5,151.0,1.0,152.0,3,7
0,1751342400002811.240\t,GetNext,118.5,30.5,149.0,1.0,150.0,3,8
""",  # noqa: E501
    "nic.csv": """Device_id,Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,Tx Bandwidth efficiency(%),txPacket/s,funcId
0,1751342400000811.240\t,200000,1.5,1000,2.5,1200,0
0,1751342400001811.240\t,200000,1.75,1100,2.75,1300,0
""",  # noqa: E501
    "roce.csv": """Device_id,Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,Tx Bandwidth efficiency(%),txPacket/s,funcId
0,1751342400000811.240\t,200000,1.5,1000,2.5,1200,0
""",  # noqa: E501
    "pcie.csv": """Device_id,Mode,Min,Max,Avg
0,Tx_p_avg (MB/s),0.1,5.5,1.5
0,Rx_p_avg (MB/s),0.2,6.5,2.5
""",
    "hccs.csv": """Device_id,Mode,Max,Min,Average
0,Tx (MB/s),20000,0,150.5
0,Rx (MB/s),21000,0,160.5
""",
}  # fmt: skip
"""Files that the simulated profile has no figures for, with rows as the profilers write them."""

METADATA = """{"parallel_group_info": {"tp": {"group_name": "tp", "group_rank": 0, "global_ranks": [0, 1]}},
"ENV_VARIABLES": {"TASK_QUEUE_ENABLE": "2", "HCCL_ALGO": ""}}"""


def directory(file: Path, content: bytes) -> None:
    file.unlink()
    file.mkdir()


def chinese(file: Path, content: bytes) -> None:
    file.write_bytes(content.replace(b"aten::mm", "矩阵乘".encode("gbk")))


def headless(file: Path, content: bytes) -> None:
    file.write_bytes(content.partition(b"\n")[2])


def columnless(file: Path, content: bytes) -> None:
    """Every second column is gone."""
    lines = content.decode().splitlines()
    file.write_text("\n".join(",".join(line.split(",")[::2]) for line in lines) + "\n")


def open_quote(file: Path, content: bytes) -> None:
    """A quote in the middle that is never closed."""
    middle = len(content) // 2
    file.write_bytes(content[:middle] + b'"' + content[middle:])


def no_numbers(file: Path, content: bytes) -> None:
    """Digits are letters from the second line on."""
    head, _, rest = content.partition(b"\n")
    file.write_bytes(head + b"\n" + rest.translate(bytes.maketrans(b"0123456789", b"abcdefghij")))


def without(column: int) -> Damage:
    """One column is gone."""

    def done(file: Path, content: bytes) -> None:
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
        with file.open("w", newline="") as out:
            csv.writer(out).writerows(row[:column] + row[column + 1 :] for row in rows)

    return done


def rubbish(file: Path, content: bytes) -> None:
    file.write_bytes(bytes((37 * k) % 251 for k in range(4096)))


def nothing(file: Path, content: bytes) -> None:
    file.write_bytes(b"")


WAYS: dict[str, Damage] = {
    "directory": directory, "GBK": chinese, "no header": headless, "columns missing": columnless,
    "open quote": open_quote, "no numbers": no_numbers, "rubbish": rubbish, "no byte": nothing,
}  # fmt: skip


def cut_at(part: int, parts: int) -> Damage:
    return lambda file, content: (file.write_bytes(content[: len(content) * part // parts]), None)[1]


@contextmanager
def each_content_read_once() -> Iterator[None]:
    """Tables of files that nobody has changed since are not read again."""
    read, kept = Companions.read, {}

    def remembered(companions: Companions, schema: Schema) -> Reading:
        file = find_file(companions.folder, schema.stem, schema.others)
        if not file.is_file():
            return read(companions, schema)
        known = file, file.read_bytes()
        if known not in kept:
            kept[known] = read(companions, schema)
        return kept[known]

    with patch.object(Companions, "read", remembered):
        yield


def damages(folder: Path, cuts: int, every: bool = True) -> Iterator[tuple[str, str, str, str]]:
    """(file, damage, state, what is said) for a profile in ``folder`` that is damaged again and again.

    ``every``: the report is made each time, and each column is left out in turn; else the files are only read, each
    after every third way.
    """
    profile = profile_with_files(ROOT / "fixtures" / "healthy", folder)
    trace = load(find_source(profile))
    output = profile / "ASCEND_PROFILER_OUTPUT"
    for name, text in OTHERS.items():
        (output / name).write_text(text)
    (profile / "profiler_metadata.json").write_text(METADATA)
    settings = [profile / "profiler_info_0.json", profile / "profiler_metadata.json"]
    files = [*sorted(file for file in output.iterdir() if file.name != "trace_view.json"), *settings]
    ways = {**{f"cut {part}/{cuts}": cut_at(part, cuts) for part in range(1, cuts)}, **WAYS}
    for number, file in enumerate(files):
        content = file.read_bytes()
        header = content.decode().partition("\n")[0].strip().split(",") if file.suffix == ".csv" else []
        columns = {f"without {heading}": without(place) for place, heading in enumerate(header) if every}
        chosen = [*ways.items(), *columns.items()]
        for name, damage in chosen if every else chosen[number % 3 :: 3]:
            damage(file, content)
            yield file.name, name, *_seen(trace, profile, file.name, every)
            if file.is_dir():
                file.rmdir()
            file.write_bytes(content)


def _seen(trace: Trace, folder: Path, name: str, whole: bool) -> tuple[str, str]:
    found = Profile(trace, find_source(folder))
    _ = (
        found.kernel_table,
        found.memory,
        found.tables.transfers,
        found.tables.link_matrix,
        found.tables.preprocessing,
        found.setup,
    )
    if whole:
        json_bytes(report(found))
    wanted = "profiler_info.json" if name.startswith("profiler_info") else name
    state = next(each for each in found.tables.files if each.name == wanted)
    return state.state, "; ".join(words(problem) for problem in state.problems)


def main(arguments: list[str]) -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp())
    count = 0
    try:
        for row in damages(folder / "profile", int(arguments[0]) if arguments else 20):
            count += 1
            print(f"| {' | '.join(row)} |")
    finally:
        shutil.rmtree(folder)
    print(f"{count} damaged profiles, none failed")


if __name__ == "__main__":
    main(sys.argv[1:])
