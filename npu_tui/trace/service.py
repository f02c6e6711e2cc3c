"""What msServiceProfiler says of an inference service, as columns: requests, batches, forward passes, KV blocks.

``msserviceprofiler`` (https://gitcode.com/Ascend/msserviceprofiler) writes a folder of CSV files, ``profiler.db`` and
``chrome_tracing.json``; versions differ in names and leave files out. What all columns here have in common:

* (n,) each, the rows by time; those without one come first.
* Moments are int64 ns since 1970 (UTC), lengths int64 ns, tokens and blocks int64 counts, ratios float64 0..1.
* Unknown is ``UNKNOWN`` in whole numbers, NaN in floats, ``NONE`` in codes; never 0. A time to first token, a wait or a
  moment of 0 is what the writer puts where it has none, so it is unknown too.
* ``rid`` indexes ``Service.rids``; all other codes (int32) index ``Service.texts``.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Struct

from npu_tui.trace.args import ArgReader
from npu_tui.trace.arrays import F64, I8, I32, I64
from npu_tui.trace.message import Message
from npu_tui.trace.nature import Nature
from npu_tui.trace.once import once

UNKNOWN = int(np.iinfo(np.int64).min)
"""Stands for null in whole numbers."""
WHOLE_MS = 1_000_000
"""The tool writes when a request began and how long it took in whole ms, rounded down."""
NONE = -1
"""Stands for null in codes."""

Pass = IntEnum("Pass", "schedule execute draft other", start=0)
"""What a row of ``Batches`` is, as ``Batches.passes`` says."""

PASS_OF = {
    "batchschedule": Pass.schedule, "batchframeworkprocessing": Pass.schedule, "schedule": Pass.schedule,
    "modelexec": Pass.execute, "execute": Pass.execute, "modelrunnerexec": Pass.execute, "specdecoding": Pass.draft,
}  # fmt: skip
"""Events that are passes, in lower case."""

Kind = IntEnum("Kind", "prefill decode mixed dummy other", start=0)
"""What a batch computes, as ``Batches.kind`` and ``Forwards.kind`` say. ``Extend`` of SGLang is prefill."""


Text = Annotated[I32, "text", "name"]
Label = Annotated[I32, "label", "name"]
Code = Annotated[I8, "", "word"]
Count = Annotated[I64, "whole", "count"]
Number = Annotated[I64, "whole", "id"]
Moment = Annotated[I64, "moment", "moment"]
Length = Annotated[I64, "length", "time"]
Share = Annotated[F64, "real", "share"]
"""Columns by what they hold: the kind of their cells in files, and how a cell of their table reads.

