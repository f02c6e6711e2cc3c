"""The dump of a captured ACLGraph: the tasks of every stream in their order, without times of a device."""

from __future__ import annotations

from npu_tui.subjects.declaration import Subject

SUBJECT = Subject(id="graph_dump", is_alone=True, ways="")
