"""The class of a slice follows from its layer, category and name."""

from __future__ import annotations

import pytest

from npu_tui.analysis.code_lines import CodeLine, program_line
from npu_tui.trace.classes import OpClass, classify, step_number
from npu_tui.trace.model import LayerKind


@pytest.mark.parametrize(
    ("kind", "category", "name", "expected"),
    [
        ("python", "python_function", "train.py(3): step", OpClass.FRAME),
        ("python", "cpu_op", "aten::add", OpClass.OP),
        ("python", "cpu_op", "ProfilerStep#12", OpClass.STEP),
        ("python", "cpu_op", "aten::_local_scalar_dense", OpClass.WAIT),
        ("python", "enqueue", "Enqueue", OpClass.QUEUE),
        ("python", "dequeue", "Dequeue@Add", OpClass.QUEUE),
        ("cann", "", "AscendCL@aclnnAdd", OpClass.CANN),
        ("cann", "", "AscendCL@aclrtSynchronizeStream", OpClass.WAIT),
        ("hardware", "", "aclnnMm_MatMulCommon_MatMulV2", OpClass.CUBE),
        ("hardware", "", "Conv2D1", OpClass.CUBE),
        ("hardware", "", "aclnnAdd_AddAiCore_Add", OpClass.VECTOR),
        ("hardware", "", "trans_TransData_0", OpClass.MEMORY),
        ("hardware", "", "aclnnCast_CastAiCore_Cast", OpClass.MEMORY),
        ("hardware", "", "MEMCPY_ASYNC", OpClass.MEMORY),
        ("hardware", "", "EVENT_WAIT", OpClass.WAIT),
        ("hardware", "", "EVENT_RECORD", OpClass.OTHER),
        ("communication", "", "hcom_allReduce__586_0_1", OpClass.COMMUNICATION),
        ("communication", "", "Notify_Wait", OpClass.WAIT),
        ("communication", "", "Memcpy", OpClass.MEMORY),
        ("overlap", "", "Free", OpClass.WAIT),
        ("overlap", "", "Computing", OpClass.CUBE),
        ("overlap", "", "Communication(Not Overlapped)", OpClass.COMMUNICATION),
    ],
)
def test_class(kind: LayerKind, category: str, name: str, expected: OpClass) -> None:
    assert classify(kind, category, name) is expected


def test_step_number() -> None:
    assert step_number("ProfilerStep#50") == "50"
    assert step_number("ProfilerStep#") is None
    assert step_number("my ProfilerStep#5") is None


def test_a_package_that_comes_with_pytorch_is_no_program() -> None:
    """Its folder is cut off: ``site-packages`` stands in no path."""
    lock = "filelock/_api.py(217): acquire"
    assert program_line(f"{lock};data/reader.py(40): read;train.py(9): main") == CodeLine("data/reader.py", 40, "read")
    assert program_line("locking/_api.py(217): acquire;train.py(9): main") == CodeLine(
        "locking/_api.py", 217, "acquire"
    )
