"""A text profile as the databases that the profiler would have written of the same run.

Knows the two formats and nothing of the package. What a database keeps less exactly than a text is written as the
profiler does: a launch begins where its API call begins, and no batch of a task is kept.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from schema import ANALYSIS, ENUMS, INDEXES, SCHEMA, create

NONE = 4294967295
LEVELS = {"AscendCL@": 20000, "Model@": 15000, "Node@": 10000, "Runtime@": 5000, "Hccl@": 5500, "Communication@": 5500}
HOST_TYPES = {
    "AI_CORE": "KERNEL_AICORE",
    "AI_VECTOR_CORE": "KERNEL_AIVEC",
    "MIX_AIC": "KERNEL_MIX_AIC",
    "MIX_AIV": "KERNEL_MIX_AIV",
    "AI_CPU": "KERNEL_AICPU",
    "DSA_SQE": "STARS_COMMON",
}
MB = 1 << 20


class Profile:
    """The files of a text profile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "ASCEND_PROFILER_OUTPUT" if (folder / "ASCEND_PROFILER_OUTPUT").is_dir() else folder
        self.events: list[dict[str, Any]] = json.loads((self.output / "trace_view.json").read_bytes())

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of a CSV file, cells stripped; none without it."""
        try:
            with (self.output / name).open(newline="", encoding="utf-8-sig") as lines:
                return [{k.strip(): (v or "").strip() for k, v in row.items() if k} for row in csv.DictReader(lines)]
        except OSError:
            return []

    def document(self, name: str) -> Any:
        """A JSON file; None without it."""
        try:
            return json.loads((self.output / name).read_bytes())
        except OSError:
            return None


def export(profile: Path, database: Path, rank: int = 0, swapped: bool = False, calls: Profile | None = None) -> None:
    """Write ``database`` from the text ``profile``; ``swapped`` puts shapes and types of inputs as old versions do.

    ``calls`` is the same run at level 1: at level 0 only a database keeps the calls of CANN.
    """
    text = Profile(profile)
    if calls is not None:
        text.events += [event for event in calls.events if "level" in event.get("args", {})]
    _Export(text, rank, swapped).write(database)


STEP_COLUMNS = (
    "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble",
    "Communication(Not Overlapped and Exclude Receive)", "Preparing",
)  # fmt: skip


def export_analysis(profile: Path, database: Path) -> None:
    """Write ``analysis.db`` from the text ``profile``."""
    text = Profile(profile)
    rows: dict[str, list[tuple[Any, ...]]] = {}
    rows["StepTraceTime"] = [tuple(row.get(name) for name in STEP_COLUMNS) for row in text.table("step_trace_time.csv")]
    times, bandwidths = [], []
    for step, kinds in (text.document("communication.json") or {}).items():
        for kind, ops in kinds.items():
            for name, op in ops.items():
                own, _, group = name.partition("@")
                told = op["Communication Time Info"]
                keys = ("Elapse", "Transit", "Wait", "Synchronization", "Idle")
                spans = [told[f"{key} Time(ms)"] for key in keys]
                times.append((own, group, told.get("Start Timestamp(us)"), *spans, step, kind))
                for link, width in op["Communication Bandwidth Info"].items():
                    values = [width.get(key, 0) for key in ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")]
                    for size, (packets, lasted) in (width.get("Size Distribution") or {"0": (0, 0)}).items():
                        parts = (width.get("Large Packet Ratio", 0), float(size), packets, lasted)
                        bandwidths.append((own, group, link, *values, *parts, step, kind))
    rows["CommAnalyzerTime"], rows["CommAnalyzerBandwidth"] = times, bandwidths
    matrix = []
    for step, kinds in (text.document("communication_matrix.json") or {}).items():
        for kind, ops in kinds.items():
            for name, pairs in ops.items():
                own, _, group = name.partition("@")
                for pair, link in pairs.items():
                    source, _, target = pair.partition("-")
                    columns = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")
                    values = [link.get(key) for key in columns]
                    matrix.append((own, group, source, target, *values, step, kind, link.get("Op Name", "")))
    rows["CommAnalyzerMatrix"] = matrix
    _write(database, create(ANALYSIS), rows)


def nanoseconds(text: str) -> int:
    """Microseconds as a text to whole nanoseconds."""
    whole, _, fraction = text.partition(".")
    return int(whole) * 1000 + int(f"{fraction:0<3}"[:3])


def _is_kernel(task: dict[str, Any]) -> bool:
    """Whether a task computes, without kernel_details.csv; older chips call kernels Other and copies AI_CPU."""
    kind = task["args"].get("Task Type")
    if task["name"].startswith("MEMCPY"):
        return False
    return kind in HOST_TYPES or (kind == "Other" and task["name"] != "Other" and not task["name"].isupper())


def _write(database: Path, statements: list[str], rows: dict[str, list[tuple[Any, ...]]]) -> None:
    database.unlink(missing_ok=True)
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)
        for table, own in rows.items():
            if own:
                connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(own[0]))})", own)
    connection.close()


class _Export:
    def __init__(self, text: Profile, rank: int, swapped: bool) -> None:
        self.text = text
        self.rank = rank
        self.swapped = swapped
        self.rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.strings: dict[str, int] = {}
        self.device = 0
        self.pid = 0
        self.layers = {e["pid"]: e["args"]["name"] for e in text.events if e["name"] == "process_name"}
        self.threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in text.events if e["name"] == "thread_name"}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def write(self, database: Path) -> None:
        slices = [event for event in self.text.events if event["ph"] == "X"]
        by_layer: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in slices:
            event["start"] = nanoseconds(event["ts"])
            event["end"] = event["start"] + round(event["dur"] * 1000)
            by_layer[self.layers.get(event["pid"], "CANN")].append(event)
        hardware = by_layer["Ascend Hardware"]
        self.pid = by_layer["Python"][0]["pid"] if by_layer["Python"] else hardware[0]["pid"] >> 10
        self.device = hardware[0]["pid"] & 31 if hardware else 0
        hccl = by_layer["HCCL"] + by_layer["Communication"]
        groups = [event for event in hccl if "Group" in self.threads.get((event["pid"], event["tid"]), "")]
        planes = [event for event in hccl if "Plane" in self.threads.get((event["pid"], event["tid"]), "")]
        self._python(by_layer["Python"], {(e["pid"], e["tid"], e["start"]): e for e in [*hardware, *groups]})
        self._cann(by_layer["CANN"], {(e["pid"], e["tid"], e["start"]): e for e in [*hardware, *groups]})
        self._device(hardware)
        self._collectives(groups, planes)
        self._counters()
        self._memory()
        self._rest(slices)
        rows = {"STRING_IDS": [(number, text) for text, number in self.strings.items()], **self.rows}
        if database.name.startswith("ascend"):
            rows["RANK_DEVICE_MAP"] = [(self.rank, self.device)]
        for name, values in ENUMS.items():
            if name == "ENUM_API_TYPE" and "Communication" in self.layers.values():
                values = {**values, 5500: "communication"}
            rows[name] = list(values.items())
        _write(database, create(SCHEMA, INDEXES), rows)

    def _links(self, category: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        sources: dict[str, dict[str, Any]] = {}
        pairs = []
        for event in self.text.events:
            if event["ph"] == "s" and event.get("cat") == category:
                sources[str(event["id"])] = event
        for event in self.text.events:
            if event["ph"] == "f" and event.get("cat") == category and str(event["id"]) in sources:
                pairs.append((sources[str(event["id"])], event))
        return pairs

    def _python(self, slices: list[dict[str, Any]], targets: dict[tuple[int, int, int], dict[str, Any]]) -> None:
        ops = {}
        for event in slices:
            if event.get("cat") == "cpu_op":
                ops[event["tid"], event["start"]] = event
        values: dict[int, list[int]] = defaultdict(list)
        forward = count(1 << 20)
        for source, target in self._links("fwdbwd"):
            number = next(forward)
            for end in (source, target):
                values[id(ops[end["tid"], nanoseconds(end["ts"])])].append(number)
        for source, target in self._links("async_npu"):
            found = targets.get((target["pid"], target["tid"], nanoseconds(target["ts"])))
            if found is not None and not found["name"].startswith("MEMCPY"):  # the profiler leaves out copies
                op = ops[source["tid"], nanoseconds(source["ts"])]
                values[id(op)].append(found["args"]["connection_id"])
        connection, chain = count(), count()
        queue = count()
        offset = 1 << 24
        for event in slices:
            args = event.get("args") or {}
            tid = self.pid << 32 | event["tid"]
            times = (str(event["start"]), str(event["end"]))
            name = self.string(event["name"])
            category = event.get("cat")
            if category in ("enqueue", "dequeue"):
                waiting = next(queue)
                self.rows["CONNECTION_IDS"].append((waiting, args["correlation_id"] + offset))
                self.rows["PYTORCH_API"].append((*times, tid, waiting, name, *[None] * 5, 50002))
            elif category == "python_function":
                self.rows["PYTORCH_API"].append((*times, tid, None, name, *[None] * 5, 50003))
            else:
                linked: int | None = None
                if own := values.get(id(event)):
                    linked = (1 << 22) + next(connection)
                    self.rows["CONNECTION_IDS"] += [(linked, value) for value in own]
                stack = None
                if args.get("Call stack"):
                    stack = next(chain)
                    frames = args["Call stack"].split(";\r\n")
                    self.rows["PYTORCH_CALLCHAINS"] += [(stack, self.string(f), i) for i, f in enumerate(frames)]
                inputs = [args.get("Input type"), args.get("Input Dims")]
                inputs = inputs[::-1] if self.swapped else inputs
                texts = [None if text is None else self.string(text) for text in inputs]
                shown = (args.get("Sequence number"), args.get("Fwd thread id"), *texts, stack, 50001)
                self.rows["PYTORCH_API"].append((*times, tid, linked, name, *shown))

    def _cann(self, slices: list[dict[str, Any]], targets: dict[tuple[int, int, int], dict[str, Any]]) -> None:
        for event in slices:
            prefix = event["name"].partition("@")[0] + "@"
            name = self.string(event["name"].removeprefix(prefix))
            row = (LEVELS[prefix], self.pid << 32 | event["tid"], event["args"]["connection_id"], name)
            self.rows["CANN_API"].append((event["start"], event["end"], *row))
        if slices:
            return
        for source, target in self._links("HostToDevice"):  # level 0 keeps the calls that launch in the database
            found = targets[target["pid"], target["tid"], nanoseconds(target["ts"])]
            time = nanoseconds(source["ts"])
            connection = found["args"]["connection_id"]
            if all(row[4] != connection for row in self.rows["CANN_API"]):
                row = (20000, self.pid << 32 | source["tid"], connection, self.string("aclrtLaunch"))
                self.rows["CANN_API"].append((time, time + 1000, *row))

    def _device(self, slices: list[dict[str, Any]]) -> None:
        details = {
            (row["Name"], nanoseconds(row["Start Time(us)"])): row for row in self.text.table("kernel_details.csv")
        }
        # Older chips link no copy: its task names no call.
        linked = {(end["tid"], nanoseconds(end["ts"])) for _, end in self._links("HostToDevice")}
        copies = [event for event in slices if event["name"].startswith("MEMCPY")]
        unlinked = not any((event["tid"], event["start"]) in linked for event in copies)
        self.tasks: dict[tuple[int, int, int, int], int] = {}
        divided: dict[tuple[int, int, int], tuple[int, int]] = {}
        for number, event in enumerate(sorted(slices, key=lambda event: event["start"])):
            args = event["args"]
            stream, task = event["tid"], args.get("Task Id", 0)
            context, connection = args.get("Subtask Id", NONE), args.get("connection_id", NONE)
            if unlinked and event["name"].startswith("MEMCPY"):
                connection = NONE
            row = details.get((event["name"], event["start"]))
            kind = event["name"]
            if row is not None:
                core = row["Accelerator Core"]
                kind = HOST_TYPES.get(core if core != "N/A" else args["Task Type"], "KERNEL_AICORE")
                self._kernel(number, event["name"], row)
            elif not details and _is_kernel(event):
                kind = HOST_TYPES.get(args["Task Type"], "KERNEL_AICORE")
                self._kernel(number, event["name"], {})
            self.tasks[stream, task, context, event["start"]] = number
            times = (event["start"], event["end"])
            ids = (self.device, connection, number, self.pid)
            self.rows["TASK"].append((*times, *ids, self.string(kind), context, stream, task, NONE))
            if context != NONE:
                first, last = divided.get((stream, task, connection), times)
                divided[stream, task, connection] = (min(first, times[0]), max(last, times[1]))
        for number, ((stream, task, connection), times) in enumerate(divided.items(), len(slices)):
            ids = (self.device, connection, number, self.pid)
            self.rows["TASK"].append((*times, *ids, self.string("FFTS_PLUS"), NONE, stream, task, NONE))

    def _kernel(self, number: int, name: str, row: dict[str, str]) -> None:
        keys = ["Accelerator Core", "Type", "Input Formats", "Input Data Types", "Input Shapes"]
        keys += ["Output Formats", "Output Data Types", "Output Shapes"]
        texts = [self.string(row.get(key) or "N/A") for key in keys]
        dims = [int(row.get(key) or 0) for key in ("Block Dim", "Mix Block Dim")]
        self.rows["COMPUTE_TASK_INFO"].append((self.string(name), number, *dims, *texts, self.string("N/A")))
        names = list(row)
        for key in names[names.index("Context ID") + 1 :] if "Context ID" in names else []:
            if row[key] not in ("", "N/A"):
                time = key.endswith("(us)")
                plain = key.removesuffix("(us)").removesuffix("(%)")
                plain = {"aicore_time": "aic_total_time", "aiv_time": "aiv_total_time"}.get(plain, plain)
                value = float(row[key]) * (1000 if time else 1)
                self.rows["TASK_PMU_INFO"].append((number, self.string(plain), value))

    def _collectives(self, groups: list[dict[str, Any]], planes: list[dict[str, Any]]) -> None:
        types = {name: number for number, name in ENUMS["ENUM_HCCL_DATA_TYPE"].items()}
        links = {name: number for number, name in ENUMS["ENUM_HCCL_LINK_TYPE"].items()}
        transports = {name: number for number, name in ENUMS["ENUM_HCCL_TRANSPORT_TYPE"].items()}
        first: dict[int, int] = {}
        for tid in sorted({event["tid"] for event in groups}):
            first[tid] = self.string(f"10.0.0.1%eth0_60000_{tid}_1708156014257149")
        for number, event in enumerate(groups):
            args = event["args"]
            kind = self.string(event["name"].split("__")[0] + "_")
            shown = (
                types.get(args.get("data_type"), 65535),
                self.string(args.get("alg_type", "NA")),
                args.get("count", 0),
            )
            ids = (args["connection_id"], first[event["tid"]], number, 0, 0)
            self.rows["COMMUNICATION_OP"].append(
                (self.string(event["name"]), event["start"], event["end"], *ids, *shown, kind)
            )
        if not planes:  # level 0 keeps the tasks without what is known of them
            ops = {event["args"]["connection_id"]: number for number, event in enumerate(groups)}
            unknown = (NONE, self.string("N/A"), 0, 65534, NONE, NONE, 65534, -1, 65534, 65534)
            for row in self.rows["TASK"]:
                if row[3] in ops and row[7] != NONE:
                    name = self.string(groups[ops[row[3]]]["name"])
                    self.rows["COMMUNICATION_TASK_INFO"].append((name, row[4], name, *unknown, ops[row[3]]))
        for event in planes:
            args = event["args"]
            key = (args["stream id"], args["task id"], args["context id"], event["start"])  # ids come again
            if key not in self.tasks:
                self.tasks[key] = len(self.rows["TASK"])
                ids = (self.device, NONE, self.tasks[key], self.pid, self.string(event["name"]))
                self.rows["TASK"].append((event["start"], event["end"], *ids, key[2], key[0], key[1], NONE))
            block = max(tid for tid in first if tid < event["tid"])
            inside = [
                n for n, op in enumerate(groups) if op["tid"] == block and op["start"] <= event["start"] < op["end"]
            ]
            op = inside[-1] if inside else 0
            self.rows["COMMUNICATION_TASK_INFO"].append(
                (
                    self.string(groups[op]["name"]),
                    self.tasks[key],
                    self.string(event["name"]),
                    event["tid"] - block - 1,
                    first[block],
                    min(int(args["notify_id"]), (1 << 63) - 1),
                    65535,
                    args["src rank"],
                    args["dst rank"],
                    transports.get(args["transport type"], 65535),
                    args["size(Byte)"],
                    types.get(args["data type"], 65535),
                    links.get(args["link type"], 65535),
                    op,
                )
            )

    def _counters(self) -> None:
        samples: dict[str, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
        for event in self.text.events:
            if event["ph"] == "C":
                layer = self.layers.get(event["pid"], "")
                samples[layer].append((nanoseconds(event["ts"]), event["name"], event["args"]))
        device, string, rows = self.device, self.string, self.rows
        for time, _, args in samples["AI Core Freq"]:
            rows["AICORE_FREQ"].append((device, time, next(iter(args.values()))))
        memory: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
        for time, name, args in samples["NPU MEM"]:
            memory[time, name.partition("/")[0]][name.partition("/")[2]] = args["KB"] * 1024
        for (time, kind), values in memory.items():
            rows["NPU_MEM"].append((string(kind.lower()), values["DDR"], values["HBM"], time, device))
        for time, name, args in samples["HBM"]:
            number, _, way = name.removeprefix("HBM ").partition("/")
            rows["HBM"].append((device, time, next(iter(args.values())) * MB, int(number), string(way.lower())))
        caches: dict[tuple[int, int, str], dict[str, float]] = defaultdict(dict)
        for time, name, args in samples["LLC"]:
            _, number, way = name.split(" ", 2)
            caches[time, int(number), way.partition("/")[0]].update(args)
        for (time, cache, way), values in caches.items():
            rate, width = values["Hit Rate(%)"] * 100, round(values["Throughput(MB/s)"] * MB)
            rows["LLC"].append((device, cache, time, rate, width, string(way.lower())))
        levels: dict[int, dict[str, int]] = defaultdict(dict)
        for time, name, args in samples["Stars Soc Info"]:
            levels[time][name] = args[name]
        for time, both in levels.items():
            rows["SOC_BANDWIDTH_LEVEL"].append((both["L2 Buffer Bw Level"], both["Mata Bw Level"], time, device))
        units: dict[tuple[int, int, int], dict[str, int]] = {}
        seen: dict[tuple[int, int, str], int] = defaultdict(int)
        for time, name, args in samples["Acc PMU"]:
            key = (time, args["acc_id"], name)
            units.setdefault((time, args["acc_id"], seen[key]), {})[name.replace("_width", "width")] = args["value"]
            seen[key] += 1
        for (time, unit, _), each in units.items():
            own = [each[key] for key in ("read_bandwidth", "write_bandwidth", "read_ost", "write_ost")]
            rows["ACC_PMU"].append((unit, *own, time, device))
        for time, name, args in samples["QoS"]:
            rows["QOS"].append((device, string(name.removeprefix("QoS ")), args["value"] * MB, time))
        for time, name, args in samples["DDR"]:
            value = next(iter(args.values())) * MB
            rows["DDR"].append((device, time, value, None) if name.endswith("Read") else (device, time, None, value))

    def _memory(self) -> None:
        def size(text: str, unit: int) -> int | None:
            return round(float(text) * unit) if text else None

        def time(text: str) -> int | None:
            return nanoseconds(text) if text else None

        def pointer(text: str) -> int | None:
            return int(text) if text else None

        for row in self.text.table("memory_record.csv"):
            totals = [size(row.get(f"Total {kind}(MB)"), MB) for kind in ("Allocated", "Reserved", "Active")]
            own = (self.string(row["Component"]), nanoseconds(row["Timestamp(us)"]), *totals)
            if row["Component"] != "APP":  # the profiler keeps it in NPU_MEM
                self.rows["MEMORY_RECORD"].append((*own, pointer(row.get("Stream Ptr")), self.device))
        for row in self.text.table("operator_memory.csv"):
            keys = ("Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)")
            times = [time(row.get(key)) for key in (*keys, "Active Duration(us)")]
            kinds = ("Allocated", "Reserved", "Active")
            totals = [size(row.get(f"{at} Total {kind}(MB)"), MB) for at in ("Allocation", "Release") for kind in kinds]
            head = (self.string(row["Name"]), size(row["Size(KB)"], 1024))
            self.rows["OP_MEMORY"].append((*head, *times, *totals, pointer(row.get("Stream Ptr")), self.device))
        modules: dict[str, int] = {}
        for row in self.text.table("npu_module_mem.csv"):
            module = modules.setdefault(row["Component"], len(modules))
            value = size(row["Total Reserved(MB)"], MB)
            self.rows["NPU_MODULE_MEM"].append((module, nanoseconds(row["Timestamp(us)"]), value, self.device))
        self.rows["ENUM_MODULE"] = [(number, name) for name, number in modules.items()]

    def _rest(self, slices: list[dict[str, Any]]) -> None:
        times = [event["start"] for event in slices] + [event["end"] for event in slices]
        self.rows["SESSION_TIME_INFO"] = [(min(times), max(times))]
        self.rows["META_DATA"] = [("SCHEMA_VERSION", "1.0.0")]
        self.rows["NPU_INFO"] = [(self.device, "Ascend910B")]
        self.rows["HOST_INFO"] = [("1", "host")]
        for event in slices:
            if event["name"].startswith("ProfilerStep#"):
                step = int(event["name"].partition("#")[2])
                self.rows["STEP_TIME"].append((step, event["start"], event["end"]))


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
