"""What the rules of findings read of the files beside a trace."""

from __future__ import annotations

from typing import Any

from npu_tui.ingest.companions.files import Companions
from npu_tui.rules.facts.beside import Beside


def beside_of(companions: Companions | None) -> Beside:
    """Settings and environment in ``companions``."""
    if companions is None:
        return Beside()
    settings: dict[str, object] = {}
    config = companions.profiler_info.get("config")
    for group in ("common_config", "experimental_config"):
        values = config.get(group) if isinstance(config, dict) else None
        settings.update(values if isinstance(values, dict) else {})
    return Beside(settings, _environment(companions), companions.ranks, groups_in(companions.metadata), companions.chip)


def groups_in(document: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of every group that ``document``, profiler_metadata.json, names; a malformed entry is left out."""
    values = document.get("parallel_group_info") if isinstance(document, dict) else None
    found = {}
    for name, group in values.items() if isinstance(values, dict) else ():
        ranks = group.get("global_ranks") if isinstance(group, dict) else None
        if isinstance(ranks, list) and ranks and all(type(rank) is int and rank >= 0 for rank in ranks):
            found[str(name)] = tuple(ranks)
    return found


def _environment(companions: Companions) -> dict[str, str] | None:
    """The variables that profiler_metadata.json records; None without them."""
    document: Any = companions.metadata
    values = document.get("ENV_VARIABLES") if isinstance(document, dict) else None
    if not isinstance(values, dict):
        return None
    return {str(name): str(value) for name, value in values.items()}
