"""Every surface says the same of a profile, and no sentence claims more than its figures.

    python tests/claims.py                  # fixtures, situations, real profiles in NPU_TUI_TRACES
    python tests/claims.py PATH ...         # these profiles and traces, whole and in quarters

prints what contradicts itself, by profile; the exit code is 1 if anything does.
"""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "rules"), str(ROOT / "fixtures")]

from npu_tui.analysis.device import Window  # noqa: E402 - its folder is no package
from npu_tui.output.report import report  # noqa: E402
from npu_tui.output.report_document import finding_block, report_document  # noqa: E402
from npu_tui.output.report_schema import Report  # noqa: E402
from npu_tui.output.statement import written_document  # noqa: E402
from npu_tui.output.text import ALL  # noqa: E402
from npu_tui.output.whatif import whatif  # noqa: E402
from npu_tui.profile.parts import WHOLE_TRACE, Selection  # noqa: E402
from npu_tui.profile.profile import Profile  # noqa: E402
from npu_tui.rules.ladder import is_work  # noqa: E402
from npu_tui.rules.model import MUCH_LOST  # noqa: E402
from npu_tui.strings import say  # noqa: E402

UNITS = {"step", "engine_step", "token", "iteration", "repetition", "run", "range"}
NO_BOTTLENECK = say("finding.verdict.healthy", compute=0, each="", free=0).partition(":")[0]
IDLE = say("finding.outlook.idle")
_ROUNDING_US = 0.01
_ASKED = 4
"""Owners of a path that what-if is asked for."""


def contradictions(part: Profile, said: Report | None = None) -> list[str]:
    """What contradicts itself in what is said of ``part``, in a line each; ``said`` is its report, if there is one."""
    said = report(part) if said is None else said
    return [*_sentences(part, said), *_figures(part, said), *_paths(part, said), *_surfaces(said)]


def _sentences(part: Profile, said: Report) -> Iterator[str]:
    """The verdict and severities against the figures."""
    lost = [max(facts.sums.free, facts.sums.not_overlapped) / facts.total for facts in part.facts if facts.total]
    if lost and min(lost) > MUCH_LOST and any(NO_BOTTLENECK in line for line in said.verdict):
        yield f"no bottleneck, and {min(lost):.0%} are lost: {said.verdict}"
    leaders = [finding.id for finding in part.findings.leaders]
    if leaders != [finding.id for finding in said.findings[: len(leaders)]]:
        yield f"the verdict tells {leaders}, the list begins otherwise"
    if not leaders and any(row.gain_us and row.step_after_us is not None for row in said.findings):
        yield "a finding gains and the verdict does not tell it"
    for finding in said.findings:
        if finding.severity == "high" and finding.gain_us == 0:
            yield f"{finding.id} is high and gains nothing"
        if finding.gain_us and IDLE in finding.detail:
            yield f"{finding.id} gains {finding.gain_us} and saves nothing"


def _figures(part: Profile, said: Report) -> Iterator[str]:
    """Gains against each other, and against what-if."""
    by_id = {finding.id: finding for finding in said.findings}
    steps = {step.number for facts in part.facts for step in facts.inputs.steps}
    most = max((facts.step_ns for facts in part.facts), default=0) / 1000
    for finding in said.findings:
        if finding.per not in UNITS or finding.count < 1:
            yield f"{finding.id} gains per {finding.per}, of which there are {finding.count}"
        if finding.per == "range" and (finding.gain_us or 0) > most + _ROUNDING_US:
            yield f"{finding.id} gains {finding.gain_us} us of a range of {most} us"
        if finding.part_of is not None and finding.part_of not in by_id:
            yield f"{finding.id} is a part of {finding.part_of}, which is not said"
        if not steps.issuperset(finding.steps):
            yield f"{finding.id} shows in steps that are not there: {finding.steps}"
    if part is not part.whole or not said.findings or len(part.devices) > 1:
        return
    yield from _replayed(part, said)
    late = by_id.get("COMM.STRAGGLER")
    if late is not None and late.gain_us and late.whatif:
        in_time = whatif(part, ["ranks in time"])
        if late.gain_us > 1.01 * in_time.gain_us:
            yield f"late ranks gain {late.gain_us} us, by what-if {in_time.gain_us} us per {in_time.per}"
        if in_time.gain_us > in_time.step_us:
            yield f"{in_time.per} of {in_time.step_us} us gains {in_time.gain_us} us"


