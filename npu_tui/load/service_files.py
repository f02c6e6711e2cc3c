"""Which folders are the output of msServiceProfiler, by the names of their files and the headings of its tables.

``msserviceprofiler parse --format csv json db`` writes all files into one folder, those that there are data for:
https://gitcode.com/Ascend/msserviceprofiler.
"""

from __future__ import annotations

from pathlib import Path

from npu_tui.trace.side_file import head_of

SPANS = "chrome_tracing.json"
DATABASES = "profiler.db", "ms_service_parsed.db"

_SURE = frozenset({"request_status.csv", "pd_split_communication.csv", "pd_split_kvcache.csv", *DATABASES})
"""Names that nobody else gives to a file."""
_HEADINGS = {
    "request.csv": ("http_rid", "first_token_latency", "recv_token_size", "queue_wait_time"),
    "batch.csv": ("res_list", "batch_type", "prof_id", "prefill_batch_size"),
    "forward.csv": ("bubble_time", "forward_iter", "batch_type"),
    "kvcache.csv": ("device_kvcache_left", "free_blocks", "kvcache_usage_rate"),
    "spec_decode.csv": ("spec_tokens", "accepted_tokens", "accepted_ratio"),
}
"""Names that others may give, and headings of which a table of this tool has one."""
_HEAD = 4096


def is_service_file(file: Path) -> bool:
    """Whether ``file`` is one that the tool has written, by its name and its headings."""
    if file.name not in _SURE and file.name not in _HEADINGS:
        return False
    if file.name in _SURE:
        return file.is_file()
    head = head_of(file, _HEAD).lower()
    return any(heading.encode() in head for heading in _HEADINGS[file.name])


def service_files(folder: Path) -> list[Path]:
    """The files of the tool in ``folder``, by name."""
    names = sorted((*_SURE, *_HEADINGS, SPANS))
    return [file for name in names if (file := folder / name).is_file()]


def service_folder(path: Path) -> Path | None:
    """``path`` if it is a folder of the tool, or the folder of a table or database of it; None if it is neither.

    Events alone (``chrome_tracing.json``) make no folder of the tool where anything beside them may be a trace.
    """
    if not path.is_dir():
        return path.parent if is_service_file(path) else None
    files = service_files(path)
    alone = [file.name for file in files] == [SPANS] and not any(
        child.suffix in (".gz", ".db") or (child.suffix == ".json" and child.name != SPANS) or child.is_dir()
        for child in path.iterdir()
    )
    return path if alone or any(map(is_service_file, files)) else None
