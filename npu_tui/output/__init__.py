"""Results for people and programs: documents with one writer per format, JSON, pictures."""

from __future__ import annotations
