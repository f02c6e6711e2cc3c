"""Public pages that rules show beside their advice: title and address.

A page of one rule alone may be given in the rule itself.
"""

from __future__ import annotations

Page = tuple[str, str]
"""Title and address of a public page."""

_HIASCEND = "https://www.hiascend.com/document/detail"
_SOURCE = "https://www.hiascend.com/doc_center/source"
_CASES = f"{_HIASCEND}/zh/mindstudio/830/practicalcases"
_MSPROF = "https://gitcode.com/Ascend/msprof/blob/master/docs/zh/best_practices"
_REPLACEMENT = "https://gitcode.com/Ascend/msprof-analyze/blob/master/docs/en"
_PYTORCH = "https://pytorch.org/docs/stable"

TASK_QUEUE = ("TASK_QUEUE_ENABLE", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_007.html")
BLOCKING = ("ASCEND_LAUNCH_BLOCKING", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_006.html")
BINDING = ("CPU_AFFINITY_CONF", f"{_HIASCEND}/zh/Pytorch/700/ptmoddevg/Frameworkfeatures/featuresguide_00010.html")
INTERRUPTS = ("Interrupts on the CPU that launches", f"{_MSPROF}/irq_interruption.md")
SWITCHING = ("Threads that are switched too often", f"{_MSPROF}/cpu_thread_frequent_switching.md")
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
FUSED = ("Fused operator API replacement", f"{_REPLACEMENT}/fused_operator_api_replacement_example.md")
ATTENTION = (
    "FlashAttentionScore",
    "https://hiascend.com/document/detail/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_0027.html",
)
ROTARY = ("npu_rotary_mul", f"{_SOURCE}/zh/Pytorch/60RC3/apiref/apilist/ptaoplist_000794.html")
GRAPHS = ("TorchAir graph mode", f"{_HIASCEND}/zh/Pytorch/710/modthirdparty/torchairuseguide/torchair_00060.html")
SYNC = ("aclrtSynchronizeStream", f"{_HIASCEND}/zh/CANNCommunityEdition/910/API/runtimeapi/aclcppdevg_03_0076.html")
EVENTS = (
    "How AscendCL synchronizes",
    f"{_SOURCE}/zh/canncommercial/63RC1/inferapplicationdev/aclcppdevg/aclcppdevg_000162.html",
)
SLOW_RANK = (
    "Locating a slow rank",
    "https://hiascend.com/document/detail/zh/mindstudio/70RC2/msinsightug/msascendinsightug/AscendInsight_0102.html",
)
SLOW_RANK_CASE = ("A slow rank, step by step", f"{_CASES}/Largemodeltraining/toolsample1_008.html")
ANALYZE = ("msprof-analyze", f"{_CASES}/GeneralPerformanceIssue/toolsample6_014.html")
ADVISOR = (
    "msprof-analyze advisor",
    f"{_HIASCEND}/en/mindstudio/830/practicalcases/Largemodeltraining/toolsample1_009.html",
)
PROFILER = (
    "Ascend PyTorch Profiler",
    f"{_HIASCEND}/zh/canncommercial/700/devtools/auxiliarydevtool/atlasprofiling_16_0007.html",
)
ASYNC = ("MindIE asynchronous scheduling", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0535.html")
MINDIE = ("MindIE LLM", f"{_HIASCEND}/zh/mindie/10RC2/mindiellm/llmdev/mindie_llm0000.html")
ATB = ("MindIE LLM and ATB variables", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0416.html")
DATA = ("torch.utils.data", f"{_PYTORCH}/data.html")
AMP = ("torch.amp", f"{_PYTORCH}/amp.html")
CHECKPOINT = ("torch.utils.checkpoint", f"{_PYTORCH}/checkpoint.html")
DDP = ("DistributedDataParallel", f"{_PYTORCH}/notes/ddp.html")
TUNING = ("PyTorch tuning guide", "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html")
GC = ("gc", "https://docs.python.org/3/library/gc.html")
HCCL_TIMEOUT = ("HCCL_CONNECT_TIMEOUT", f"{_HIASCEND}/zh/canncommercial/83RC1/maintenref/envvar/envref_07_0149.html")
NPU_SMI = ("npu-smi info watch", f"{_SOURCE}/zh/Atlas%20200I%20A2/23.0.RC3/re/npu/npusmi_010.html")
AIPP = ("AIPP", f"{_HIASCEND}/en/canncommercial/800/devaids/atc/atctool_0016.html")
ATC = (
    "ATC options",
    "https://hiascend.com/document/detail/zh/canncommercial/80RC3/devaids/devtools/atc/atlasatc_16_0039.html",
)
INSIGHT = ("MindStudio Insight", "https://www.hiascend.com/document/redirect/MindStudioInsight")
INSIGHT_INSTALL = (
    "Installing MindStudio Insight",
    f"{_HIASCEND}/en/mindstudio/830/GUI_baseddevelopmenttool/MindStudioInsight/Insight_userguide_0006.html",
)
INSIGHT_TIMELINE = (
    "MindStudio Insight: Timeline",
    f"{_SOURCE}/zh/mindstudio/70RC3/msinsightug/msascendinsightug/Insight_userguide_0034.html",
)
AFFINITY_CASE = ("Affinity operators: code before and after", f"{_CASES}/GeneralPerformanceIssue/toolsample6_050.html")
_TUNING = f"{_HIASCEND}/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_"
_TUNING_RC = f"{_HIASCEND}/zh/Pytorch/60RC3/ptmoddevg/trainingmigrguide/performance_tuning_"
AFFINITY = (
    AFFINITY_CASE,
    ("RotaryMul", f"{_TUNING}0023.html"),
    ("RmsNorm", f"{_TUNING}0024.html"),
    ("ScaledMaskedSoftmax", f"{_TUNING}0025.html"),
    ("MatmulAllReduce", f"{_TUNING}0026.html"),
    ("SwiGlu", f"{_TUNING}0100.html"),
    ("IndexPut", f"{_TUNING_RC}0033.html"),
    ("nonzero", f"{_TUNING_RC}0034.html"),
    ("where", f"{_TUNING_RC}0035.html"),
    ("Affinity APIs", f"{_TUNING_RC}0036.html"),
)
ATB_SOURCE = ("Ascend Transformer Boost", "https://gitcode.com/cann/ascend-transformer-boost")
REPOSITORIES = (
    ("torch_npu", "https://gitcode.com/Ascend/pytorch"),
    ("MindStudio Insight, source", "https://gitcode.com/Ascend/msinsight"),
    ("msprof-analyze, source", "https://gitcode.com/Ascend/msprof-analyze"),
)
