"""The texts about times in which a device was free, and of the tables of the host."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "idle.for": "idle for {length}",
    "idle.why": "why",
    "idle.next": "next",
    "idle.before": "before",
    "idle.longest": "longest",
    "idle.host": "the host was late: the next launch came after {late} ({share})",
    "idle.both": "the host was late by {late} ({share}); then the device took {side} to start",
    "idle.device": "device side: the next task was already launched",
    "idle.unlinked": "no link shows which launch ended it",
    "idle.sums": "idle for {length} ({share}) in {count:bubble|bubbles}: host late {late}, device side {side}",
    "idle.meanwhile": "meanwhile on the host",
    "idle.silent": "nothing recorded",
    "idle.none": "No device is idle here.",
    "bubbles.note": "{count:bubble|bubbles}, {total} idle, {late} of it host late",
    "bubbles.cut": "the longest {shown:count} of {count:count}",
    "bubbles.walk": "{press[bubble_next]} {press[bubble_previous]} walk them",
    "bubbles.name": "Bubbles",
    "syncs.name": "Syncs",
    "syncs.note": (
        "{count:sync|syncs} block the host for {total}   device idle {idle} meanwhile, {after} until the next launch"
    ),
    "syncs.none": "The host never waits for the device here.",
    "calls.name": "Calls",
    "calls.note": "{count:CANN call|CANN calls}, {total}",
    "calls.none": "No CANN calls here: Level0 records none.",
    "hosts.name": "Host",
    "hosts.note": "{count:operation|operations}, {own} of host self time",
    "hosts.none": "No framework operations here.",
    "lines.views": "{press[bubbles]} bubbles   {press[syncs]} syncs   {press[calls]} calls   {press[host_ops]} operations",
    "command.bubbles": "bubbles by length: who was late, what came next",
    "command.syncs": "host syncs and what they cost",
    "command.calls": "CANN calls by time",
    "command.host_ops": "operations: host and device time, self and total",
}
