"""What names say: the class of a slice (its colour and texture), roles of lanes, frames of Python, steps of engines.

The name of a step of an inference engine (vLLM, SGLang, ATOM, xDiT) has kind, requests and tokens. It decides and never
the category: torch_npu writes every ``record_function`` as ``cpu_op``. Sources: vllm v1/worker/gpu_worker.py, sglang
model_executor/step_span_utils.py, TraceLens annotation_utils.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.kineto import ANNOTATION, COLLECTIVE, is_collective
from npu_tui.trace.model import FORWARD_BACKWARD, HOST_TO_DEVICE, TASK_QUEUE, Lane, LayerKind, RoleKind, Trace
from npu_tui.trace.text import decimal_number


class EngineName(Struct, frozen=True):
    """What the name of a step says; a field is None where it says nothing of it.

    ``kind`` is ``prefill``, ``decode``, ``mixed``, ``dummy`` (no request), ``capture``, ``diffusion`` or a mode of
    SGLang as written, such as ``TARGET_VERIFY``. Of all scheduled ``tokens``, ``context_tokens`` belong to prompts;
    ``kv_tokens`` are the keys and values that attention reads, with those computed earlier. ``padded`` is the size that
    a batch was filled up to. A name that ``is_mode`` gives the mode of a step, also within another name.
    """

    kind: str
    requests: int | None = None
    tokens: int | None = None
    context_tokens: int | None = None
    kv_tokens: int | None = None
    padded: int | None = None
    is_mode: bool = False

    @property
    def bucket(self) -> int | None:
        """The least power of two that its tokens, else its requests, do not exceed; None where neither is known."""
        size = self.requests if self.tokens is None else self.tokens
        return None if size is None else 1 << max(size - 1, 0).bit_length()


_N = r"(\d{1,15})"
_SUMS = rf"sq{_N}sk{_N}sqsq\d+sqsk\d+"
_MODES = {"EXTEND": "prefill", "DECODE": "decode", "MIXED": "mixed", "IDLE": "dummy"}
_PAIR = re.compile(r"(\w+)=(\d{1,15}(?:/\d{1,15})?|\[[^\]]*\])")
_NUMBER = re.compile(r"\d{1,15}")


def _step_kind(context: int, generation: int) -> str:
    """The kind of a step with so many requests in either phase."""
    if context and generation:
        return "mixed"
    return "prefill" if context else "decode" if generation else "dummy"


def _counted_name(match: re.Match[str]) -> EngineName:
    new, running = map(int, match.groups())
    return EngineName(_step_kind(new, running), new + running)


def _scheduled(match: re.Match[str]) -> EngineName:
    context, context_tokens, generation, generated = map(int, match.groups())
    return EngineName(_step_kind(context, generation), context + generation, context_tokens + generated, context_tokens)


def _detailed(match: re.Match[str]) -> EngineName:
    tokens, context, context_tokens, context_kv, generation, _, generation_kv = map(int, match.groups())
    kind = _step_kind(context, generation)
    return EngineName(kind, context + generation, tokens, context_tokens, context_kv + generation_kv)


def _captured(match: re.Match[str]) -> EngineName:
    # vLLM counts padded tokens, SGLang requests.
    size = int(match[1])
    of_tokens = match[2] in ("FULL", "PIECEWISE")
    return EngineName("capture", None if of_tokens else size, size if of_tokens else None)


def _named_values(text: str) -> dict[str, str]:
    return dict(_PAIR.findall(text))


def _spanned_name(match: re.Match[str]) -> EngineName:
    values = {key: one for key, value in _named_values(match[2]).items() if (one := decimal_number(value)) is not None}
    kind, requests = _MODES.get(match[1], match[1]), values.get("bs")
    context = values.get("c_sq")
    sums = [values[key] for key in ("c_sq", "g_sq") if key in values]
    tokens = values.get("toks", sum(sums) if sums else requests if kind == "decode" else None)
    if context is None:
        context = tokens if kind == "prefill" else 0 if kind == "decode" else None
    read = [values[key] for key in ("c_sk", "g_sk") if key in values]
    return EngineName(kind, requests, tokens, context, sum(read) if read else None, is_mode=True)


def _batch(match: re.Match[str]) -> EngineName | None:
    values = _named_values(match[2])
    if not {"bs", "tok"} & values.keys():
        return None
    real, _, padded = values.get("bs", "").partition("/")
    tokens, lengths = values.get("tok"), values.get("ctx", "")
    total = decimal_number(tokens)
    return EngineName(
        match[1],
        int(real) if real else None,
        total,
        (total if match[1] == "prefill" else 0),
        sum(map(int, _NUMBER.findall(lengths))) if lengths.startswith("[") else None,
        int(padded) if padded else None,
    )


_GRAMMAR: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], EngineName | None]], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (rf"execute_{_N}_context_{_N}\({_SUMS}\)_generation_{_N}\({_SUMS}\)", _detailed),
        (rf"execute_context_{_N}\({_N}\)_generation_{_N}\({_N}\)", _scheduled),
        (rf"execute_new_{_N}_cached_{_N}", _counted_name),
        (rf"capture_{_N}_([A-Z][A-Z0-9_]*)", _captured),
        (r"step\[([A-Z][A-Z0-9_]*)((?: \w+=\d{1,15})*)\]", _spanned_name),
        (r"(prefill|decode)\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]", _batch),
        (rf"execute_diffusion_{_N}_\d+x\d+", lambda match: EngineName("diffusion", int(match[1]))),
    )
)
_BEGINS = ("execute_", "step[", "capture_", "prefill[", "decode[")
_LONGEST = 10_000
"""A longer name is no step: names are untrusted."""


@lru_cache(1 << 16)
def engine_name(name: str) -> EngineName | None:
    """What ``name`` says of a step of an inference engine; None if it is no such name."""
    if not name.startswith(_BEGINS) or len(name) > _LONGEST:  # nearly every name stops here
        return None
    for pattern, read in _GRAMMAR:
        if match := pattern.fullmatch(name):
            return read(match)
    return None


def with_mode(outer: EngineName, inner: EngineName | None) -> EngineName:
    """``outer`` with the mode that a name within it gives: SGLang may write both."""
    if inner is None or not inner.is_mode:
        return outer
    known = {
        field: getattr(inner, field)
        for field in ("requests", "tokens", "context_tokens", "kv_tokens")
        if getattr(outer, field) is None
    }
    return replace(outer, kind=inner.kind, **known)


_PHASES = (
    ("schedule", r"schedule(?:: .*)?|gpu_model_runner: schedule"),
    ("prepare", r"prepare input|(?:gpu_model_runner: )?pre_?process"),
    ("forward", r"forward|gpu_model_runner: (?:forward|ModelForward)"),
    ("sample", r"sample_tokens?|(?:gpu_model_runner: )?sample"),
    ("draft", r"draft_tokens?|(?:gpu_model_runner: )?draft"),
    (
        "post_process",
        r"post[ _]?process|gpu_model_runner: (?:postprocess|bookkeep|\w*ModelRunnerOutput|set_async_\w+)|bookkeep"
        r"|llm_engine step: (?:process_outputs|abort_requests|record_stats)",
    ),
    ("update", r"async_state_update|gpu_model_runner: (?:update|sync)\w*"),
    ("eplb", r"EPLB .*|(?:gpu_model_runner: )?eplb"),
)
PHASES = tuple(name for name, _ in _PHASES)
"""The phases of the host in a step, in the order of its work."""
_PHASE = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PHASES), re.IGNORECASE)


def phase_of(name: str) -> str | None:
    """The phase that the range ``name`` of vLLM, vLLM-Ascend or vllm-omni is; None if it names no phase."""
    match = _PHASE.fullmatch(name) if len(name) <= _LONGEST else None
    return None if match is None else match.lastgroup


FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): ?(?P<function>.*)", re.DOTALL)
BETWEEN = ";\r\n"
"""What stands between the frames of a call stack, the innermost of which comes first."""

_LIBRARIES = frozenset({"site-packages", "dist-packages", "torch", "torch_npu"})
_STANDARD_LIBRARY = re.compile(r"(?:^|[/\\])lib[/\\]python3\.[^/\\]*[/\\]")
_MODULES = re.compile(
    r"(?:abc|argparse|asyncio|collections|concurrent|contextlib|copy|copyreg|dataclasses|enum|functools|heapq|importlib"
    r"|inspect|json|logging|multiprocessing|pickle|posixpath|queue|re|runpy|selectors|socket|subprocess|threading|typing"
    r"|types|uuid|warnings|weakref|_collections_abc|_weakrefset)(?:\.py)?"
)
"""Modules of the standard library, whose folder Kineto leaves out: ``enum.py(1266): __hash__``."""


# C++ and the interpreter, which ``stacks="all"`` records too, some of it without a file.
_NATIVE = re.compile(
    r"\?\?|\(\d+\): |$|[^(]*(?:\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|inl|so[.\d]*)|(?:^|/)python[.\d]*)(?:\(\d+\): |$)"
)


def is_native(frame: str) -> bool:
    """Whether ``frame``, or the file of one, is not of Python."""
    return _NATIVE.match(frame) is not None


def is_of_user(file: str) -> bool:
    """Whether ``file`` is neither of a library nor of Python itself."""
    # "<string>" is code that dataclasses and namedtuples generate.
    if file.startswith("<") or is_native(file) or _STANDARD_LIBRARY.search(file):
        return False
    parts = re.split(r"[/\\]", file)
    return _MODULES.fullmatch(parts[0]) is None and _LIBRARIES.isdisjoint(parts)


# Packages that training and inference import, with those that come with PyTorch: profilers cut their folder off as they
# do that of the program.
_PACKAGES = frozenset(
    """IPython accelerate aiohttp apex boto3 botocore cv2 datasets deepspeed diffusers einops filelock fsspec grpc
    h5py huggingface_hub jinja2 joblib lightning lmdb matplotlib mindspeed mlflow mpmath msgpack networkx nltk numba
    numpy omegaconf openpyxl orjson packaging pandas peft PIL portalocker psutil pyarrow pydantic pytorch_lightning
    ray redis regex requests safetensors scipy sentencepiece skimage sklearn sqlalchemy swanlab sympy tensorboard
    tensorboardX tiktoken timm tokenizers torchaudio torchdata torchvision tqdm transformers triton trl urllib3
    wandb yaml zmq""".split()  # noqa: SIM905 - a list of names reads better
)


def is_of_program(file: str) -> bool:
    """Whether ``file`` is the program's own: of the user, and of no module or well-known package by its first name."""
    first = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return is_of_user(file) and first not in _PACKAGES and first not in sys.stdlib_module_names


