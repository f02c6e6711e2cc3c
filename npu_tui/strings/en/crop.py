"""The texts of ``npu-tui crop``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "crop.description": "Write a smaller trace_view.json that MindStudio Insight, Perfetto and npu-tui open.",
    "crop.epilog": "Slices that touch the range are kept whole, with the slices that launched them and their links; events stay byte for byte as they were, metadata included. Files beside the trace are not copied. A database has no such events.",
    "crop.output": "where to write, a name that ends with .json or .json.gz",
    "crop.lanes": "only lanes or layers with this in their name, such as Stream or Hardware; may be given more than once",
    "crop.slices": "only slices with this in their name, and what launched them; may be given more than once",
    "crop.clip": "cut slices at the edges of the range, and keep nothing outside of it",
    "crop.bad_output": "-o needs a name that ends with .json or .json.gz",
    "crop.no_text": "{path} holds no slices to crop",
    "crop.database": "{path} is a database, which has no JSON events to crop; export trace_view.json with export_type text and crop that",
    "crop.no_lane": "no lane or layer has {name} in its name; the layers are {names}",
    "crop.nothing": "no slice is left; use a longer range, or other names",
    "crop.done": "{path}: {slices} of {all:slice|slices}, {links:count} of {all_links:link|links}, {events:event|events}, {size} MB",
}
