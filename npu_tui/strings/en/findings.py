"""The texts that findings share: verdicts, outlook, where and when, what a rule lacks."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.between": "between {start:time} and {end:time}",
    "finding.place": "{place} in {function}()",
    "finding.lines": "{file}:{lines:and}",
    "finding.timed": "{name} {time:time}",
    "finding.counted": "{name} {count:count}",
    "finding.steps.every": "It shows in every step.",
    "finding.steps.one": "It shows in step {step} only, of {first}–{last}.",
    "finding.steps.some": "It shows in {count:count} of {all:count} steps: {steps:and}.",
    "finding.verdict.warm_up": ("Step {step} is left out as warm-up: it takes {time:time}, the others {usual:time}."),
    "finding.verdict.warm_ups": (
        "Steps {first}–{last} are left out as warm-up: they take up to {time:time}, the others {usual:time}."
    ),
    "finding.outlook.rest": "After fix 1, fixing it makes each {unit} {gain:time} shorter.",
    "finding.outlook.rest_many": "After fixes 1–{above}, fixing it makes each {unit} {gain:time} shorter.",
    "finding.outlook.step": "Fixing it makes each {unit} {gain:time} shorter.",
    "finding.outlook.less": "The rest of its {time:time} per {unit} is hidden: other work takes as long.",
    "finding.gain_after": "{gain} after 1",
    "finding.gain_after_many": "{gain} after 1–{after}",
    "finding.outlook.next": "Each {unit} then takes about {step:time}, and {following} leads.",
    "finding.outlook.last": "Each {unit} then takes about {step:time}.",
    "finding.outlook.part": "Part of {whole}.",
    "finding.outlook.idle": "Fixing it gains nothing: something else takes as long at the same time.",
    "finding.outlook.held": "By itself it gains {alone:time}: the findings above take as long at the same time.",
    "finding.outlook.held_entirely": "By itself it gains nothing: the findings above take as long at the same time.",
    "finding.outlook.intervals": "This run cannot be replayed, so gains are lengths of intervals.",
    "finding.over.step": "{text} in {count:step|steps}",
    "finding.over.token": "{text} in {count:token|tokens}",
    "finding.over.iteration": "{text} in {count:iteration|iterations}",
    "finding.unit.step": "step",
    "finding.unit.token": "token",
    "finding.unit.iteration": "iteration",
    "finding.unknown": "unknown",
    "finding.nothing": "the end",
    "finding.rank": "rank {rank} was",
    "finding.ranks": "ranks {ranks:and} were",
    "finding.speed": "at {speed:speed}",
    "finding.speeds": "at {low:speed} to {high:speed}",
    "finding.device": "device {device}: {text}",
    "finding.class.dispatch": "DISPATCH",
    "finding.class.compute": "COMPUTE",
    "finding.class.communication": "COMMUNICATION",
    "finding.class.memory": "MEMORY",
    "finding.class.config": "SETTINGS",
    "finding.class.data": "DATA",
    "finding.bound.dispatch": "dispatch",
    "finding.bound.compute": "compute",
    "finding.bound.communication": "communication",
    "finding.stage.python": "Python",
    "finding.stage.cann": "CANN",
    "finding.stage.both": "The host (Python and CANN)",
    "finding.stage.host": "The host",
    "finding.cause.sync": "the host waited for the device",
    "finding.cause.communication": "a long collective or event wait",
    "finding.cause.copy": "a long copy",
    "finding.cause.aicpu": "an AI CPU kernel",
    "finding.cause.compile": "operator compilation",
    "finding.cause.memory": "device memory allocation",
    "finding.cause.gc": "Python garbage collection",
    "finding.cause.dataloader": "fetching a batch",
    "finding.cause.python": "Python between two operations",
    "finding.verdict.then": "then {line}",
    "finding.verdict.line": "{what}: {title}",
    "finding.verdict.healthy": (
        "No significant bottleneck: the device computes for {compute:share} of {total:time}; {free:share} is free."
    ),
    "finding.verdict.no_device": "No device time in this trace, so there is nothing to judge.",
    "finding.verdict.title": "The job is {bound}-bound",
    "finding.verdict.detail": (
        "Of the device time, {late:time} ({late_share:share}) is waiting for launches, {exposed:time} "
        "({exposed_share:share}) exposed communication and {compute:time} ({compute_share:share}) computing."
    ),
    "finding.util.title": "The device computes for {compute:share} of its time and is busy for {busy:share}",
    "finding.util.title_poor": "The device computes for only {compute:share} of its time and is busy for {busy:share}",
    "finding.util.fine": (
        "The device computes for {compute:share} of {total:time} and is busy for {busy:share}: little time is left "
        "outside the kernels."
    ),
    "finding.util.room": (
        "The device computes for {compute:share} of {total:time} and is busy for {busy:share}: there is room between "
        "the kernels."
    ),
    "finding.util.poor": (
        "The device computes for {compute:share} of {total:time} and is busy for {busy:share}: most of the time it "
        "does not compute."
    ),
    "finding.needs.device": "no device layer with a slice that keeps the device busy",
    "finding.needs.links": "no HostToDevice link ends in a busy slice",
    "finding.needs.overlap": "no device time: neither Overlap Analysis nor a compute slice",
    "finding.needs.cann": "no CANN slices; profile at Level1 or above",
    "finding.needs.python": "no Python layer; profile with the CPU activity",
    "finding.needs.planes": "no plane tasks of collectives; profile several ranks at Level1 or above",
    "finding.needs.steps": "no ProfilerStep#N that launched anything",
    "finding.needs.frequency": "no AI Core Freq counter in the trace",
    "finding.needs.kernel_details": "needs kernel_details.csv next to the trace",
    "finding.needs.pmu": "needs kernel_details.csv with AI core metrics (aic_mte2_ratio); profile with aic_metrics",
    "finding.needs.metadata": "needs profiler_metadata.json in the directory above the trace",
    "finding.needs.memory": (
        "needs memory_record.csv with PTA rows next to the trace; profile with profile_memory=True"
    ),
    "finding.needs.links_fewest": "only {count:launch|launches}; a verdict needs {fewest}",
    "finding.needs.dequeue": "no Dequeue slices on one clock: the slow stage of the host is unknown",
    "finding.kind.dispatch": "dispatch",
    "finding.kind.compute": "compute",
    "finding.kind.communication": "communication",
    "finding.kind.memory": "memory",
    "finding.kind.config": "config",
    "finding.kind.data": "data",
}