NO_STACK = "no stack"
"""Stands for the function that allocated memory, where no stack names it."""


OPERATION = "<operation>(0): "
"""Begins a frame that names an operation of PyTorch, of a writer that names these instead of lines."""


def function_of(stack: str) -> str:
    """The function of the innermost frame of Python in ``stack``, a frame a line, else of its innermost frame."""
    frames = stack.split("\n")
    return next((frame for frame in frames if not is_native(frame)), frames[0]).rpartition(": ")[2].rstrip(";")


class OpClass(IntEnum):
    """Operator classes in the order of the palette; the numbers are stored in parsed copies."""

    FRAME = 0
    OP = 1
    QUEUE = 2
    CANN = 3
    CUBE = 4
    VECTOR = 5
    COMMUNICATION = 6
    MEMORY = 7
    WAIT = 8
    OTHER = 9
    STEP = 10


_CUBE = re.compile(r"matmul|gemm|conv\d?d|flashattention|attentionscore|_bmm|_mm(?![a-z])", re.IGNORECASE)
_DEVICE_MEMORY = re.compile(
    r"memcpy|memset|sdma|transdata|tensormove|transpose|(?:^|_)cast\d*(?:_|$)|cast(?:aicore)?\d*$", re.IGNORECASE
)
_DEVICE_WAIT = re.compile(r"event[_ ]wait|notify[_ ]wait|placeholder|place_holder", re.IGNORECASE)
_DEVICE_SIGNAL = re.compile(r"event[_ ]record|notify[_ ]record|write[_ ]value|profiling_", re.IGNORECASE)
_HOST_WAIT = re.compile(r"synchronize|_local_scalar_dense", re.IGNORECASE)
_STEP_PREFIX = "ProfilerStep#"
_STEP = re.compile(_STEP_PREFIX + r"\d{1,18}")


