"""The texts of ``npu-tui whatif`` and of its prompt."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "whatif.description": "replay the run with something changed: how long the step would take",
    "whatif.epilog": (
        "CHANGE is one of: 'line main.py:354 x0', 'kernel MatMulV2 x0.5', 'op aten::add x0', 'rank 5 in time', 'ranks in time', "
        "'no .item()', 'no sync'. x0 takes all of its time away, x0.5 half of it. Several changes apply one after another."
    ),
    "whatif.changes": "what to change, such as 'rank 5 in time'; without any: what would gain something",
    "whatif.format": "text (the default) or json",
    "whatif.unknown": "{text} is not a change; write 'line main.py:354 x0', 'kernel MatMulV2 x0.5', 'op aten::add x0', 'rank 5 in time' or 'no .item()'",
    "whatif.nothing": "nothing in this run matches {text}",
    "whatif.no_model": "this run cannot be replayed: no launch in the file leads to the device",
    "whatif.not_close": "this run cannot be replayed: the model misses its length by {error:share}",
    "whatif.replayed": "replayed {replayed:time} of {recorded:time} ({error:share} off), {steps:step|steps}",
    "whatif.head": "step {before:time} → {after:time}: {gain:time} shorter ({share:share})",
    "whatif.head.longer": "step {before:time} → {after:time}: {gain:time} longer ({share:share})",
    "whatif.head.same": "step {before:time}: nothing gained; something else takes as long",
    "whatif.column.change": "change",
    "whatif.column.matches": "matches",
    "whatif.column.alone": "alone",
    "whatif.column.gain": "in this order",
    "whatif.no_gain": "nothing",
    "whatif.column.after": "step after",
    "whatif.recorded": "recorded",
    "whatif.predicted": "predicted",
    "whatif.scale": "busy over {length:time}, one row as recorded, one as predicted",
    "whatif.ghost": "predicted",
    "whatif.remedies": "what would shorten the step, each change by itself",
    "whatif.no_remedies": "no change of a line, a wait, a rank or a kernel shortens the step",
    "whatif.prompt": "what if: ",
    "whatif.ask": "What if? line FILE:LINE x0, kernel NAME x0.5, rank N in time, no .item(); nothing: what would gain",
}
