"""How long a coding agent waits for an answer: 50 calls of every tool over stdio, on a trace that is open.

.venv/bin/python fixtures/generate.py large --slices 2300000 -o /tmp/large.json    # 1 GB
.venv/bin/python tests/benchmarks/agents.py /tmp/large.json
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("report", {}), ("report", {"finding": "DISPATCH.VERTICAL"}), ("explain", {"id": "DISPATCH.VERTICAL"}),
    ("whatif", {"changes": ["fix DISPATCH.VERTICAL"]}), ("report", {"fields": "dispatch.code_lines"}),
    ("query", {"sql": "SELECT name, sum(duration) AS t FROM slices GROUP BY name ORDER BY t DESC LIMIT 10"}),
    ("screenshot", {"finding": "DISPATCH.VERTICAL"}), ("tables", {}), ("tables", {"table": "launches"}),
    ("query", {"sql": "SELECT name, lost, file, line FROM launches WHERE starved ORDER BY lost DESC LIMIT 10"}),
    ("whatif", {}), ("whatif", {"changes": ["op MatMul x0.5"]}), ("report", {"fields": "modules"}),
    ("query", {"sql": "SELECT type, sum(duration) AS t FROM kernels GROUP BY type ORDER BY t DESC"}),
    ("report", {"range": "100ms..300ms"}), ("explain", {"id": "lost time"}), ("report", {"fields": "operators"}),
    ("query", {"sql": "SELECT category, median(latency) AS t FROM links GROUP BY category"}),
    ("query", {"sql": "SELECT id, gain FROM findings"}), ("screenshot", {"range": "100ms..102ms"}),
    ("query", {"sql": "SELECT name, duration, start FROM slices ORDER BY duration DESC LIMIT 10"}),
    ("report", {"fields": "findings.id"}), ("report", {"fields": "overlap"}), ("screenshot", {"keys": "x Enter"}),
    ("query", {"sql": "SELECT name, count(*) AS n FROM slices WHERE name LIKE '%MatMul%' GROUP BY name"}),
]  # fmt: skip


def processor_seconds(pid: int) -> float:
    """What the process ``pid`` and those that it has started have taken of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    below = [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK") + sum(map(processor_seconds, below))


async def measure(trace: Path) -> None:
    """Open ``trace`` in a server of its own, call it 50 times, and print how long each kind took."""
    words = ["-m", "npu_tui", "mcp", "--root", str(trace.parent)]
    times: dict[str, list[tuple[float, float]]] = {}
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:

        async def timed(tool: str, arguments: dict[str, Any]) -> tuple[float, float]:
            begun, used = time.perf_counter(), processor_seconds(os.getpid())
            answer = await client.call_tool(tool, arguments, read_timeout_seconds=300)
            took = time.perf_counter() - begun, processor_seconds(os.getpid()) - used
            if answer.is_error:
                print(f"{tool} {arguments}: {answer.content[0].text}")  # type: ignore[union-attr]
            if "-v" in sys.argv:
                print(f"{took[0]:6.2f} {took[1]:6.2f} {tool} {arguments}")
            return took

        print("open {:.2f} s, {:.2f} s of processor".format(*await timed("open", {"path": trace.name})))
        for _ in range(2):
            for tool, arguments in CALLS:
                place = {} if tool == "explain" else {"path": trace.name}
                times.setdefault(tool, []).append(await timed(tool, place | arguments))
    print(f"{'tool':12} {'calls':>6} {'median s':>9} {'longest s':>10} {'processor: median s':>20} {'most s':>7}")
    for tool, took in times.items():
        wall, used = (sorted(column) for column in zip(*took, strict=True))
        middle = len(took) // 2
        print(f"{tool:12} {len(took):6} {wall[middle]:9.3f} {wall[-1]:10.3f} {used[middle]:20.2f} {used[-1]:7.2f}")
    wall, used = (sorted(column) for column in zip(*(row for took in times.values() for row in took), strict=True))
    late = round(len(wall) * 0.95) - 1
    print(f"{len(wall)} calls: p95 {wall[late]:.3f} s (0.3 asked), {used[late]:.2f} s of processor")


if __name__ == "__main__":
    asyncio.run(measure(Path(sys.argv[1]).resolve()))