A field of a table adds what the versions of the tool call it, the usual name first, and what dates are called there.
"""


class ServiceRows(Struct, eq=False):
    """The rows of a table, a column a field; all columns are of one length.

    The file is ``FILE``.csv, else the table of that name in ``profiler.db``:
    https://gitcode.com/Ascend/msserviceprofiler/blob/master/docs/zh/msserviceprofiler_serving_tuning_instruct.md
    Columns are found by name, never by place; the rows are in the order of ``BY``.
    """

    FILE: ClassVar[str] = ""
    BY: ClassVar[str] = "start"

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))


class Requests(ServiceRows):
    """Requests. There is no DP rank here: ``Service.members`` lead to the batches, which have one.

    ``start`` is the first httpReq. ``execution`` lasts until the last event of the request, in whole ms. ``queue`` goes
    from the start of the first Enqueue to the end of the last Dequeue: time after a preemption is in it.
    ``first_token`` is the time to the first token, from ``start`` on.
    """

    FILE = "request"
    rid: Annotated[Text, "http_rid | rid"]
    start: Annotated[Moment, "start_time(ms) | start_time_ms", "start_datetime | start_time"]
    execution: Annotated[Length, "execution_time(ms) | execution_time"]
    queue: Annotated[Length, "queue_wait_time(ms) | queue_wait_time"]
    first_token: Annotated[Length, "first_token_latency(ms) | first_token_latency"]
    prompt_tokens: Annotated[Count, "recv_token_size"]
    output_tokens: Annotated[Count, "reply_token_size"]
    hit_rate: Annotated[Share, "cache_hit_rate"]

    @property
    def end(self) -> I64:
        """When the last event of each request was."""
        return plus(self.start, self.execution)


class Batches(ServiceRows):
    """Batches: one pass of an engine is a SCHEDULE row and an EXECUTE row, and their ``end`` may overlap.

    ``name`` is the event, ``passes`` what it is, a ``Pass``; ``type`` the kind as written, ``kind`` a ``Kind``.
    ``process`` is the ``prof_id`` of the worker: tensor parallel ranks of one ``dp_rank`` are several, each with rows
    of its own. Blocks are those of vLLM's scheduler. ``tokens`` are all that were scheduled; ``size`` counts requests.
    """

    FILE = "batch"
    name: Annotated[Label, "name"]
    passes: Code
    kind: Code
    type: Annotated[Label, "batch_type"]
    start: Annotated[Moment, "start_time(ms)", "start_datetime | start_time"]
    end: Annotated[Moment, "end_time(ms)", "end_datetime | end_time"]
    process: Annotated[Label, "prof_id"]
    dp_rank: Annotated[Number, "dp_rank"]
    size: Annotated[Count, "batch_size | total_batch_size"]
    prefill_size: Annotated[Count, "prefill_batch_size"]
    decode_size: Annotated[Count, "decode_batch_size"]
    tokens: Annotated[Count, "total_scheduled_tokens"]
    prefill_tokens: Annotated[Count, "prefill_scheduled_tokens"]
    decode_tokens: Annotated[Count, "decode_scheduled_tokens"]
    total_blocks: Annotated[Count, "total_blocks"]
    used_blocks: Annotated[Count, "used_blocks"]
    free_blocks: Annotated[Count, "free_blocks | device_kvcache_left"]
    allocated_blocks: Annotated[Count, "blocks_allocated"]
    freed_blocks: Annotated[Count, "blocks_freed"]
    usage: Annotated[Share, "kvcache_usage_rate"]
    accepted_ratio: Annotated[Share, "accepted_ratio"]


class Members(Struct, eq=False):
    """The requests of batches (``res_list``), by batch: those of batch b are ``[offset[b], offset[b + 1])``.

    ``batch`` indexes ``Batches``; ``iter`` counts the schedules of the request from 0, so that a later chunk of its
    prompt has one above 0; ``phase`` is 0 for prefill and 1 for decode; ``tokens`` were scheduled.
    """

    offset: I64
    batch: I32
    rid: I32
    iter: I64
    phase: I64
    tokens: I64

    def __len__(self) -> int:
        return len(self.rid)


class Forwards(ServiceRows):
    """Forward passes, empty for many versions of vLLM.

    ``bubble`` is the time until the next pass of the same process; below 0 they overlap. It is idle time without any
    request as well. ``iter`` counts from 1 per ``process``.
    """

    FILE = "forward"
    name: Annotated[Label, "name"]
    start: Annotated[Moment, "start_time(ms)", "start_datetime"]
    end: Annotated[Moment, "end_time(ms)", "end_datetime"]
    bubble: Annotated[Length, "bubble_time(ms)"]
    kind: Code
    type: Annotated[Label, "batch_type"]
    size: Annotated[Count, "batch_size"]
    iter: Annotated[Number, "forward_iter"]
    dp_rank: Annotated[Number, "dp_rank"]
    process: Annotated[Label, "prof_id"]
    host: Annotated[Label, "hostname"]


class KvBlocks(ServiceRows):
    """Events of the KV cache: blocks of the device after each; ``rid`` is known of MindIE alone."""

    FILE, BY = "kvcache", "time"
    time: Annotated[Moment, "timestamp(ms) | start_time(ms)", "start_datetime | start_time"]
    name: Annotated[Label, "name"]
    rid: Annotated[Text, "rid"]
    domain: Annotated[Label, "domain"]
    total_blocks: Annotated[Count, "total_blocks"]
    used_blocks: Annotated[Count, "used_blocks"]
    free_blocks: Annotated[Count, "free_blocks | device_kvcache_left"]
    allocated_blocks: Annotated[Count, "blocks_allocated"]
    freed_blocks: Annotated[Count, "blocks_freed"]
    usage: Annotated[Share, "kvcache_usage_rate"]


class SpecDecodes(ServiceRows):
    """Speculative decoding: one request in one iteration. ``draft`` is the time of the draft model.

    ``accepted_tokens`` are drafted ones that were valid: one token comes without them.
    """

    FILE = "spec_decode"
    rid: Annotated[Text, "rid"]
    iter: Annotated[Number, "iter"]
    process: Annotated[Label, "prof_id"]
    start: Annotated[Moment, "start_time(ms)", "start_datetime"]
    end: Annotated[Moment, "end_time(ms)", "end_datetime"]
    draft_tokens: Annotated[Count, "spec_tokens"]
    accepted_tokens: Annotated[Count, "accepted_tokens"]
    accepted_ratio: Annotated[Share, "accepted_ratio"]
    draft: Annotated[Length, "draft_model_time_ms"]


class Transfers(ServiceRows):
    """Pulls of KV blocks from the prefill side, as the decode side sees them.

    ``rank`` is that of the device; ``tokens`` is the length of the sequence. Bytes are not recorded.
    """

    FILE = "pd_split_kvcache"
    rid: Annotated[Text, "rid"]
    rank: Annotated[Number, "rank"]
    domain: Annotated[Label, "domain"]
    start: Annotated[Moment, "start_time(ms)", "start_datetime(ms) | start_datetime"]
    end: Annotated[Moment, "end_time(ms)", "end_datetime(ms) | end_datetime"]
    tokens: Annotated[Count, "seq_len | batch_seq_len"]


class Handoffs(ServiceRows):
    """Requests between prefill and decode instances: the moments of each, to the ms."""

    FILE, BY = "pd_split_communication", "received"
    rid: Annotated[Text, "rid"]
    received: Annotated[Moment, "", "http_req_time(ms)"]
    sent: Annotated[Moment, "", "send_request_time(ms)"]
    acknowledged: Annotated[Moment, "", "send_request_succ_time(ms)"]
    prefilled: Annotated[Moment, "", "prefill_res_time(ms)"]
    ended: Annotated[Moment, "", "request_end_time(ms)"]


class Statuses(ServiceRows):
    """How many requests are in which state: a row has one of the three, null is "as before".

    Early versions wrote changes (``CHANGES``): their sums are the states.
    """

    FILE, BY = "request_status", "time"
    time: Annotated[Moment, "timestamp(ms) | time", "start_datetime"]
    host: Annotated[Label, "hostuid"]
    process: Annotated[Label, "pid"]
    waiting: Annotated[Count, "waiting"]
    running: Annotated[Count, "running"]
    swapped: Annotated[Count, "swapped"]


ENQUEUES = "enqueue", "reqenqueue"
"""The names, in lower case, of the event with which a request comes into the queue; the second is of early versions."""
TOKENIZERS = "tokenize", "encode"
"""The names, in lower case, of the range in which a prompt becomes tokens; the second is of early versions."""
DETOKENIZERS, SENDERS = ("detokenize", "decode"), ("sendresponse",)
"""What the ranges are called, in lower case, in which tokens become text, and in which that leaves the service."""
DRAFTERS = ("draft",)
"""Words, in lower case, in what ranges are called in which tokens are drafted."""
SWAPPERS = ("swap",)
"""Words, in lower case, in what ranges are called in which blocks are copied to the host and back."""
ADAPTERS = "lora", "adapter"
"""Words, in lower case, in what ranges are called in which an adapter is loaded."""
STORES = ("load_kv",)
"""Words, in lower case, in what ranges are called in which blocks come from a store outside of the engine."""
COMPILERS = "compile", "capture"
"""Words, in lower case, in what ranges are called in which a graph or a kernel is made for a size."""
GRAMMARS = ("grammar",)
"""Words, in lower case, in what ranges are called in which the grammar of a structured output is compiled."""
FETCHERS = "fetch", "download"
"""Words, in lower case, in what ranges are called in which the service gets what a request has the address of."""
DISPATCHERS, EAGER = ("cudagraphdispatcher.dispatch",), "NONE"
"""The name, in lower case, of the range that chooses the graph of a pass, and its mode where it takes none:
https://docs.vllm.ai/en/latest/design/cuda_graphs/ (CUDAGraphMode)."""
COMMON_ARGS = frozenset({"rid", "rids", "tid", "pid", "start_datetime", "end_datetime"})
"""What the tool says of ranges of any kind; its metrics end with ``=`` or ``+``, their scopes begin with ``scope#``."""
IDENTITIES = frozenset({"hash", "hashes", "id", "ids", "name", "names"})
"""Last words of the args that tell one thing from another, as ``mm_hashes`` of pictures and ``lora_id`` of adapters do
(https://docs.vllm.ai/en/latest/features/multimodal_inputs/, https://docs.vllm.ai/en/latest/features/lora/); numbers of
other names say how much it is."""
CHANGES = "waiting", "running"
"""The states of ``Statuses`` whose changes early versions wrote, under ``+`` and the name."""


