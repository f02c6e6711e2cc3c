"""What msServiceProfiler says of an inference service, as columns: requests, batches, forward passes, KV blocks.

``msserviceprofiler`` (https://gitcode.com/Ascend/msserviceprofiler) writes a folder of CSV files, ``profiler.db`` and
``chrome_tracing.json``; versions differ in names and leave files out. What all columns here have in common:

* (n,) each, the rows by time; those without one come first.
* Moments are int64 ns since 1970 (UTC), lengths int64 ns, tokens and blocks int64 counts, ratios float64 0..1.
* Unknown is ``UNKNOWN`` in whole numbers, NaN in floats, ``NONE`` in codes; never 0. A time to first token, a wait or a
  moment of 0 is what the writer puts where it has none, so it is unknown too.
* ``rid`` indexes ``Service.rids``; all other codes (int32) index ``Service.texts``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from msgspec import Struct

from npu_tui.trace.arrays import F64, I8, I32, I64
from npu_tui.trace.message import Message
from npu_tui.trace.once import once

UNKNOWN = int(np.iinfo(np.int64).min)
"""Stands for null in whole numbers."""
NONE = -1
"""Stands for null in codes."""

PASSES = "schedule", "execute", "draft", "other"
"""What a row of ``Batches`` is; ``Batches.passes`` numbers them."""
SCHEDULE, EXECUTE, DRAFT, OTHER = range(4)

SCHEDULES = frozenset({"batchschedule", "batchframeworkprocessing", "schedule"})
EXECUTIONS = frozenset({"modelexec", "execute", "modelrunnerexec"})
DRAFTS = frozenset({"specdecoding"})
"""Names of events that are passes, in lower case."""

KINDS = "prefill", "decode", "mixed", "dummy", "other"
"""What a batch computes; ``Batches.kind`` and ``Forwards.kind`` number them. ``Extend`` of SGLang is prefill."""
PREFILL, DECODE, MIXED, DUMMY, UNUSUAL = range(5)


class Rows(Struct, eq=False):
    """The rows of a table, a column a field; all columns are of one length."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))


class Requests(Rows):
    """Requests (request.csv). There is no DP rank here: ``Service.members`` lead to the batches, which have one.

    ``start`` is the first httpReq. ``execution`` lasts until the last event of the request, in whole ms. ``queue`` goes
    from the start of the first Enqueue to the end of the last Dequeue: time after a preemption is in it.
    ``first_token`` is the time to the first token, from ``start`` on.
    """

    rid: I32
    start: I64
    execution: I64
    queue: I64
    first_token: I64
    prompt_tokens: I64
    output_tokens: I64
    hit_rate: F64

    @property
    def end(self) -> I64:
        """When the last event of each request was."""
        return plus(self.start, self.execution)


class Batches(Rows):
    """Batches (batch.csv): one pass of an engine is a SCHEDULE row and an EXECUTE row, and their ``end`` may overlap.

    ``name`` is the event, ``passes`` what it is by ``PASSES``; ``type`` the kind as written, ``kind`` by ``KINDS``.
    ``process`` is the ``prof_id`` of the worker: tensor parallel ranks of one ``dp_rank`` are several, each with rows
    of its own. Blocks are those of vLLM's scheduler. ``tokens`` are all that were scheduled; ``size`` counts requests.
    """

    name: I32
    passes: I8
    start: I64
    end: I64
    kind: I8
    type: I32
    process: I32
    dp_rank: I64
    size: I64
    prefill_size: I64
    decode_size: I64
    tokens: I64
    prefill_tokens: I64
    decode_tokens: I64
    total_blocks: I64
    used_blocks: I64
    free_blocks: I64
    allocated_blocks: I64
    freed_blocks: I64
    usage: F64
    accepted_ratio: F64


class Members(Struct, eq=False):
    """The requests of batches (``res_list``), by batch: those of batch b are ``[offset[b], offset[b + 1])``.

    ``batch`` indexes ``Batches``; ``iter`` counts the schedules of the request from 0, so that a later chunk of its
    prompt has one above 0; ``phase`` is 0 for prefill and 1 for decode; ``tokens`` were scheduled.
    """

    offset: I64
    batch: I64
    rid: I32
    iter: I64
    phase: I64
    tokens: I64

    def __len__(self) -> int:
        return len(self.rid)


class Forwards(Rows):
    """Forward passes (forward.csv), empty for many versions of vLLM.

    ``bubble`` is the time until the next pass of the same process; below 0 they overlap. It is idle time without any
    request as well. ``iter`` counts from 1 per ``process``.
    """

    name: I32
    start: I64
    end: I64
    bubble: I64
    kind: I8
    type: I32
    size: I64
    iter: I64
    dp_rank: I64
    process: I32
    host: I32


