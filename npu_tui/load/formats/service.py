"""The output of msServiceProfiler: requests, batches and the cache of an inference service.

``msserviceprofiler parse --format csv json db`` writes all files into one folder, those that there are data for:
https://gitcode.com/Ascend/msserviceprofiler. All of them are read, and events where no table has the same. What it
collects before that, a database of each process, is raw data: ``load.raw`` says how it is parsed.
"""

from __future__ import annotations

from pathlib import Path

from npu_tui.load.format import Format, Source, Survey

SPANS = "chrome_tracing.json"
DATABASES = "profiler.db", "ms_service_parsed.db"

# Names that no other writer gives to a file.
_SURE = frozenset({"request_status.csv", "pd_split_communication.csv", "pd_split_kvcache.csv", *DATABASES})
# Names that other writers may give, and headings; a table of this tool has one of them.
_HEADINGS = {
    "request.csv": ("http_rid", "first_token_latency", "recv_token_size", "queue_wait_time"),
    "batch.csv": ("res_list", "batch_type", "prof_id", "prefill_batch_size"),
    "forward.csv": ("bubble_time", "forward_iter", "batch_type"),
    "kvcache.csv": ("device_kvcache_left", "free_blocks", "kvcache_usage_rate"),
    "spec_decode.csv": ("spec_tokens", "accepted_tokens", "accepted_ratio"),
}
_NAMES = {*_SURE, *_HEADINGS, SPANS}
_HEAD = 4096  # bytes that hold the heading of a table


def _is_service_file(file: Path, survey: Survey) -> bool:
    """Whether ``file`` is one that the tool has written, by its name and its headings."""
    if file.name in _SURE:
        return file.is_file()
    if file.name not in _HEADINGS:
        return False
    head = survey.head(file, _HEAD).lower()
    return any(heading.encode() in head for heading in _HEADINGS[file.name])


def recognise(path: Path, survey: Survey | None = None) -> Source | None:
    """The folder ``path`` if it is one of the tool, or the folder of a table or database of it; None for any other.

    Events alone (``chrome_tracing.json``) make no folder of the tool where anything beside them may be a trace. Raises
    ``OSError`` where the folder cannot be read.
    """
    survey = survey or Survey()
    is_folder = path.is_dir()
    if not is_folder and not _is_service_file(path, survey):
        return None
    folder = path if is_folder else path.parent
    files = tuple(file for file in survey.files(folder) if file.name in _NAMES)
    if is_folder and not any(_is_service_file(file, survey) for file in files):
        if [file.name for file in files] != [SPANS] or survey.folders(folder):
            return None
        if any(name.endswith((".gz", ".db", ".json")) for name in survey.names(folder) if name != SPANS):
            return None
    return Source(path, folder, files, None, SERVICE, survey=survey)


SERVICE = Format("service", recognise, "service_trace.read_service_trace", is_folder=True, is_profile=False)