class EngineRanges(ServiceRows):
    """Ranges of the engine (chrome_tracing.json, else ``slice`` of profiler.db).

    ``name`` such as httpReq, Enqueue, Dequeue, tokenize, sample, detokenize; an event without a length ends where it
    starts. ``process`` and ``thread`` are as they are written there, ``rid`` that of the only request it is about.
    ``event`` is the ordinal with which ``Service.args`` reads what else is said of it.
    """

    name: I32
    start: I64
    end: I64
    process: I32
    thread: I32
    rid: I32
    event: I64


TABLES: dict[str, type[ServiceRows]] = {
    "requests": Requests, "batches": Batches, "forwards": Forwards, "kv_blocks": KvBlocks, "spec_decodes": SpecDecodes,
    "transfers": Transfers, "handoffs": Handoffs, "statuses": Statuses,
}  # fmt: skip
"""The tables of ``Service`` with a row for each row of a file."""


def columns_of(table: type[ServiceRows]) -> dict[str, tuple[str, ...]]:
    """What is declared of each column of ``table``: kind, form, and the names of it and of its dates in files."""
    return {name: declared.__metadata__ for name, declared in table.__annotations__.items() if name.islower()}


def _columns_of_kind(kind: str) -> frozenset[str]:
    declared = (columns_of(table).items() for table in TABLES.values())
    return frozenset(name for columns in declared for name, (of, *_) in columns if of == kind)


