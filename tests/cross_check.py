"""Prints, for every profile named, how many rows of the profiler's own files our figures reproduce.

python tests/cross_check.py [PROFILE...]

Without a profile all of the folder that NPU_TUI_TRACES names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from npu_tui.load.load import opening_of
from npu_tui.profile.checks import checks_of
from npu_tui.profile.profile import Profile


def main(paths: list[str]) -> int:
    """Print a line per file; the exit code says whether anything differs, or nothing was compared."""
    if not paths and (root := os.environ.get("NPU_TUI_TRACES")):
        paths = [str(output.parent) for output in sorted(Path(root).rglob("ASCEND_PROFILER_OUTPUT"))]
    differing = rows = 0
    for path in paths:
        opening = opening_of(path, False)
        profile = Profile(opening.trace(), opening.source)
        print(path)
        for check in checks_of(profile):
            differing += check.differing
            rows += check.rows
            line = f"  {check.file:<22} {check.rows:>6} rows {check.matched:>6} matched {check.compared:>6} figures"
            print(f"{line} {check.differing:>4} rows differ {check.ours_only:>4} ours only")
            for each in check.differences[:3]:
                print(f"    {' '.join(each.key)} {each.name}: ours {each.ours}, file {each.theirs}")
    print(f"{rows} rows compared, {differing} differ")
    return 1 if differing or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
