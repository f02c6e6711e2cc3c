"""Public pages that rules show beside their advice: title and address.

A page of one rule alone may be given in the rule itself.
"""

from __future__ import annotations

Page = tuple[str, str]
"""Title and address of a public page."""

_HIASCEND = "https://www.hiascend.com/document/detail"
_PYTORCH = "https://pytorch.org/docs/stable"

TASK_QUEUE = ("TASK_QUEUE_ENABLE", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_007.html")
BLOCKING = ("ASCEND_LAUNCH_BLOCKING", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_006.html")
BINDING = ("CPU_AFFINITY_CONF", f"{_HIASCEND}/zh/Pytorch/700/ptmoddevg/Frameworkfeatures/featuresguide_00010.html")
PIPELINE = (
    "Host bound: pipeline optimization",
    f"{_HIASCEND}/en/mindstudio/830/practicalcases/GeneralPerformanceIssue/toolsample6_054.html",
)
VARIABLES = ("Environment variables of torch_npu", f"{_HIASCEND}/zh/Pytorch/720/comref/Envvariables")
ALLOCATOR = ("PYTORCH_NPU_ALLOC_CONF", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_011.html")
COMPILE = ("set_compile_mode", f"{_HIASCEND}/zh/Pytorch/700/apiref/apilist/ptaoplist_000610.html")
OPTIMIZERS = (
    "Fused optimizers",
    "https://hiascend.com/doc_center/source/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_0028.html",
)
FUSED = (
    "Fused operator API replacement",
    "https://gitcode.com/Ascend/msprof-analyze/blob/master/docs/en/fused_operator_api_replacement_example.md",
)
ATTENTION = (
    "FlashAttentionScore",
    "https://hiascend.com/document/detail/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_0027.html",
)
ROTARY = (
    "npu_rotary_mul",
    "https://www.hiascend.com/doc_center/source/zh/Pytorch/60RC3/apiref/apilist/ptaoplist_000794.html",
)
GRAPHS = ("TorchAir graph mode", f"{_HIASCEND}/zh/Pytorch/710/modthirdparty/torchairuseguide/torchair_00060.html")
SYNC = ("aclrtSynchronizeStream", f"{_HIASCEND}/zh/CANNCommunityEdition/910/API/runtimeapi/aclcppdevg_03_0076.html")
EVENTS = (
    "How AscendCL synchronizes",
    "https://www.hiascend.com/doc_center/source/zh/canncommercial/63RC1/inferapplicationdev/aclcppdevg/"
    "aclcppdevg_000162.html",
)
SLOW_RANK = (
    "Locating a slow rank",
    "https://hiascend.com/document/detail/zh/mindstudio/70RC2/msinsightug/msascendinsightug/AscendInsight_0102.html",
)
SLOW_RANK_CASE = (
    "A slow rank, step by step",
    f"{_HIASCEND}/zh/mindstudio/830/practicalcases/Largemodeltraining/toolsample1_008.html",
)
ANALYZE = (
    "msprof-analyze",
    f"{_HIASCEND}/zh/mindstudio/830/practicalcases/GeneralPerformanceIssue/toolsample6_014.html",
)
ADVISOR = (
    "msprof-analyze advisor",
    f"{_HIASCEND}/en/mindstudio/830/practicalcases/Largemodeltraining/toolsample1_009.html",
)
PROFILER = (
    "Ascend PyTorch Profiler",
    f"{_HIASCEND}/zh/canncommercial/700/devtools/auxiliarydevtool/atlasprofiling_16_0007.html",
)
ASYNC = ("MindIE asynchronous scheduling", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0535.html")
ATB = ("MindIE LLM and ATB variables", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0416.html")
DATA = ("torch.utils.data", f"{_PYTORCH}/data.html")
AMP = ("torch.amp", f"{_PYTORCH}/amp.html")
CHECKPOINT = ("torch.utils.checkpoint", f"{_PYTORCH}/checkpoint.html")
DDP = ("DistributedDataParallel", f"{_PYTORCH}/notes/ddp.html")
TUNING = ("PyTorch tuning guide", "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html")
GC = ("gc", "https://docs.python.org/3/library/gc.html")