class KvBlocks(Rows):
    """Events of the KV cache (kvcache.csv): blocks of the device after each; ``rid`` is known of MindIE alone."""

    time: I64
    name: I32
    rid: I32
    domain: I32
    total_blocks: I64
    used_blocks: I64
    free_blocks: I64
    allocated_blocks: I64
    freed_blocks: I64
    usage: F64


class SpecDecodes(Rows):
    """Speculative decoding (spec_decode.csv): one request in one iteration. ``draft`` is the time of the draft model.

    ``accepted_tokens`` are drafted ones that were valid: one token comes without them.
    """

    rid: I32
    iter: I64
    process: I32
    start: I64
    end: I64
    draft_tokens: I64
    accepted_tokens: I64
    accepted_ratio: F64
    draft: I64


class Transfers(Rows):
    """Pulls of KV blocks from the prefill side (pd_split_kvcache.csv), as the decode side sees them.

    ``rank`` is that of the device; ``tokens`` is the length of the sequence. Bytes are not recorded.
    """

    rid: I32
    rank: I64
    domain: I32
    start: I64
    end: I64
    tokens: I64


class Handoffs(Rows):
    """Requests between prefill and decode instances (pd_split_communication.csv): the moments of each, to the ms."""

    rid: I32
    received: I64
    sent: I64
    acknowledged: I64
    prefilled: I64
    ended: I64


class Statuses(Rows):
    """How many requests are in which state (request_status.csv): a row has one of the three, null is "as before"."""

    time: I64
    host: I32
    process: I32
    waiting: I64
    running: I64
    swapped: I64


class Spans(Rows):
    """Ranges of the engine (chrome_tracing.json, else ``slice`` of profiler.db).

    ``name`` such as httpReq, Enqueue, Dequeue, tokenize, sample, detokenize; an event without a length ends where it
    starts. ``process`` and ``thread`` are as they are written there, ``rid`` that of the only request it is about.
    """

    name: I32
    start: I64
    end: I64
    process: I32
    thread: I32
    rid: I32


TABLES = "requests", "batches", "forwards", "kv_blocks", "spec_decodes", "transfers", "handoffs", "statuses"
"""The tables of ``Service`` with a row for each row of a file."""
MOMENTS = frozenset({"start", "end", "time", "received", "sent", "acknowledged", "prefilled", "ended"})
LENGTHS = frozenset({"execution", "queue", "first_token", "bubble", "draft"})
TEXTS = frozenset({"name", "type", "process", "thread", "domain", "host"})
NUMBERED = {"passes": PASSES, "kind": KINDS}
"""Columns by what they hold: ns since 1970, ns, codes of ``Service.texts``, and codes of a few words."""
SERVICE_PID = 1 << 45
"""The layers of the tables have this number or a higher one; no process of a system has."""
SERVED = "request"
"""The links from a request to the batches that it is in."""
FOLLOWED = "state"
"""The links from a state of a request to the next one."""
SCHEDULED = "schedule"
"""The links from a schedule to the pass that executes it."""

Basis = Literal["written", "device", "assumed"]


class Clock(Struct, frozen=True):
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
    clock: Clock
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
    read_spans: Callable[[], Spans]
    ordinals: dict[str, int] = {}
    """The ordinal of the first row of each table among the slices of the trace, where there is one."""

    @once
    def members(self) -> Members:
        """The requests of each batch. They are read when they are asked for: a second for a million batches of four."""
        return self.read_members()

    @once
    def spans(self) -> Spans:
        """The ranges of the engine, of a service that was loaded as a trace."""
        _ = self.members  # both add names of requests, one after the other
        return self.read_spans()

    def move(self, by: int, basis: Basis) -> None:
        """Put all moments ``by`` ns later, as ``basis`` has told."""
        for name in TABLES:
            rows = getattr(self, name)
            for column in MOMENTS.intersection(rows.__struct_fields__):
                values = getattr(rows, column)
                values[values != UNKNOWN] += by
        self.clock = Clock(self.clock.shift - by, basis)

    def text(self, code: int) -> str:
        """The text of ``code``, empty for ``NONE``."""
        return self.texts[code] if code >= 0 else ""


def plus(moment: I64, length: I64) -> I64:
    """``moment`` + ``length``, unknown where either is."""
    return np.where((moment == UNKNOWN) | (length == UNKNOWN), UNKNOWN, moment + length)


def minus(later: I64, earlier: I64) -> I64:
    """``later`` - ``earlier``, unknown where either is."""
    return np.where((later == UNKNOWN) | (earlier == UNKNOWN), UNKNOWN, later - earlier)


_QUARTER = 900_000_000_000


def whole_quarters(time: int) -> int:
    """``time`` to the next quarter of an hour, ns: zones differ by no less."""
    return round(time / _QUARTER) * _QUARTER
