"""The files of msServiceProfiler: which columns each table has, by the names of all versions.

https://gitcode.com/Ascend/msserviceprofiler/blob/master/docs/zh/msserviceprofiler_serving_tuning_instruct.md describes
the CSV files; ``profiler.db`` has tables of the same columns. Columns are found by name, never by place.
"""

from __future__ import annotations

from npu_tui.load.companion_schema import Schema, declared


def _table(stem: str, columns: str) -> Schema:
    """The table ``stem``, of which other columns are not read."""
    return declared(stem, "", columns, only=True)


_BLOCKS = """
    total_blocks      whole   total_blocks
    used_blocks       whole   used_blocks
    free_blocks       whole   free_blocks | device_kvcache_left
    allocated_blocks  whole   blocks_allocated
    freed_blocks      whole   blocks_freed
    usage             real    kvcache_usage_rate
"""

REQUESTS = _table(
    "request",
    """
    rid               text    http_rid | rid
    start             moment  start_time(ms) | start_time_ms
    start_date        list  start_datetime
    execution         length  execution_time(ms) | execution_time
    queue             length  queue_wait_time(ms) | queue_wait_time
    first_token       length  first_token_latency(ms) | first_token_latency
    prompt_tokens     whole   recv_token_size
    output_tokens     whole   reply_token_size
    hit_rate          real    cache_hit_rate
    """,
)

BATCHES = _table(
    "batch",
    f"""
    name              label   name
    members           list    res_list
    start             moment  start_time(ms)
    start_date        list  start_datetime | start_time
    end               moment  end_time(ms)
    end_date          list  end_datetime | end_time
    duration          length  during_time(ms) | during_time
    type              label   batch_type
    process           label   prof_id
    dp_rank           whole   dp_rank
    size              whole   batch_size | total_batch_size
    prefill_size      whole   prefill_batch_size
    decode_size       whole   decode_batch_size
    tokens            whole   total_scheduled_tokens
    prefill_tokens    whole   prefill_scheduled_tokens
    decode_tokens     whole   decode_scheduled_tokens
    accepted_ratio    real    accepted_ratio
    {_BLOCKS.strip()}
    """,
)

FORWARDS = _table(
    "forward",
    """
    name              label   name
    start             moment  start_time(ms)
    start_date        list  start_datetime
    end               moment  end_time(ms)
    end_date          list  end_datetime
    duration          length  during_time(ms)
    bubble            length  bubble_time(ms)
    type              label   batch_type
    size              whole   batch_size
    iter              whole   forward_iter
    dp_rank           whole   dp_rank
    process           label   prof_id
    host              label   hostname
    """,
)

KV_BLOCKS = _table(
    "kvcache",
    f"""
    time              moment  timestamp(ms) | start_time(ms)
    time_date         list  start_datetime | start_time
    name              label   name
    rid               text    rid
    domain            label   domain
    {_BLOCKS.strip()}
    """,
)

SPEC_DECODES = _table(
    "spec_decode",
    """
    rid               text    rid
    iter              whole   iter
    process           label   prof_id
    start             moment  start_time(ms)
    start_date        list  start_datetime
    end               moment  end_time(ms)
    end_date          list  end_datetime
    duration          length  during_time(ms)
    draft_tokens      whole   spec_tokens
    accepted_tokens   whole   accepted_tokens
    accepted_ratio    real    accepted_ratio
    draft             length  draft_model_time_ms
    """,
)

TRANSFERS = _table(
    "pd_split_kvcache",
    """
    rid               text    rid
    rank              whole   rank
    domain            label   domain
    start             moment  start_time(ms)
    start_date        list  start_datetime(ms) | start_datetime
    end               moment  end_time(ms)
    end_date          list  end_datetime(ms) | end_datetime
    duration          length  during_time(ms)
    tokens            whole   seq_len | batch_seq_len
    """,
)

HANDOFFS = _table(
    "pd_split_communication",
    """
    rid               text    rid
    received_date     list  http_req_time(ms)
    sent_date         list  send_request_time(ms)
    acknowledged_date list  send_request_succ_time(ms)
    prefilled_date    list  prefill_res_time(ms)
    ended_date        list  request_end_time(ms)
    """,
)

STATUSES = _table(
    "request_status",
    """
    time              moment  timestamp(ms)
    time_date         list  start_datetime
    host              label   hostuid
    process           label   pid
    waiting           whole   waiting
    running           whole   running
    swapped           whole   swapped
    """,
)

SERVICE_TABLES: tuple[Schema, ...] = (
    REQUESTS, BATCHES, FORWARDS, KV_BLOCKS, SPEC_DECODES, TRANSFERS, HANDOFFS, STATUSES,
)  # fmt: skip
"""Every table with a file of its own, the stem of which is the name of its table in ``profiler.db``."""