def _replayed(part: Profile, said: Report) -> Iterator[str]:
    """What findings gain against the answers of what-if to their remedies: alone, and in the order of work."""
    asked = [finding for finding in said.findings if finding.whatif]
    if not asked:
        return
    ladder = [finding for finding in asked if finding.part_of is None and finding.step_after_us is not None]
    answers = [(whatif(part, [finding.whatif]), finding) for finding in asked]
    for answer, finding in answers:
        if abs(answer.changes[0].alone_us - finding.gain_alone_us) > _ROUNDING_US:
            yield f"{finding.id} gains {finding.gain_alone_us} us alone, by what-if {answer.changes[0].alone_us} us"
        if (answer.per, answer.count) != (finding.per, finding.count):
            yield f"what-if: {answer.count} {answer.per}; {finding.id}: {finding.count} {finding.per}"
    rows = whatif(part, [finding.whatif for finding in ladder]).changes if ladder else ()
    for row, finding in zip(rows, ladder, strict=True):
        if max(abs(row.gain_us - finding.gain_us), abs(row.step_us - finding.step_after_us)) > _ROUNDING_US:
            figures = f"{finding.gain_us} us to {finding.step_after_us} us"
            yield f"{finding.id} gains {figures} in its place, by what-if {row.gain_us} us to {row.step_us} us"


def _paths(part: Profile, said: Report) -> Iterator[str]:
    """The owners of critical paths against their sum, and what they gain against what-if."""
    for path in said.critical_paths:
        total = sum(row.on_path_us for row in path.owners)
        if path.told and abs(total - (path.length_us or 0)) > _ROUNDING_US:
            yield f"the owners of a path of {path.length_us} us sum to {total} us"
        if path.told == (path.reason is not None):
            yield f"a path is told: {path.told}, because {path.reason}"
    first = next((path for path in said.critical_paths if path.told), None)
    if part is not part.whole or first is None:
        return
    for row in [row for row in first.owners if row.gain_us is not None][:_ASKED]:
        (found,) = whatif(part, [f"owner {row.number}"]).changes
        if abs(max(found.alone_us, 0) - row.gain_us) > _ROUNDING_US:
            yield f"{row.title} gains {row.gain_us} us, by what-if {found.alone_us} us"


def _surfaces(said: Report) -> Iterator[str]:
    """The verdict and every finding in text, Markdown and HTML."""
    document = report_document(said)
    pages = {form: _plain(written_document(document, form, ALL)) for form in ("text", "markdown")}
    pages["html"] = _plain(html.unescape(re.sub(r"<[^>\n]*>", "", written_document(document, "html", ALL))))
    for form, page in pages.items():
        for line in said.verdict:
            if _plain(line) not in page:
                yield f"{form} lacks {line}"
        for number, finding in enumerate(said.findings, 1):
            block = finding_block(number, finding)
            words = [block.id, block.head, block.detail, block.gain] if is_work(finding) else [block.id, block.head]
            yield from (f"{form}: {finding.id} lacks {word}" for word in words if _plain(word) not in page)


def _plain(page: str) -> str:
    """The letters and digits of ``page``: formats break lines and mark words."""
    return re.sub(r"[\W_]+", "", page)


def parts(profile: Profile) -> Iterator[tuple[str, Profile]]:
    """A profile and its quarters."""
    yield "", profile.part(WHOLE_TRACE)  # a crop is judged as its range
    end = profile.trace.end
    for k in range(4):
        yield f" quarter {k + 1}", profile.part(Selection(Window(k * end // 4, (k + 1) * end // 4)))


def _profiles(paths: list[str]) -> Iterator[tuple[str, Profile]]:
    from measured import profile_at

    from npu_tui.load.errors import InputError

    for path in paths:
        try:
            profile = profile_at(path)
        except InputError as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        yield from ((f"{path}{name}", part) for name, part in parts(profile))


def _found(folder: Path) -> list[str]:
    """Folders of profiles below ``folder``."""
    return sorted({str(path.parent.parent) for path in folder.rglob("ASCEND_PROFILER_OUTPUT/*") if path.is_file()})


def _situations() -> Iterator[tuple[str, Profile]]:
    from causes import ALL as CAUSES
    from jobs import measured

    for name, cause in CAUSES.items():
        yield name, measured(cause.job)
        yield f"{name}, remedied", measured(cause.remedy(cause.job))


def main(paths: list[str]) -> int:
    """Print what contradicts itself in ``paths``, by default in all there is."""
    failed = 0
    folders = [Path(ROOT / "fixtures"), *([Path(folder)] if (folder := os.environ.get("NPU_TUI_TRACES")) else [])]
    every = paths or [path for folder in folders for path in _found(folder)]
    for name, part in (*_profiles(every), *([] if paths else _situations())):
        for line in contradictions(part):
            failed += 1
            print(f"{name}: {line}")
    print(f"{failed} contradictions")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
