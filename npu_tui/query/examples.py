"""Useful queries to begin with; ``query.example.<id>`` says what each one answers."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "waits": """\
SELECT name, class, lost / 1000 AS lost_us, file, line
FROM launches
WHERE starved
ORDER BY lost DESC
LIMIT 20""",
    "lines": """\
SELECT file, line, function, lost / 1e6 AS lost_ms, launches
FROM code_lines
ORDER BY lost DESC""",
    "operators": """\
SELECT type, core, count(*) AS calls, sum(duration) / 1e6 AS total_ms, median(duration) / 1000 AS median_us,
       quantile_cont(duration, 0.99) / 1000 AS p99_us
FROM kernels
GROUP BY type, core
ORDER BY total_ms DESC""",
    "shapes": """\
SELECT type, input_shapes, count(*) AS calls, sum(duration) / 1e6 AS total_ms, avg(gb_s) AS gb_s
FROM kernels
GROUP BY type, input_shapes
ORDER BY total_ms DESC NULLS LAST
LIMIT 20""",
    "idle": """\
SELECT start / 1e6 AS at_ms, duration / 1000 AS free_us, host_late / 1000 AS host_late_us, before_name, after_name
FROM free
ORDER BY duration DESC
LIMIT 20""",
    "stages": """\
SELECT op_name, count(*) AS launches, avg(enqueue_start - op_start) / 1000 AS op_us,
       avg(dequeue_start - enqueue_end) / 1000 AS queue_us, avg(source_time - dequeue_start) / 1000 AS launch_us,
       avg(latency) / 1000 AS wait_us, sum(lost) / 1000 AS lost_us
FROM launches
WHERE op_name IS NOT NULL
GROUP BY op_name
ORDER BY lost_us DESC
LIMIT 20""",
    "late": """\
SELECT c.name, c.duration / 1e6 AS ms, a.peer_rank, a.after / 1e6 AS after_ms
FROM collectives c JOIN arrivals a ON c.slice = a.slice
WHERE a.after = (SELECT max(b.after) FROM arrivals b)""",
    "calls": """\
SELECT level, name, calls, total / 1e6 AS total_ms, longest / 1000 AS longest_us
FROM apis
ORDER BY total DESC
LIMIT 20""",
    "steps": """\
SELECT step, duration / 1e6 AS ms, computing / 1e6 AS computing_ms, not_overlapped / 1e6 AS communication_ms,
       free / 1e6 AS free_ms, 100 * free / duration AS free_percent
FROM steps
ORDER BY step""",
    "requests": """\
SELECT rid, ttft / 1e6 AS ttft_ms, ttft_most, per_token / 1e6 AS tpot_ms, tpot_most, prompt, tokens
FROM latencies
WHERE complete
ORDER BY ttft DESC
LIMIT 20""",
    "tail": """\
SELECT metric, part, 100 * share AS all_percent, 100 * slowest_share AS slowest_percent, slowest / 1e6 AS slowest_ms
FROM latency_parts
ORDER BY metric, slowest DESC""",
    "streams": """\
SELECT layer, lane, count(*) AS slices, sum(duration) / 1e6 AS busy_ms, max(duration) / 1e6 AS longest_ms
FROM slices
WHERE kind = 'hardware' AND depth = 0
GROUP BY layer, lane
ORDER BY busy_ms DESC""",
    "named": """\
SELECT slice, name, start / 1e6 AS at_ms, duration / 1000 AS us
FROM slices
WHERE name LIKE '%MatMul%' AND kind = 'hardware'
ORDER BY duration DESC
LIMIT 20""",
    "links": """\
SELECT category, count(*) AS links, min(latency) / 1000 AS least_us, median(latency) / 1000 AS median_us,
       max(latency) / 1000 AS most_us
FROM links
GROUP BY category
ORDER BY links DESC""",
}
"""SQL by id, in the order of the gallery."""
