"""Forty questions with known answers, asked of the tools for agents by a script, without a model.

    python tests/agent_questions.py [--seed 3] [WORD…]

Profiles of known causes are simulated, with the same jobs without them. Of every question the calls that a good agent
makes are counted, and the tokens of their answers against those of the report as one JSON. Prints a line for each that
a WORD is in; exit code 1 where an answer is wrong, too long, or three calls are not enough on average.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "fixtures", ROOT / "tests", ROOT / "tests" / "rules"):
    sys.path.insert(0, str(folder))

from cause import Job  # noqa: E402 - its folder is no package
from causes import ALL, outcome  # noqa: E402
from generate import build, build_job, write  # noqa: E402
from mcp import Client  # noqa: E402

from npu_tui.mcp.server import make_server  # noqa: E402
from npu_tui.mcp.session import OpenProfiles, tokens_of  # noqa: E402

Answers = list[dict[str, Any]]
MOST_TOKENS, MOST_CALLS = 2_000, 3.0


class Question(NamedTuple):
    """What is asked, the calls (arguments may depend on the answers before), and whether the last answers are right."""

    text: str
    calls: tuple[tuple[str, Callable[[Answers], dict[str, Any]]], ...]
    right: Callable[[Answers], bool]


_CAUSES = (
    "host: slow fetch", "host: slow line", "host: slow Python", "host: compiling", "host: collector",
    "host: allocation", "host: step start", "host: checkpoint", "host: sorting before the backward pass",
    "device: AI CPU", "device: copies", "device: outlier", "peers: one late",
)  # fmt: skip
_GAINS = ("host: slow fetch", "host: collector", "host: step start", "device: copies", "peers: one late")
_CHANGES = ("host: slow fetch", "host: step start", "device: copies")
_STEPS = 6


def place(name: str) -> str:
    """The folder of the simulated job ``name``."""
    return name.replace(" ", "_").replace(":", "").replace(",", "")


def simulate(folder: Path, seed: int) -> None:
    """Write every profile that is asked about below ``folder``."""

    def put(job: Job, name: str, paired: bool = False) -> None:
        seeded = tuple(replace(rank, seed=seed + 1_000 * rank.rank, paired=paired) for rank in job)
        write(build(seeded[0]) if len(seeded) == 1 else build_job(seeded), folder / place(name))

    for name in _CAUSES:
        put(ALL[name].job, name, paired=True)  # as in ``outcome``, which knows the true gain
    for name in _CHANGES:
        job = tuple(replace(rank, steps=_STEPS) for rank in ALL[name].job)
        put(job, f"{name} before")
        put(ALL[name].remedy(job), f"{name} after")
    put(ALL["nothing: two groups"].job, "nothing")
    put(ALL["peers: a rank that fetches"].job, "fetching job")


def first(answers: Answers) -> dict[str, Any]:
    """The finding that leads."""
    return answers[0]["data"]["findings"][0]


def questions(folder: Path, seed: int) -> Iterator[Question]:
    """All of them."""
    fixtures = ROOT / "fixtures"

    def at(path: object, **more: Any) -> Callable[[Answers], dict[str, Any]]:
        return lambda answers: {"path": str(path), **more}

    def detail(answers: Answers) -> dict[str, Any]:
        return answers[0]["next"][0]["arguments"]

    for name in _CAUSES:
        calls = (("open", at(folder / place(name))), ("report", detail))
        yield Question(f"cause of {name}", calls, lambda told, leads=ALL[name].leads: first(told)["id"] in leads)
    for name in _GAINS:

        def near(told: Answers, name: str = name) -> bool:
            row = outcome(ALL[name], seed)
            gain = first(told)["gain_us"] * 1000
            return abs(gain - row.simulated) <= max(0.10 * row.simulated, 0.03 * row.step)

        yield Question(f"gain of {name}", (("open", at(folder / place(name))),), near)
    for name in _CHANGES:
        before, after = (str(folder / place(f"{name} {when}")) for when in ("before", "after"))
        for base, new, verdict in ((before, after, "faster"), (after, before, "slower"), (before, before, "same")):
            calls = (("compare", lambda told, pair=(base, new): {"base": pair[0], "new": pair[1]}),)
            yield Question(
                f"{verdict}: {name}", calls, lambda told, verdict=verdict: told[0]["data"]["step"]["verdict"] == verdict
            )
    for path in (folder / place("nothing"), fixtures / "healthy"):
        yield Question(
            f"nothing in {path.name}",
            (("open", at(path)),),
            lambda told: all(row["severity"] in ("info", "low") for row in told[0]["data"]["findings"]),
        )
    for path, rank in ((fixtures / "two_ranks", 1), (folder / place("fetching job"), 2)):
        calls = (("open", at(path)), ("ranks", at(path)))
        yield Question(f"rank of {path.name}", calls, lambda told, rank=rank: first(told)["ranks"] == [rank])
        sql = "SELECT rank FROM ranks ORDER BY job_waits DESC NULLS LAST LIMIT 1"
        yield Question(
            f"rank by SQL of {path.name}",
            (("query", at(path, sql=sql)),),
            lambda told, rank=rank: told[0]["data"]["rows"] == [[rank]],
        )
    for name in ("dispatch_bound", "communication_bound"):
        truth = json.loads((fixtures / name / "truth.json").read_text())
        path, line = fixtures / name, truth["code_lines"][0]
        sql = "SELECT line FROM code_lines ORDER BY lost DESC NULLS LAST LIMIT 1"
        yield Question(
            f"line of {name}",
            (("open", at(path)), ("query", at(path, sql=sql))),
            lambda told, line=line: told[1]["data"]["rows"] == [[line["line"]]],
        )
        yield Question(
            f"dearest operator of {name}",
            (("report", at(path, fields=["operators"], limit=1)),),
            lambda told, top=truth["operators"][0]: told[0]["data"]["operators"][0]["type"] == top["type"],
        )
    truth = json.loads((fixtures / "dispatch_bound" / "truth.json").read_text())
    line = 31  # where Python builds a table, while the launches of the lines after it come late
    yield Question(
        "line in the finding",
        (("open", at(fixtures / "dispatch_bound")), ("report", detail)),
        lambda told: told[1]["data"]["findings"][0]["code_lines"][0]["line"] == line,
    )
    yield Question(
        "what the first fix gains",
        (("open", at(fixtures / "dispatch_bound")), ("whatif", lambda told: told[0]["next"][1]["arguments"])),
        lambda told: told[1]["data"]["gain_us"] == first(told)["gain_us"],
    )
    yield Question(
        "starved launches",
        (("report", at(fixtures / "dispatch_bound", fields=["dispatch.starved"])),),
        lambda told: told[0]["data"]["dispatch"]["starved"] == truth["dispatch"]["starved"],
    )


class Outcome(NamedTuple):
    """What came of a question."""

    text: str
    right: bool
    calls: int
    tokens: int
    largest: int
    report: int


async def ask(session: OpenProfiles, asked: list[Question]) -> list[Outcome]:
    """The outcome of each question."""
    outcomes = []
    async with Client(make_server(session)) as client:
        for question in asked:
            answers: Answers = []
            sizes = []
            for tool, arguments in question.calls:
                result = await client.call_tool(tool, arguments(answers))
                answers.append(result.structured_content)
                sizes.append(tokens_of(result.content[0].text))
            right = not any("error" in answer for answer in answers) and question.right(answers)
            reports = [opened.kept("whole", lambda opened=opened: whole(opened)) for opened in session._opened.values()]
            outcomes.append(Outcome(question.text, right, len(sizes), sum(sizes), max(sizes), reports[-1]))
    return outcomes


def whole(opened: Any) -> int:
    """The tokens of the report about what is open, as one JSON without blanks."""
    import msgspec

    from npu_tui.output.job_report import job_report
    from npu_tui.output.report import report

    document = job_report(opened.job) if opened.profile is None else report(opened.profile)
    return tokens_of(msgspec.json.encode(document).decode())


def main() -> int:
    """Ask; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with redirect_stdout(StringIO()):
            simulate(folder, options.seed)
        asked = [
            question
            for question in questions(folder, options.seed)
            if not options.words or any(word in question.text for word in options.words)
        ]
        outcomes = asyncio.run(ask(OpenProfiles([folder, ROOT / "fixtures"]), asked))
    print(f"{'question':45} right calls tokens largest  report")
    for row in outcomes:
        print(f"{row.text:45} {row.right!s:5} {row.calls:5} {row.tokens:6} {row.largest:7} {row.report:7}")
    calls = sum(row.calls for row in outcomes) / len(outcomes)
    tokens, reports = (sum(getattr(row, name) for row in outcomes) / len(outcomes) for name in ("tokens", "report"))
    right = sum(row.right for row in outcomes)
    print(
        f"{right} of {len(outcomes)} right, {calls:.2f} calls and {tokens:,.0f} tokens; a report {reports:,.0f} tokens"
    )
    return (
        0
        if right == len(outcomes) and calls <= MOST_CALLS and max(row.largest for row in outcomes) <= MOST_TOKENS
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
