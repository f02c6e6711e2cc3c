"""What ``M`` events say about processes and threads."""

from __future__ import annotations

from msgspec import Struct

from npu_tui.ingest.json.decoding.events import Event, decode_args


class Metadata(Struct):
    """Names, labels and orders of processes, names and orders of threads.

    Packed pids of sort indexes above 31 run into those of other processes: the first name counts, a further one is kept
    in ``other_names``.
    """

    process_name: dict[int, str] = {}
    process_label: dict[int, str] = {}
    process_order: dict[int, int] = {}
    thread_name: dict[tuple[int, int], str] = {}
    thread_order: dict[tuple[int, int], int] = {}
    other_names: dict[int, str] = {}

    def add(self, event: Event) -> None:
        """Take in one ``M`` event; unknown ones and those without a value are ignored."""
        try:
            args = decode_args(bytes(event.args))
        except ValueError:
            return
        thread = (event.pid, event.tid)
        if event.name == "process_name":
            name = str(args.get("name", ""))
            if name and name != self.process_name.setdefault(event.pid, name):
                self.other_names[event.pid] = name
        elif event.name == "process_labels":
            self.process_label[event.pid] = str(args.get("labels", ""))
        elif event.name == "process_sort_index" and isinstance(args.get("sort_index"), int):
            self.process_order[event.pid] = args["sort_index"]
        elif event.name == "thread_name":
            self.thread_name[thread] = str(args.get("name", ""))
        elif event.name == "thread_sort_index" and isinstance(args.get("sort_index"), int):
            self.thread_order[thread] = args["sort_index"]