def step_number(name: str) -> str | None:
    """The N of a ``ProfilerStep#N`` name as text, else None."""
    if not name.startswith(_STEP_PREFIX):  # cheaper than the pattern, and nearly every name stops here
        return None
    return name.removeprefix(_STEP_PREFIX) if _STEP.fullmatch(name) else None


def names_step(name: str) -> bool:
    """Whether ``name`` is that of a step, of the profiler or of an inference engine."""
    return step_number(name) is not None or engine_name(name) is not None


_REPEATED = re.compile(r"(?:\w+_)?(?:step|iteration|iter)[ _#:=-]*(\d{1,18})", re.IGNORECASE)
STEP_TRACE = "Step Trace"
"""How the lanes begin on which msprof shows the iterations of a static graph, such as ``Step Trace(Model ID:2)``."""


def repeated_number(name: str) -> str | None:
    """The N of the names that others give to their steps, such as ``Iteration 3`` or ``train_step 3``, else None."""
    match = _REPEATED.fullmatch(name)
    return None if match is None else match[1]


CLASS_OF_CATEGORY = {
    "enqueue": OpClass.QUEUE, "dequeue": OpClass.QUEUE, "queued": OpClass.WAIT, "prefill": OpClass.CUBE,
    "decode": OpClass.VECTOR, "mixed": OpClass.MEMORY, "dummy": OpClass.QUEUE, "running": OpClass.OP,
    "transfer": OpClass.COMMUNICATION,
}  # fmt: skip
"""Categories that decide alone on host layers: of the task queue, and of an inference service."""


