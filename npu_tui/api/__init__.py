"""The Python API: profiles and jobs in a notebook, a script or another program.

``npu_tui`` shows what stands here: ``open``, ``open_job``, ``Profile``, ``Job`` and what they give. Nothing of the
screen is imported, and nothing heavy before a profile is opened. Tables and their columns, types and units are those of
``npu_tui.tables.schema``; they are stable under ``schema_version`` 1: columns may be added, none is renamed.
"""

from __future__ import annotations

from npu_tui.api.errors import Error
from npu_tui.api.job import Job, open_job
from npu_tui.api.profile import Profile, open
from npu_tui.api.results import Comparison, Report, Timeline

__all__ = ["SCHEMA_VERSION", "Comparison", "Error", "Job", "Profile", "Report", "Timeline", "open", "open_job"]

SCHEMA_VERSION = 1
"""Of tables and of ``Report.data``."""
