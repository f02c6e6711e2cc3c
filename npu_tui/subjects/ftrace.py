"""What the kernel did with threads and CPUs, opened by itself: a timeline that no rule reads."""

from __future__ import annotations

from npu_tui.subjects.declaration import Subject

SUBJECT = Subject(id="ftrace", is_alone=True, ways="")
