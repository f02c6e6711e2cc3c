"""Findings as the report has them, for what renders and gates them."""

from __future__ import annotations

from typing import Any


def finding(id: str, severity: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": id,
        "class": "dispatch",
        "severity": severity,
        "title": f"title of {id}",
        "detail": f"detail of {id}",
        "evidence": [],
        "advice": [],
        "gain_us": None,
        "gain_after": 0,
        "per": "step",
        "count": 3,
        "step_after_us": None,
        "gain_alone_us": None,
        "whatif": None,
        "part_of": None,
        "steps": [],
        "hidden": False,
        "confidence": "high",
        "code_lines": [],
        "sources": [],
    }
    return row | values


def proven(text: str = "Add_7") -> dict[str, Any]:
    """A finding with everything a finding may have, with ``text`` wherever a name of the trace may stand."""
    place = {"start_us": 1000.0, "end_us": 2500.0, "lane": text, "name": text, "note": f"seen {text}"}
    return finding(
        "DISPATCH.FREE", "high", title=f"late {text}", detail=f"because {text}", evidence=[place] * 7,
        advice=[f"set {text}=2", "then that"], gain_us=1234.5, sources=[f"A {text}", "B"],
    )  # fmt: skip
