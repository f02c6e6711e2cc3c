"""Names of the steps of inference engines."""

from __future__ import annotations

import pytest

from npu_tui.trace.classes import EngineName, engine_name, phase_of, with_mode


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("execute_new_2_cached_5", ("mixed", 7, None, None, None)),
        ("execute_new_0_cached_5", ("decode", 5, None, None, None)),
        ("execute_context_3(900)_generation_0(0)", ("prefill", 3, 900, 900, None)),
        ("execute_context_0(0)_generation_0(0)", ("dummy", 0, 0, 0, None)),
        (
            "execute_40_context_1(sq8sk20sqsq64sqsk160)_generation_16(sq32sk900sqsq64sqsk1800)",
            ("mixed", 17, 40, 8, 920),
        ),
        ("capture_512_PIECEWISE", ("capture", None, 512, None, None)),
        ("capture_8_DECODE", ("capture", 8, None, None, None)),
        ("step[EXTEND bs=4 toks=4096]", ("prefill", 4, 4096, 4096, None)),
        ("step[DECODE bs=32]", ("decode", 32, 32, 0, None)),
        ("step[TARGET_VERIFY bs=4 g_sq=20 g_sk=999]", ("TARGET_VERIFY", 4, 20, None, 999)),
        ("step[DRAFT_EXTEND_V2 bs=4 toks=16]", ("DRAFT_EXTEND_V2", 4, 16, None, None)),
        ("step[MIXED bs=6 c=1 g=5 c_sq=100 c_sk=120 g_sq=5 g_sk=700]", ("mixed", 6, 105, 100, 820)),
        ("step[IDLE bs=0]", ("dummy", 0, None, None, None)),
        ("decode[bs=5/8 tok=5 ctx=[10, 20] d=1]", ("decode", 5, 5, 0, 30)),
        ("execute_diffusion_2_1024x768", ("diffusion", 2, None, None, None)),
    ],
)
def test_what_a_name_tells(name: str, told: tuple[object, ...]):
    known = engine_name(name)
    assert known is not None
    assert (known.kind, known.requests, known.tokens, known.context_tokens, known.kv_tokens) == told


@pytest.mark.parametrize("name", ["execute_model", "step[DECODE", "decode[0]", "ProfilerStep#3", "capture_8_"])
def test_other_names(name: str):
    assert engine_name(name) is None


def test_a_size_that_a_batch_is_padded_to_and_an_inner_mode():
    batch, outer, inner = map(engine_name, ("decode[bs=5/8]", "execute_new_0_cached_4", "step[TARGET_VERIFY bs=4]"))
    assert batch is not None
    assert batch.padded == 8
    assert outer is not None
    assert with_mode(outer, inner) == EngineName("TARGET_VERIFY", 4)


def test_phases_of_the_host():
    ranges = (
        "prepare input",
        "forward",
        "gpu_model_runner: bookkeep",
        "sample_token",
        "schedule: allocate_slots",
        "llm_engine step: process_outputs",
        "llm_engine step: get_output",
    )
    assert [*map(phase_of, ranges)] == [
        "prepare",
        "forward",
        "post_process",
        "sample",
        "schedule",
        "post_process",
        None,
    ]