def classify(kind: LayerKind, category: str, name: str) -> OpClass:
    """The class of the slices called ``name`` with ``category`` in a layer of ``kind``."""
    if category == "python_function":
        return OpClass.FRAME
    if kind == "python" or kind == "other":
        if category in CLASS_OF_CATEGORY:
            return CLASS_OF_CATEGORY[category]
        if names_step(name):
            return OpClass.STEP
        if _HOST_WAIT.search(name):
            return OpClass.WAIT
        return OpClass.OP if category == "cpu_op" else OpClass.OTHER
    if kind == "cann":
        return OpClass.WAIT if _HOST_WAIT.search(name) else OpClass.CANN
    if kind == "overlap":
        if name == "Free":
            return OpClass.WAIT
        return OpClass.CUBE if name == "Computing" else OpClass.COMMUNICATION
    if category == COLLECTIVE:
        return OpClass.COMMUNICATION
    if category == ANNOTATION:
        return OpClass.OTHER
    if _DEVICE_WAIT.search(name):
        return OpClass.WAIT
    if kind == "communication":
        return OpClass.MEMORY if name == "Memcpy" else OpClass.COMMUNICATION
    if _DEVICE_SIGNAL.search(name):
        return OpClass.OTHER
    if _DEVICE_MEMORY.search(name):
        return OpClass.MEMORY
    if name.startswith("Reduce_Inline") or is_collective(name):
        return OpClass.COMMUNICATION
    return OpClass.CUBE if _CUBE.search(name) else OpClass.VECTOR


_WORKER = re.compile(r"(?:Hccl|Communication)@")
_COLLECTIVE = re.compile(r"notify|sdma|rdma|reduce_inline|hcom|hccl|write[_ ]value", re.IGNORECASE)
_COPY = re.compile(r"memcpy", re.IGNORECASE)
_LOOKED_AT = 4096
"""How many slices of a lane, evenly spread, decide its role."""


