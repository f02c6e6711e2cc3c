"""Simulated engines on an NPU with one trouble each: is it named first, and is its gain that of the run without it?

    python tests/engines.py [--seeds 20] [--varied] [NAME…]

Prints a table: how often the finding of the trouble comes first, how often one of an engine is told above info where
there is none, how often the gain told is within 10 % of that of the second simulation or within 3 % of the step.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(folder) for folder in (TESTS, TESTS / "rules", TESTS.parent / "fixtures")]

from measured import profile_at  # noqa: E402 - its folder is no package
from test_repetitions import CANN, HOST, Writer  # noqa: E402

from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.rules.model import Finding  # noqa: E402

NEAR, NEAR_STEP = 0.10, 0.03


@dataclass(frozen=True)
class Engine:
    """An engine and its load; times in µs.

    A batch has `requests` by step (their number, 0: a prefill of one that joins, -1: a dummy batch); `captured` are the
    sizes that graphs have, smaller ones are filled up. `kv` are the tokens that each request starts with. A `chunk`
    computes prompts in pieces of so many tokens together with the decodes. `drafts` are proposed to each request and
    accepted one after the other with probability `accepts`. `pause` lasts until the next prefill.
    One that `asks` waits for the logits before it samples; `shapes` are those of kernel_details.csv; a `queue`
    launches what runs eagerly on a thread of its own.
    """

    seed: int = 0
    steps: int = 60
    requests: Callable[[int], int] = lambda step: 6
    captured: tuple[int, ...] = (1, 2, 4, 8)
    layers: int = 6
    matmul: float = 40.0
    per_token: float = 0.0
    attention: float = 20.0
    per_kv: float = 0.0
    kv: int = 1000
    grows: int = 1
    prompt: int = 900
    chunk: int = 0
    launch: float = 45.0
    graph: float = 60.0
    prepare: float = 60.0
    schedule: float = 0.0
    sample: float = 30.0
    between: float = 15.0
    waits: bool = True
    drafts: int = 0
    accepts: float = 0.8
    draft: float = 60.0
    pause: float = 0.0
    asks: bool = False
    names: str = "detailed"
    shapes: bool = False
    queue: bool = False
    piecewise: bool = False
    noise: float = 0.02

    def draw(self, *of: int) -> np.random.Generator:
        """Random numbers that belong to a thing, whatever else differs between two runs."""
        return np.random.default_rng((self.seed, *of))


@dataclass
class Batch:
    """One step: tokens of prompts and of requests that decode, and what attention reads."""

    prompt: int
    requests: int
    tokens: int
    kv: int
    padded: int
    made: int = 0

    @property
    def size(self) -> int:
        """The tokens that kernels compute."""
        return self.prompt + max(self.tokens, self.padded)


def batches(engine: Engine) -> list[Batch]:
    """What each step computes."""
    rows: list[Batch] = []
    running: list[int] = []
    width = 1 + engine.drafts
    for step in range(engine.steps):
        wanted, left = engine.requests(step), engine.prompt
        if wanted < 0:
            rows.append(Batch(0, 0, 0, 0, 1))
            continue
        joins = wanted == 0 or not running
        wanted = wanted or len(running) + 1
        if joins and engine.chunk and running:
            while left > 0:
                part = min(engine.chunk, left)
                rows.append(Batch(part, len(running), len(running) * width, sum(running), 0))
                left -= part
                running = [kv + 1 for kv in running]
        elif joins:
            rows.append(Batch(engine.prompt, 0, 0, 0, 0))
        running = (running + [engine.kv] * wanted)[:wanted]
        tokens = wanted * width
        padded = next((size * width for size in engine.captured if size >= wanted), 0)
        rows.append(Batch(0, wanted, tokens, sum(running) + tokens, padded))
        draws = engine.draw(1, step).random((wanted, 16))[:, : max(engine.drafts, 1)]
        taken = (draws < engine.accepts).cumprod(axis=1).sum(axis=1) if engine.drafts else np.zeros(wanted, int)
        rows[-1].made = wanted + int(taken.sum())
        running = [kv + engine.grows * (1 + int(more)) for kv, more in zip(running, taken, strict=True)]
    return rows


def name_of(engine: Engine, batch: Batch) -> str:
    """What the engine calls a step."""
    asked = 1 if batch.prompt else 0
    if engine.names == "detailed":
        context = f"context_{asked}(sq{batch.prompt}sk{batch.prompt}sqsq0sqsk0)"
        generation = f"generation_{batch.requests}(sq{batch.tokens}sk{batch.kv}sqsq0sqsk0)"
        return f"execute_{batch.prompt + batch.tokens}_{context}_{generation}"
    if engine.names == "plain":
        return f"execute_context_{asked}({batch.prompt})_generation_{batch.requests}({batch.tokens})"
    if engine.names == "counted":
        return f"execute_new_{asked}_cached_{batch.requests}"
    if engine.names == "none":
        return "forward_context"
    if engine.names == "sglang":
        if batch.prompt:
            return f"step[EXTEND bs=1 toks={batch.prompt}]"
        mode = "TARGET_VERIFY" if engine.drafts else "DECODE"
        return f"step[{mode} bs={batch.requests} g_sq={batch.tokens} g_sk={batch.kv}]"
    if batch.prompt:
        return f"prefill[bs=1 tok={batch.prompt}]"
    return f"decode[bs={batch.requests}/{batch.padded or batch.requests} tok={batch.tokens}]"


class Run(Writer):
    """An engine at work: `host` and `free` are where its thread and the device have got to, µs."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine, self.now, self.free, self.number = engine, 1_000.0, 0.0, 0
        self.done: list[float] = []
        self.entries, self.taken = 0, 0.0
        self.rows: list[tuple[str, float, float, int]] = []
        for number, batch in enumerate(batches(engine)):
            self._step(number, batch)

    def _took(self, what: int, length: float) -> float:
        self.number += 1
        return length * float(1 + self.engine.noise * self.engine.draw(2, what, self.number).uniform(-1, 1))

    def _range(self, name: str, length: float, what: int) -> None:
        if length:
            length = self._took(what, length)
            self.host(name, self.now, length)
            self.now += length

    def _kernel(self, kind: str, length: float, launched: bool, call: str = "Node@launch", rows: int = 0) -> None:
        """A kernel after all before it; one that is `launched` is so by a call of its own at the present time."""
        graph = "Execute" in call
        made = self._queued(kind) if launched and self.engine.queue and not graph else self.now
        at = max(self.free + 1, made + 8 if launched else 0)
        if launched:
            self.launch(call, made, at)
            if graph:
                self.events[-3]["dur"] = 0.9 * self.engine.graph
            elif self.engine.queue:
                self.events[-3]["tid"] = self.events[-2]["tid"] = 2
        self.kernel(kind, at, length)
        self.rows.append((kind, at, length, rows))
        self.free = at + length

    def _queued(self, kind: str) -> float:
        """An operation that hands its launch to the thread of the task queue; when that launches."""
        self.entries += 1
        self.host(f"aten::{kind.lower()}", self.now, 0.8 * self.engine.launch)
        entered = self.now + 0.6 * self.engine.launch
        made = max(self.taken, entered + 6)
        self.taken = made + 14
        ends = (("Enqueue", "enqueue", 1, entered, 3.0), (f"Dequeue@{kind}", "dequeue", 2, made, 12.0))
        for (name, category, tid, start, length), phase in zip(ends, "sf", strict=True):
            self.slice(name, HOST, tid, start, length, cat=category, args={"correlation_id": self.entries})
            flow = {"ph": phase, "id": self.entries, "name": "enqueue_to_dequeue", "cat": "async_task_queue"}
            self.events.append(flow | {"pid": HOST, "tid": tid, "ts": start} | ({"bp": "e"} if phase == "f" else {}))
        return made + 4

    def _model(self, batch: Batch, replayed: bool) -> None:
        engine = self.engine
        for layer in range(engine.layers):
            matmul = max(engine.matmul, engine.per_token * batch.size)
            attention = engine.attention + engine.per_kv * batch.kv + 0.02 * batch.prompt
            shapes = (
                ("RmsNorm", 8.0),
                ("MatMulV2", matmul),
                ("FusedInferAttentionScore", attention),
                ("MatMulV3", matmul),
            )
            for k, (kind, length) in enumerate(shapes):
                first = not k and (engine.piecewise or not layer)
                launched = not replayed or first
                call = "AscendCL@aclmdlRIExecuteAsync" if replayed else "Node@launch"
                self._kernel(kind, self._took(3, length), launched, call, batch.size)
                if launched:
                    self.now += self._took(4, engine.graph if replayed else engine.launch)

    def _step(self, number: int, batch: Batch) -> None:
        engine = self.engine
        self.number = number * 10_000
        if batch.prompt and not batch.requests and number and engine.pause:
            self.now = max(self.now, self.free) + engine.pause
        if not engine.waits and len(self.done) > 1:  # of async scheduling: one step ahead
            self._wait(self.done[-2])
        self._range("schedule: allocate_slots", engine.schedule, 5)
        begun = self.now
        self._range("prepare input", engine.prepare, 6)
        replayed = bool(batch.padded) and not batch.prompt
        self._model(batch, replayed)
        self.now += 10
        self._kernel("ArgMaxV2", self._took(7, 15.0), launched=True)
        if engine.asks:
            self._wait(self.free)
        self._range("sample_token", engine.sample, 8)
        if engine.drafts and not batch.prompt:
            begin = self.now
            for _ in range(engine.drafts):
                self._kernel("MatMulV2", self._took(9, engine.draft), True, "AscendCL@aclmdlRIExecuteAsync")
                self._kernel("ArgMaxV2", self._took(9, 4.0), launched=False)
                self.now += self._took(9, engine.graph)
            self.host("draft_token", begin, self.now - begin)
        self.done.append(self.free)
        if engine.waits:
            self._wait(self.free)
        self.host(name_of(engine, batch), begun, self.now - begun)
        self.now += self._took(10, engine.between)

    def _wait(self, until: float) -> None:
        call = "AscendCL@aclrtSynchronizeStream" if self.engine.waits else "AscendCL@aclrtSynchronizeEvent"
        length = max(until - self.now, 0) + 4
        self.slice(call, CANN, 1, self.now, length)
        self.now += length + 3


