"""What a profile says: reports, comparisons and pictures; each is printed as text and shown by a notebook."""

from __future__ import annotations

from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_tui.api.errors import told

if TYPE_CHECKING:
    from npu_tui.compare.comparison import Comparison as Compared
    from npu_tui.profile.profile import Profile
    from npu_tui.report.compared.schema import Compared as ComparedReport
    from npu_tui.report.schema import Report as Said


class Report:
    """All that is said about a profile, or a range or step of it; printed as text, shown as a page in a notebook."""

    def __init__(self, part: Profile) -> None:
        from npu_tui.report.report import report

        self._part = part
        self.data: Said = report(part)
        """The report, schema 1: a struct with the fields of ``npu-tui report --format json``."""

    @property
    def verdict(self) -> list[str]:
        """What is wrong, in lines."""
        return self.data.verdict

    def to_dict(self) -> dict[str, Any]:
        """What ``npu-tui report --format json`` prints, as an object."""
        return _object(self.data)

    def json(self) -> bytes:
        """What ``npu-tui report --format json`` prints."""
        from npu_tui.report.pages.json_report import json_report

        return json_report(self.data)

    def text(self) -> str:
        """The report as text."""
        return self._written("text")

    def markdown(self) -> str:
        """The report as Markdown."""
        return self._written("markdown")

    def html(self) -> str:
        """The report as one HTML page that loads nothing."""
        with told():
            return self._written("html")

    def _written(self, form: str) -> str:
        from npu_tui.output.formats import written
        from npu_tui.output.report_document import report_document

        return written(report_document(self.data, self._part if form == "html" else None), form)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _framed(self.html())


class Comparison:
    """A profile against a base; printed as text, shown as a page with both timelines in a notebook."""

    def __init__(self, compared: Compared) -> None:
        from npu_tui.report.compared.build import compared as said

        self._compared = compared
        self.data: ComparedReport = said(compared)
        """The comparison: a struct with the fields of ``npu-tui compare --format json``."""

    @property
    def verdict(self) -> str:
        """What became of the step: slower, faster, same, unsure or incomparable."""
        return self.data.step.verdict

    def to_dict(self) -> dict[str, Any]:
        """What ``npu-tui compare --format json`` prints, as an object."""
        return _object(self.data)

    def text(self) -> str:
        """The comparison as text."""
        from npu_tui.output.compare_document import compare_document
        from npu_tui.output.text import text

        return text(compare_document(self.data))

    def html(self) -> str:
        """The comparison as one HTML page that loads nothing."""
        from npu_tui.compare.picture import Picture
        from npu_tui.output.compare_document import compare_document
        from npu_tui.output.html import html

        with told():
            return html(compare_document(self.data, Picture(self._compared)))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _framed(self.html())


class Timeline:
    """The lanes of a profile as a picture; a notebook shows it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg
        """The picture, a whole SVG document."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture to ``path``. Raises ``OSError``."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f'<div style="overflow-x: auto">{self.svg}</div>'


def _object(data: Any) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(data)
    return found


def _framed(page: str) -> str:
    """A whole page inside that of a notebook, which neither can style the other."""
    style = "width: 100%; height: 640px; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page)}"></iframe>'