def lane_roles(trace: Trace) -> list[RoleKind]:
    """The role of every lane of ``trace``; a parsed copy brings the roles along.

    A thread has one role in all layers. The main thread holds the steps, else most Python slices; the backward thread
    is the target of ``fwdbwd`` links, the task queue that of ``async_task_queue`` links. A worker runs only
    communication calls and launches nothing. A stream gets its role from what runs on it.
    """
    if trace.roles:
        return trace.roles
    # CANN lanes get the role of the Python thread with the same tid.
    hosts = _thread_roles(trace)
    launching = _ends(trace, HOST_TO_DEVICE, "source")
    launched = _ends(trace, HOST_TO_DEVICE, "target")
    roles: list[RoleKind] = []
    for lane in trace.lanes:
        kind = trace.layers[lane.layer].kind
        role: RoleKind = "plain"
        if lane.derived:
            pass
        elif kind in ("python", "cann", "other"):
            role = hosts.get(lane.tid, "plain")
            if role == "plain" and kind == "cann" and not launching[lane.index] and _is_worker(trace, lane):
                role = "worker"
        elif kind == "hardware":
            role = _stream(trace, lane, bool(launched[lane.index]), bool(launched.any()))
        roles.append(role)
    return roles


def _ends(trace: Trace, category: str, end: Literal["source", "target"]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """How many links of ``category`` begin or end on each lane."""
    links = trace.links
    lanes = (links.source_lane if end == "source" else links.target_lane)[trace.links_of(category)]
    return np.bincount(lanes[lanes >= 0], minlength=len(trace.lanes))


def _thread_roles(trace: Trace) -> dict[int, RoleKind]:
    """The roles of the threads of the process that runs Python."""
    python = [lane for lane in trace.lanes if trace.layers[lane.layer].kind == "python" and not lane.derived]
    if not python:
        return {}
    roles: dict[int, RoleKind] = {}
    queued, backward = _ends(trace, TASK_QUEUE, "target"), _ends(trace, FORWARD_BACKWARD, "target")
    for counts, role in ((queued, "queue"), (backward, "backward")):
        best = max(python, key=lambda lane: int(counts[lane.index]))
        if counts[best.index] and best.tid not in roles:
            roles[best.tid] = "queue" if role == "queue" else "backward"
    unnamed = [lane for lane in python if lane.tid not in roles]
    # The step slices, then the number of slices: a data loader thread may have more slices than the main thread.
    if unnamed:
        roles[
            max(unnamed, key=lambda lane: (_class_share(trace, lane, OpClass.STEP) > 0, lane.last - lane.first)).tid
        ] = "main"
    return roles


def _sampled_slices(lane: Lane) -> slice:
    return slice(lane.first, lane.last, max((lane.last - lane.first) // _LOOKED_AT, 1))


def _class_share(trace: Trace, lane: Lane, op_class: OpClass) -> float:
    classes = trace.slices.op_class[lane.first : lane.last]
    return float(np.count_nonzero(classes == op_class)) / max(len(classes), 1)


def _lane_names(trace: Trace, lane: Lane) -> list[str]:
    return [trace.names[code] for code in np.unique(trace.slices.name[_sampled_slices(lane)]).tolist()]


def _is_worker(trace: Trace, lane: Lane) -> bool:
    names = _lane_names(trace, lane)
    return bool(names) and all(_WORKER.match(name) for name in names)


def _stream(trace: Trace, lane: Lane, is_launched: bool, any_launched: bool) -> RoleKind:
    # Streams of communication also hold tasks that look like kernels, but no launch leads to them. A trace without
    # any launch link says nothing about that.
    classes = set(trace.slices.op_class[_sampled_slices(lane)].tolist())
    names = _lane_names(trace, lane)
    computes = bool(classes & {OpClass.CUBE, OpClass.VECTOR})
    if computes and (is_launched or not any_launched):
        return "compute"
    if any(_COLLECTIVE.search(name) for name in names):
        return "communication"
    if any(_COPY.search(name) for name in names):
        return "copy"
    return "compute" if computes else "plain"
