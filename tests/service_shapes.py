"""Services in shapes that the causes of the fixtures do not have: bursts, tenants, extreme lengths, unequal ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service import MS, US, Service, Tenant
from service_causes import Trouble


def _with(finding: str | None, base: Service, **knobs: Any) -> Trouble:
    return Trouble(finding, replace(base, **knobs), base if finding else None)


_BURSTS = Service(burst=8, gap=220 * MS)
_TENANTS = Service(tenants=(Tenant(6, (50, 200), (60, 200)), Tenant(2, (900, 1400), (20, 60))))
_LONG = Service(gap=900 * MS, requests=120, tenants=(Tenant(1, (6000, 12000), (30, 90)),), blocks=8000)
_SHORT = Service(gap=60 * MS, requests=400, tenants=(Tenant(1, (200, 800), (2, 6)),))
_CHAT = Service(gap=300 * MS, requests=150, tenants=(Tenant(1, (20, 120), (200, 600)),))
_SERIAL = Service(chunked=False, budget=8192)
_UNEQUAL = Service(requests=400, gap=60 * MS, shares=(3, 2, 3, 3))
_PLACES = Service(requests=400, gap=45 * MS, max_seqs=24)
_LOCKSTEP = Service(requests=400, gap=80 * MS, shares=(1, 1, 1, 1), lockstep=True)

SHAPES: dict[str, Trouble] = {
    "bursts": _with(None, _BURSTS),
    "tenants": _with(None, _TENANTS),
    "long prompts": _with(None, _LONG),
    "short outputs": _with(None, _SHORT),
    "chat": _with(None, _CHAT),
    "prompts first": _with(None, _SERIAL),
    "unequal ranks": _with(None, _UNEQUAL),
    "lockstep": _with(None, _LOCKSTEP),
    "workers": _with(None, Service(workers=4)),
    "overlapped": _with(None, Service(overlapped=True)),
    "drafts": _with(None, Service(drafts=3)),
    "giant": Trouble("SERVICE.MIX", Service(giant=40_000, blocks=4000)),
    "bursts kv": _with("SERVICE.KV", _BURSTS, blocks=70),
    "kv a block more": _with("SERVICE.KV", Service(spare=1), blocks=64),
    "kv some kept": _with("SERVICE.KV", _BURSTS, blocks=100, kept=2),
    "stalls": _with("SERVICE.STALL", Service(), stall=900 * MS, stall_every=60),
    "one stall": _with("SERVICE.STALL", _BURSTS, stall=15_000 * MS, stall_every=700),
    "late output": _with("SERVICE.OUTPUT", _CHAT, stream=120 * MS),
    "small chunks": _with("SERVICE.CHUNKS", Service(budget=1024), budget=256),
    "tenants kv": _with("SERVICE.KV", _TENANTS, blocks=50),
    "chat queue": _with("SERVICE.QUEUE", _CHAT, max_seqs=14),
    "short queue": _with("SERVICE.QUEUE", _SHORT, max_seqs=2),
    "long kv": _with("SERVICE.KV", _LONG, blocks=110),
    "serial scheduler": _with("SERVICE.SCHEDULER", _SERIAL, schedule=9 * MS),
    "serial full": Trouble("SERVICE.QUEUE", replace(_SERIAL, gap=60 * MS, max_seqs=10)),
    "full rank": _with("SERVICE.RANK", replace(_PLACES, shares=(1, 1)), shares=(7, 1)),
    "chat sampling": _with("SERVICE.SAMPLING", _CHAT, sample=6 * MS, per_sample=300 * US),
    "short scheduler": _with("SERVICE.SCHEDULER", _SHORT, schedule=10 * MS),
    "bursts model": _with("SERVICE.MODEL", _BURSTS, slow_from=150, slow_percent=135),
    "chat model": _with("SERVICE.MODEL", _CHAT, slow_from=60, slow_percent=130),
    "unequal slow": _with("SERVICE.RANK", _UNEQUAL, speed=(100, 100, 100, 150)),
    "lockstep load": Trouble("SERVICE.RANK", replace(_LOCKSTEP, shares=(1, 1, 6, 1))),
    "long transfer": _with("SERVICE.TRANSFER", replace(_LONG, pull=1 * US), pull=60 * US),
    "full decode": _with("SERVICE.QUEUE", Service(pull=6 * US, gap=120 * MS), max_seqs=14),
    "drafts low": _with("SERVICE.DRAFTS", Service(), drafts=4, accepted=100),
    "workers bubble": _with("SERVICE.BUBBLE", Service(workers=2), output=9 * MS),
    "chat frontend": _with("SERVICE.FRONTEND", _CHAT, frontend=80 * MS),
}
"""Every one by name."""