MOMENTS, LENGTHS, TEXTS = map(_columns_of_kind, ("moment", "length", "label"))
NUMBERED = {"passes": [*Pass.__members__], "kind": [*Kind.__members__]}
"""Columns by what they hold: ns since 1970, ns, codes of ``Service.texts``, and codes of a few words."""
SERVICE_PID = 1 << 45
"""The layers of the tables have this number or a higher one; no process of a system has."""
SERVICE = Nature(
    "service",
    launches=False,
    has_steps=False,
    by_category=True,
    rules="service_verdict",
    uncovered="service.uncovered",
    replays_ids=True,
    folds=lambda pid, above: (3, 100 - above) if pid >= SERVICE_PID else (0, -above),
)
"""A trace of a service: what the tables say stays longest, the first of them at last."""
SERVED = "request"
"""The links from a request to the batches that it is in."""
FOLLOWED = "state"
"""The links from a state of a request to the next one."""
SCHEDULED = "schedule"
"""The links from a schedule to the pass that executes it."""

Basis = Literal["written", "device", "assumed"]


class DatedClock(Struct, frozen=True):
    """How moments were found that are written as dates only: ``shift`` ns were taken off to get UTC.

    ``basis`` says how it is known: ``written`` where some file has both dates and ms since 1970, or no date was needed;
    ``device`` where this zone makes passes meet work of the NPU; ``assumed`` is UTC+8, which new versions write.
    """

    shift: int = 0
    basis: Basis = "written"


class Service(Struct, dict=True, eq=False):
    """The service in the folder ``path``; ``files`` were read, with their sizes in bytes.

    ``odd`` says what could not be read, a line each. A table without its file has no rows.
    """

    path: str
    files: dict[str, int]
    clock: DatedClock
    rids: list[str]
    texts: list[str]
    requests: Requests
    batches: Batches
    forwards: Forwards
    kv_blocks: KvBlocks
    spec_decodes: SpecDecodes
    transfers: Transfers
    handoffs: Handoffs
    statuses: Statuses
    odd: list[Message]
    read_members: Callable[[], Members]
    read_spans: Callable[[], EngineRanges]
    ordinals: dict[str, int] = {}
    """The ordinal of the first row of each table among the slices of the trace, where there is one."""
    args: ArgReader = ArgReader()
    """Reads what is said of each range."""

    @once
    def members(self) -> Members:
        """The requests of each batch. They are read when they are asked for: a second for a million batches of four."""
        return self.read_members()

    @once
    def spans(self) -> EngineRanges:
        """The ranges of the engine, of a service that was loaded as a trace."""
        _ = self.members  # both add names of requests, one after the other
        return self.read_spans()

    def moments(self) -> Iterator[I64]:
        """All columns of moments."""
        for name in TABLES:
            rows = getattr(self, name)
            yield from (getattr(rows, column) for column in MOMENTS.intersection(rows.__struct_fields__))

    def move(self, by: int, basis: Basis) -> None:
        """Put all moments ``by`` ns later, for the reason ``basis``."""
        for values in self.moments():
            if values.flags.writeable:  # of a column that is one value for all rows nothing is known
                values[values != UNKNOWN] += by
        self.clock = DatedClock(self.clock.shift - by, basis)

    def words(self, column: str) -> list[str] | None:
        """What the codes of ``column`` stand for; None for numbers."""
        return self.rids if column == "rid" else self.texts if column in TEXTS else NUMBERED.get(column)

    def text(self, code: int) -> str:
        """The text of ``code``, empty for ``NONE``."""
        return self.texts[code] if code >= 0 else ""


def plus(moment: I64, length: I64) -> I64:
    """``moment`` + ``length``, unknown where either is."""
    return np.where((moment == UNKNOWN) | (length == UNKNOWN), UNKNOWN, moment + length)


def minus(later: I64, earlier: I64) -> I64:
    """``later`` - ``earlier``, unknown where either is."""
    return np.where((later == UNKNOWN) | (earlier == UNKNOWN), UNKNOWN, later - earlier)


_QUARTER = 900_000_000_000  # ns: the offsets of all time zones are quarters of an hour


def whole_quarters(time: int) -> int:
    """``time`` to the next quarter of an hour, ns: zones differ by no less."""
    return round(time / _QUARTER) * _QUARTER
