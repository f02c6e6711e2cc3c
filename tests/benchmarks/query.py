"""How long queries over a trace take from its parsed copy, and how much memory a process needs for one.

.venv/bin/python fixtures/generate.py large --slices 2300000 -o /tmp/large.json    # 1 GB
.venv/bin/python tests/benchmarks/query.py /tmp/large.json
"""

from __future__ import annotations

import json
import subprocess
import sys

QUERIES = {
    "count": "SELECT count(*) AS n FROM slices",
    "by name": "SELECT name, count(*) AS n, sum(duration) AS t FROM slices GROUP BY name ORDER BY t DESC LIMIT 10",
    "name is": "SELECT slice, start FROM slices WHERE name = 'Add' LIMIT 10",
    "name like": "SELECT name, count(*) AS n FROM slices WHERE name LIKE '%MatMul%' GROUP BY name",
    "longest": "SELECT name, duration, start FROM slices ORDER BY duration DESC LIMIT 10",
    "links": "SELECT category, median(latency) AS t FROM links GROUP BY category",
    "join": "SELECT s.layer, count(*) AS n FROM links l JOIN slices s ON l.target_slice = s.slice GROUP BY s.layer",
    "starved": "SELECT name, lost, file, line FROM launches WHERE starved ORDER BY lost DESC LIMIT 10",
    "operators": "SELECT type, sum(duration) AS t FROM kernels GROUP BY type ORDER BY t DESC",
    "findings": "SELECT id, gain FROM findings",
}

PROGRAM = """
import json, resource, sys, time
from npu_tui.query.query import opened_tables
from npu_tui.query.query import query
from npu_tui.analysis.limits import Thresholds
import polars
begun, used = time.perf_counter(), time.process_time()
tables = opened_tables(sys.argv[1], Thresholds())
opened = time.perf_counter() - begun
frame = query(tables, sys.argv[2])
print(json.dumps([opened, time.perf_counter() - begun, time.process_time() - used,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(frame)]))
"""

if __name__ == "__main__":
    path = sys.argv[1]
    subprocess.run([sys.executable, "-m", "npu_tui", "index", path], check=True)
    print(f"{'query':12} {'opened s':>9} {'answered s':>11} {'CPU s':>7} {'peak MB':>8} {'rows':>6}")
    for name, sql in QUERIES.items():
        done = subprocess.run([sys.executable, "-c", PROGRAM, path, sql], capture_output=True, text=True, check=True)
        opened, whole, cpu, peak, rows = json.loads(done.stdout)
        print(f"{name:12} {opened:9.2f} {whole:11.2f} {cpu:7.2f} {peak / 1e6:8.0f} {rows:6}", flush=True)
