"""One base for every time of a service: a request or a token for what is saved; each sentence says of what it is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from measured import session_of
from served import of_services, served, shortened, written

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures"))

from service_causes import TROUBLES as WHOLE
from service_writer import latencies

from npu_tui.load.load import load
from npu_tui.output.envelope import json_bytes
from npu_tui.output.report import report
from npu_tui.output.report_document import report_document
from npu_tui.output.statement import written_document
from npu_tui.strings import LANGUAGES, say, speaking, words
from npu_tui.tui.session import NO_HITS
from npu_tui.tui.tabs.findings import findings
from npu_tui.tui.tabs.table import Context, TabTable

pytestmark = of_services

TROUBLES = {name: shortened(trouble, 80) for name, trouble in WHOLE.items()}

_TIME = re.compile(r"\d (?:ns|µs|ms|s)\b")
_OF = {"en": r"\ba |\beach |\bper |median|longest|takes|lost", "zh": r"每|一步|该"}
NAMES = "kv", "queue", "capture", "rank_slow", "transfer_later", "late_worker"
FORMS = "text", "markdown", "html"


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_time_of_a_service_says_its_base(name: str, tmp_path: Path) -> None:
    trace = load(written(TROUBLES[name].service, tmp_path))
    session = session_of(trace)
    (profile,) = session.profiles
    told = report(profile)
    rows = json.loads(json_bytes(told))["findings"]
    real = {metric: max(values) for metric, values in latencies(served(TROUBLES[name].service).requests).items()}
    assert rows
    for one in rows:
        assert one["per"] in ("request", "token")
        most = real["ttft" if one["per"] == "request" else "tpot"]
        assert (one["gain_us"] or 0) * 1000 <= most, "no request and no token gains more than it took"
    for language in LANGUAGES:
        with speaking(language):
            for finding in profile.findings.findings:
                title = words(finding.title)
                assert not _TIME.search(title) or re.search(_OF[language], title), title
                for place in finding.evidence:
                    assert re.search(r"request|step|请求|步", words(place.note)), words(place.note)
            for form in FORMS:
                page = written_document(report_document(told, profile), form, 500)
                for one in rows:
                    assert not one["gain_us"] or say(f"finding.unit.{one['per']}") in page
    session.learn(0, profile.findings)
    content = findings(Context(session, None, None, None, "HostToDevice", NO_HITS, 0))
    assert isinstance(content, TabTable)
    units = {finding.unit for finding in profile.findings.findings if finding.gain_ns}
    headings = " ".join(content.headings)
    shown = " ".join(str(cell) for row in content.rows for cell in row.cells)
    for unit in units:
        assert say(f"finding.unit.{unit}") in headings + shown
