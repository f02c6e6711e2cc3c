"""Builds the libraries: ``python -m npu_tui.ingest.scanner.source.build [-o DIRECTORY] [--checked]``.

Numba makes the code of the entry points, LLVM a freestanding shared library for each machine: no symbol is asked of
anybody, no byte depends on the machine that builds. ``--checked`` makes the bounds-checked library of this machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PINNED = {"numba": "0.68.1", "llvmlite": "0.50.0", "ziglang": "0.17.1"}
"""With these versions the libraries come out byte for byte the same."""

TARGETS = {
    "x86_64_v2": ("x86_64-unknown-linux-gnu", "x86-64-v2", ["-m", "elf_x86_64"]),
    "x86_64_v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", ["-m", "elf_x86_64"]),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", ["-m", "aarch64linux", "-z", "max-page-size=65536"]),
}

HOST_FREE = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_OPT": "0",
    "NUMBA_LOOP_VECTORIZE": "0",
    "NUMBA_SLP_VECTORIZE": "0",
    "NUMBA_CACHE_DIR": "",
    "PYTHONHASHSEED": "0",
}
"""What must be set before Numba is imported, so that its code is the same everywhere."""


def entry_points() -> dict[str, tuple[Any, int]]:
    """The functions that the libraries offer, and of how many int64 arguments each is."""
    from npu_tui.ingest.scanner.source.ansi import ansi
    from npu_tui.ingest.scanner.source.bars import bars
    from npu_tui.ingest.scanner.source.cells import cells
    from npu_tui.ingest.scanner.source.chains import stack_marks
    from npu_tui.ingest.scanner.source.chosen import chosen
    from npu_tui.ingest.scanner.source.covered import covered
    from npu_tui.ingest.scanner.source.crossing import crossing
    from npu_tui.ingest.scanner.source.depth import first_fit
    from npu_tui.ingest.scanner.source.edges import contradicting, edge_order, edge_rows
    from npu_tui.ingest.scanner.source.elements import elements
    from npu_tui.ingest.scanner.source.ends import ascending_ends
    from npu_tui.ingest.scanner.source.held import held
    from npu_tui.ingest.scanner.source.leaves import leaves
    from npu_tui.ingest.scanner.source.nesting import nesting
    from npu_tui.ingest.scanner.source.pages import table_rows
    from npu_tui.ingest.scanner.source.passing import passing
    from npu_tui.ingest.scanner.source.scan import scan
    from npu_tui.ingest.scanner.source.tables import rehash

    return {
        "scan": (scan, 2),
        "rehash": (rehash, 2),
        "first_fit": (first_fit, 7),
        "elements": (elements, 5),
        "passing": (passing, 8),
        "table_rows": (table_rows, 11),
        "stack_marks": (stack_marks, 7),
        "cells": (cells, 2),
        "ansi": (ansi, 2),
        "bars": (bars, 2),
        "held": (held, 2),
        "crossing": (crossing, 5),
        "covered": (covered, 11),
        "chosen": (chosen, 3),
        "contradicting": (contradicting, 7),
        "edge_order": (edge_order, 9),
        "edge_rows": (edge_rows, 10),
        "nesting": (nesting, 4),
        "ascending_ends": (ascending_ends, 6),
        "leaves": (leaves, 11),
    }


def intermediate() -> str:
    """The code of all entry points for no machine in particular."""
    import llvmlite.binding as llvm
    from numba import types

    whole = None
    names = []
    for name, (function, count) in entry_points().items():
        function.compile((types.int64,) * count)
        made = function.overloads[function.signatures[0]]
        inner = made.fndesc.llvm_func_name
        names.append((name, inner, count))
        module = llvm.parse_assembly(made.library.get_llvm_str())
        for found in module.functions:
            if not found.is_declaration and found.name != inner:
                found.linkage = "linkonce_odr"
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    wrappers = []
    for name, inner, count in names:
        outer = ", ".join(f"i64 %a{k}" for k in range(count))
        wrappers.append(
            f'declare i32 @"{inner}"(ptr, ptr, {", ".join(["i64"] * count)})\n'
            f"define i64 @{name}({outer}) {{\n  %result = alloca i64\n  %error = alloca ptr\n"
            f"  store i64 0, ptr %result\n"
            f'  %status = call i32 @"{inner}"(ptr %result, ptr %error, {outer})\n'
            f"  %value = load i64, ptr %result\n  ret i64 %value\n}}\n"
        )
    assert whole is not None
    whole.link_in(llvm.parse_assembly("\n".join(wrappers)))
    entries = {name for name, _, _ in names}
    for found in whole.functions:
        if not found.is_declaration and found.name not in entries:
            found.linkage = "internal"
    for value in whole.global_variables:
        if not value.is_declaration:
            value.linkage = "internal"
    return _without_machine(str(whole))


def _without_machine(text: str) -> str:
    """``text`` without the attributes, names and layout of the machine it was made on."""
    text = re.sub(r'"target-cpu"="[^"]*"|"target-features"="[^"]*"|"tune-cpu"="[^"]*"', "", text)
    return re.sub(r"^(target (datalayout|triple)|source_filename|; ModuleID) ?=.*$", "", text, flags=re.MULTILINE)


def object_of(text: str, triple: str, cpu: str) -> bytes:
    """The object file of ``text`` for one machine."""
    import llvmlite.binding as llvm

    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{text}')
    module.name = "scanner"
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    first = builder.getModulePassManager()
    first.run(module, builder)
    module.verify()
    unknown = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    assert not unknown, f"the code asks for {unknown}"
    return machine.emit_object(module)


def linked(data: bytes, flags: list[str]) -> bytes:
    """A shared library of one object file."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "scanner.o"), Path(folder, "scanner.so")
        source.write_bytes(data)
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-nostdlib", *flags]
        command += ["--build-id=none", "--strip-all", "--hash-style=sysv", "-z", "relro", "-z", "noexecstack"]
        subprocess.run([*command, "-soname", "scanner.so", "-o", str(result), str(source)], check=True)
        return result.read_bytes()


def libraries(targets: dict[str, tuple[str, str, list[str]]]) -> dict[str, bytes]:
    """The libraries by target."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = intermediate()
    return {name: linked(object_of(text, triple, cpu), flags) for name, (triple, cpu, flags) in targets.items()}


def main() -> None:
    """Write the libraries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parents[1] / "library")
    parser.add_argument("--checked", action="store_true")
    options = parser.parse_args()
    wanted = HOST_FREE | ({"NUMBA_CACHE_DIR": ""} if not options.checked else {"NPU_TUI_CHECKED": "1"})
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], os.environ | wanted)
    options.output.mkdir(parents=True, exist_ok=True)
    machine = os.uname().machine
    targets = {name: one for name, one in TARGETS.items() if not options.checked or name.startswith(machine)}
    for name, data in libraries(targets).items():
        path = options.output / f"{name}.so"
        path.write_bytes(data)
        print(f"{path} {len(data)} bytes")


if __name__ == "__main__":
    main()
