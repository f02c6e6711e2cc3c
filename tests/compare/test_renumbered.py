"""What a run is numbered by says nothing: clocks, processes, threads, flows, communicators and folders."""

import json
import re

import msgspec
from pairs import BASE, Trouble, compared, profile, replace

from npu_tui.output.compare_report import compared as typed

_HOST = replace(BASE, kernel_ns=18_000, host_op_ns=90_000)
_SHIFT_US = 86_400_000_000


def later(text):
    """Every time is a day later; so are the ids of links that are made of times."""
    text = re.sub(r'("ts": ")(\d+)', lambda match: f"{match[1]}{int(match[2]) + _SHIFT_US}", text)
    return re.sub(r'("id": )(\d{16,})', lambda match: f"{match[1]}{int(match[2]) + _SHIFT_US * 1000}", text)


def renumbered(text):
    """Other processes, host threads and flows, in the same order."""
    text = re.sub(r'("pid": )(\d+)', lambda match: f"{match[1]}{int(match[2]) + 7_000}", text)
    text = re.sub(r'("tid": )(2\d{5})\b', lambda match: f"{match[1]}{int(match[2]) + 311}", text)
    return re.sub(r'("id": "?)(\d{1,9})\b', lambda match: f"{match[1]}{int(match[2]) + 50_000}", text)


def other_communicators(text):
    """Collectives have the hash and number of another run."""
    text = re.sub(r"(hcom_[A-Za-z]+__)(\d+)(_\d+_\d+)", r"\g<1>977\3", text)
    return re.sub(r"Group (\d+) Communication", r"Group 12\1 Communication", text)


def other_streams(text):
    """The runtime gives the streams other numbers, in another order."""
    streams = sorted({int(number) for number in re.findall(r'"name": "Stream (\d+)"', text)})
    now = {old: 400 + 10 * k for k, old in enumerate(reversed(streams))}
    event = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
    hardware = re.search(r'"pid": (\d+), "tid": \d+, "args": \{"name": "Ascend Hardware"', text)
    pid = hardware[1] if hardware else re.search(r'"args": \{"name": "Ascend Hardware"\}, [^{}]*"pid": (\d+)', text)[1]

    def renamed(match):
        own = match[0]
        if f'"pid": {pid}' in own:
            own = re.sub(r'("tid": )(\d+)', lambda at: f"{at[1]}{now.get(int(at[2]), int(at[2]))}", own)
        own = re.sub(r"(Stream )(\d+)", lambda at: f"{at[1]}{now.get(int(at[2]), int(at[2]))}", own)
        return re.sub(
            r'("(?:Physic )?Stream [Ii]d": "?)(\d+)', lambda at: f"{at[1]}{now.get(int(at[2]), int(at[2]))}", own
        )

    found = event.sub(renamed, text)
    assert found != text
    return found


def moved_folder(text):
    """The model lies elsewhere; the tail of its path is the same."""
    return text.replace("/workspace/vit/", "/home/somebody/checkouts/vit/")


def another_run(text):
    """All of it together."""
    for edit in (later, renumbered, other_communicators, other_streams, moved_folder):
        text = edit(text)
    return text


def told(found):
    """The report without paths, names of lanes and of slices."""
    report = msgspec.to_builtins(typed(found))
    for side in ("base", "new"):
        report[side]["source"]["path"] = ""
    for finding in report["findings"]:
        for place in finding["evidence"]:
            place["lane"] = place["name"] = ""
        finding["title"] = re.sub(r"/\S+/|Group \d+", "", finding["title"])
    for line in report["lines"]:
        line["file"] = (line["file"] or "").rpartition("/")[2]
    for owner in report["owners"]:
        owner["name"] = re.sub(r"(thread|Stream|Group) \d+", "", owner["name"])
        if owner["where"] is not None:
            owner["where"]["file"] = owner["where"]["file"].rpartition("/")[2]
    for known in report["profile_findings"]:
        known["title"] = re.sub(r"/\S+/", "", known["title"])
    return json.loads(json.dumps(report))


def test_the_answer_is_the_same():
    changed = replace(_HOST, trouble=Trouble(metric_reads=2), seed=5)
    usual = told(compared(profile(_HOST), profile(changed)))
    assert told(compared(profile(_HOST), profile(changed, another_run))) == usual


def test_a_job_and_itself_renumbered():
    found = compared(profile(_HOST), profile(_HOST, another_run))
    assert found.step.delta == 0
    assert [part.exact for part in found.parts] == [0] * len(found.parts)
    assert [owner.exact for owner in found.owners] == [0] * len(found.owners)
    assert found.operations_matched == 1.0
    assert not typed(found).findings
