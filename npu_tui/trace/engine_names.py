"""What inference engines call their steps: vLLM, SGLang, ATOM, xDiT; kind, requests and tokens of one step.

The names decide and never the category: torch_npu writes every ``record_function`` as ``cpu_op``.
Sources: vllm v1/worker/gpu_worker.py, sglang model_executor/step_span_utils.py, TraceLens annotation_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from npu_tui.trace.text import decimal_number


class EngineName(Struct, frozen=True):
    """What the name of a step tells, None where it does not.

    ``kind`` is ``prefill``, ``decode``, ``mixed``, ``dummy`` (no request), ``capture``, ``diffusion`` or a mode of
    SGLang as written, such as ``TARGET_VERIFY``. Of all scheduled ``tokens``, ``context_tokens`` are of prompts;
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
        """The least power of two that its tokens, else its requests, do not exceed; None where neither is told."""
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
    """What ``name`` tells of a step of an inference engine; None if it is no such name."""
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
    """The phase that the range ``name`` of vLLM, vLLM-Ascend or vllm-omni is; None if it is none."""
    match = _PHASE.fullmatch(name) if len(name) <= _LONGEST else None
    return None if match is None else match.lastgroup