def recorded(engine: Engine, folder: Path) -> Profile:
    """The profile of `engine`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trace_view.json"
    run = Run(engine)
    path.write_text(json.dumps(run.events))
    if engine.shapes:
        with (folder / "kernel_details.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Input Shapes"))
            for kind, start, length, size in run.rows:
                shapes = f"{size},4096;4096,4096" if size else ""
                rows.writerow(
                    (f"aclnn{kind}_{kind}_{kind}", kind, "AI_CORE", f"{start:.3f}\t", f"{length:.3f}", shapes)
                )
    return profile_at(path)


@dataclass(frozen=True)
class Trouble:
    """An engine, the finding of its trouble (none: healthy), and the engine without it; or the one `note` (info).

    One that is healthy may become ill where it is varied: then the engine without the trouble gains.
    """

    engine: Engine
    finding: str | None = None
    remedied: Engine | None = None
    note: str | None = None

    def seeded(self, seed: int, varied: bool) -> Trouble:
        """The same with `seed`; `varied` has other layers, kernels and launches, alike with and without the trouble."""
        draw = np.random.default_rng((seed, 7))
        layers, (kernel, launch, host) = int(draw.integers(8, 16)), draw.uniform(0.7, 1.3, 3).tolist()

        def of(engine: Engine) -> Engine:
            engine = replace(engine, seed=seed)
            if not varied:
                return engine
            return replace(
                engine,
                layers=layers,
                matmul=engine.matmul * kernel,
                per_token=engine.per_token * kernel,
                attention=engine.attention * kernel,
                per_kv=engine.per_kv * kernel,
                launch=engine.launch * launch,
                graph=engine.graph * launch,
                prepare=engine.prepare * host,
                schedule=engine.schedule * host,
                sample=engine.sample * host,
                between=engine.between * host,
                draft=engine.draft * kernel,
            )

        return replace(self, engine=of(self.engine), remedied=None if self.remedied is None else of(self.remedied))

    def lasting(self, steps: int) -> Trouble:
        """The same for so many steps."""
        remedied = None if self.remedied is None else replace(self.remedied, steps=steps)
        return Trouble(replace(self.engine, steps=steps), self.finding, remedied, self.note)


def _sizes(*sizes: int) -> Callable[[int], int]:
    return lambda step: sizes[step % len(sizes)] if step else 0


def troubles() -> dict[str, Trouble]:
    """Every engine that is judged."""
    base = Engine(requests=_sizes(6))
    middle = replace(base, matmul=80.0, attention=60.0, launch=120.0, prepare=20.0, between=5.0)
    ahead = replace(base, waits=False, prepare=100.0)
    large = replace(base, matmul=150.0, attention=120.0, prepare=30.0)
    mixed = _sizes(6, 6, 7, 6, 0, 6, 7, 8, 6, 5)
    odd = _sizes(6, 6, 11, 6, 6, 12, 7, 6)
    rows: dict[str, Trouble] = {
        "healthy": Trouble(large),
        "healthy ahead": Trouble(ahead),
        "healthy mixed": Trouble(replace(large, requests=mixed)),
        "healthy chunked": Trouble(replace(large, requests=mixed, chunk=256)),
        "healthy pauses": Trouble(replace(large, requests=mixed, pause=30_000.0)),
        "healthy drafts": Trouble(replace(large, drafts=3, accepts=0.9)),
        "healthy piecewise": Trouble(replace(large, piecewise=True)),
        "healthy eager": Trouble(replace(large, captured=())),
    }
    for name, engine in {
        "": middle,
        " piecewise": replace(middle, piecewise=True),
        " plain": replace(middle, names="plain"),
    }.items():
        rows[f"eager above{name}"] = Trouble(
            replace(engine, requests=odd), "ENGINE.EAGER", replace(engine, requests=odd, captured=(1, 2, 4, 8, 11, 12))
        )
    queue = replace(middle, requests=odd, queue=True)
    rows["eager queue"] = Trouble(queue, "ENGINE.EAGER", replace(queue, captured=(1, 2, 4, 8, 11, 12)))
    rows["healthy queue"] = Trouble(replace(large, requests=mixed, queue=True))
    hole = replace(middle, requests=_sizes(8, 9, 8))
    rows["eager hole"] = Trouble(replace(hole, captured=(8,)), "ENGINE.EAGER", replace(hole, captured=(8, 9)))
    ahead_odd = replace(ahead, requests=odd)
    rows["healthy eager ahead"] = Trouble(ahead_odd, remedied=replace(ahead_odd, captured=(1, 2, 4, 8, 11, 12)))
    for name, engine in {"": middle, " large": large, " ahead": ahead}.items():
        slow = {"schedule": 900.0 if name else 400.0}
        rows[f"scheduling{name}"] = Trouble(replace(engine, **slow), "ENGINE.HOST", engine)  # type: ignore[arg-type]
    rows["eager tight"] = Trouble(
        replace(ahead, requests=odd, launch=90.0),
        "ENGINE.EAGER",
        replace(ahead, requests=odd, launch=90.0, captured=(1, 2, 4, 8, 11, 12)),
    )
    rows["scheduling queue"] = Trouble(
        replace(middle, queue=True, schedule=400.0), "ENGINE.HOST", replace(middle, queue=True)
    )
    rows["sampling"] = Trouble(
        replace(middle, sample=500.0, asks=True), "ENGINE.HOST", replace(middle, sample=0.0, asks=True)
    )
    grows = replace(large, per_kv=0.005, kv=2000)
    for name, engine in {
        "": grows,
        " many": replace(grows, requests=_sizes(8, 8, 8, 4)),
        " sglang": replace(grows, names="sglang"),
    }.items():
        rows[f"context{name}"] = Trouble(replace(engine, grows=200), "ENGINE.CONTEXT", engine)
    waiting = replace(large, requests=mixed, per_token=0.8)
    rows["prefill"] = Trouble(waiting, note="ENGINE.PREFILL")
    rows["prefill mixed"] = Trouble(replace(waiting, chunk=900, per_token=2.0), note="ENGINE.PREFILL")
    rows["healthy chunks"] = Trouble(replace(waiting, chunk=128, per_token=2.0))
    rows["dummy"] = Trouble(replace(large, requests=_sizes(6, -1, -1, 7, 6, -1)), note="ENGINE.DUMMY")
    rows["healthy context"] = Trouble(replace(large, per_kv=0.005, kv=2000))
    pads = replace(
        large, requests=_sizes(9, 9, 16, 9, 8, 5, 4), captured=(4, 8, 16), matmul=20.0, per_token=14.0, names="atom"
    )
    rows["padding"] = Trouble(pads, "ENGINE.PADDING", replace(pads, captured=(4, 5, 8, 9, 16)))
    shaped = replace(pads, names="plain", shapes=True)
    rows["padding shapes"] = Trouble(shaped, "ENGINE.PADDING", replace(shaped, captured=(4, 5, 8, 9, 16)))
    rows["healthy padding"] = Trouble(replace(pads, per_token=0.0, matmul=150.0), note="ENGINE.PADDING")
    for name, (count, accepts, best) in {"": (4, 0.25, 1), " two": (2, 0.2, 0), " six": (6, 0.4, 2)}.items():
        bad = replace(large, drafts=count, accepts=accepts, draft=250.0, graph=30.0)
        rows[f"drafts{name}"] = Trouble(bad, "ENGINE.DRAFTS", replace(bad, drafts=best))
    rows["between"] = Trouble(replace(middle, between=500.0), "ENGINE.HOST", middle)
    return rows


@dataclass
class Outcome:
    """What was said: findings above info by order, the gain told and simulated, and the step, ns."""

    named: list[str]
    notes: list[str]
    told: int | None = None
    true: float | None = None
    step: float = 0.0

    @property
    def near(self) -> bool:
        """Whether the gain told is that of the second simulation."""
        return (
            self.told is not None
            and self.true is not None
            and (abs(self.told - self.true) <= max(NEAR * abs(self.true), NEAR_STEP * self.step))
        )


def length(profile: Profile) -> int:
    """From the first work of the first step to the last one of the last, ns."""
    windows = [step.window for step in profile.engine.steps if step.window is not None]
    return windows[-1].end - windows[0].start


def outcome(trouble: Trouble, seed: int, folder: Path, varied: bool = False) -> Outcome:
    """What is said of `trouble` with `seed`, which may have `varied` the shape of its model and host."""
    trouble = trouble.seeded(seed, varied)
    profile = recorded(trouble.engine, folder / "with")
    named = [row for row in profile.findings.findings if row.severity != "info" and not row.hidden]
    found: dict[str, Finding] = {row.id: row for row in named}
    notes = [row.id for row in profile.findings.findings if row.severity == "info" and row.id.startswith("ENGINE.")]
    said = Outcome([row.id for row in named], notes)
    if trouble.remedied is not None and (trouble.finding is None or trouble.finding in found):
        other = trouble.remedied
        if trouble.finding and trouble.engine.drafts:  # as many as it proposes
            other = replace(other, drafts=int(str(found[trouble.finding].title.args["best"])))
        remedied = recorded(other, folder / "without")
        count = len(profile.engine.steps)
        if trouble.finding:
            finding = found[trouble.finding]
            said.told = finding.gain_ns if finding.remedy is None else finding.remedy.gain
        said.step = length(profile) / count
        with_it, without = (sum(batch.made for batch in batches(engine)) for engine in (trouble.engine, other))
        said.true = (length(profile) - length(remedied) * (with_it / without if trouble.engine.drafts else 1)) / count
    return said


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--varied", action="store_true", help="each seed has a model and a host of its own")
    options = parser.parse_args()
    known = troubles()
    print(f"{'engine':<22}{'finding':<20}{'first':>7}{'gain':>6}{'told':>9}{'true':>9}{'step':>9}  others")
    for name in options.names or known:
        trouble = known[name]
        with tempfile.TemporaryDirectory() as folder:
            rows = [outcome(trouble, seed, Path(folder), options.varied) for seed in range(1, options.seeds + 1)]
        if trouble.finding is None:
            alone = [] if trouble.note is None else [trouble.note]
            first = sum(
                (row.true or 0) > NEAR_STEP * row.step
                or (not any(id_.startswith("ENGINE.") for id_ in row.named) and row.notes == alone)
                for row in rows
            )
        else:
            first = sum(row.named[:1] == [trouble.finding] for row in rows)
        others = sorted({id_ for row in rows for id_ in row.named if id_ != trouble.finding})
        worst = max(rows, key=lambda row: abs((row.told or 0) - (row.true or 0)) / max(row.step, 1))
        figures = "".join(f"{(value or 0) / 1000:>9.1f}" for value in (worst.told, worst.true, worst.step))
        near = sum(row.near for row in rows)
        finding = trouble.finding or trouble.note or "none"
        print(f"{name:<22}{finding:<20}{first:>7}{near:>6}{figures}  {' '.join(others)}", flush=True)


if __name__ == "__main__":
    main()
