"""What to read about a finding, and what its fix looks like in code: public pages by title, and changes as a diff."""

from __future__ import annotations

from npu_tui.rules.rule import Rule

Page = tuple[str, str]
"""Title and address of a public page."""

_HIASCEND = "https://www.hiascend.com/document/detail"
_PYTORCH = "https://pytorch.org/docs/stable"

_TASK_QUEUE = ("TASK_QUEUE_ENABLE", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_007.html")
_BLOCKING = ("ASCEND_LAUNCH_BLOCKING", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_006.html")
_BINDING = ("CPU_AFFINITY_CONF", f"{_HIASCEND}/zh/Pytorch/700/ptmoddevg/Frameworkfeatures/featuresguide_00010.html")
_PIPELINE = (
    "Host bound: pipeline optimization",
    f"{_HIASCEND}/en/mindstudio/830/practicalcases/GeneralPerformanceIssue/toolsample6_054.html",
)
_VARIABLES = ("Environment variables of torch_npu", f"{_HIASCEND}/zh/Pytorch/720/comref/Envvariables")
_ALLOCATOR = ("PYTORCH_NPU_ALLOC_CONF", f"{_HIASCEND}/zh/Pytorch/710/comref/Envvariables/Envir_011.html")
_COMPILE = ("set_compile_mode", f"{_HIASCEND}/zh/Pytorch/700/apiref/apilist/ptaoplist_000610.html")
_OPTIMIZERS = (
    "Fused optimizers",
    "https://hiascend.com/doc_center/source/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_0028.html",
)
_FUSED = (
    "Fused operator API replacement",
    "https://gitcode.com/Ascend/msprof-analyze/blob/master/docs/en/fused_operator_api_replacement_example.md",
)
_ATTENTION = (
    "FlashAttentionScore",
    "https://hiascend.com/document/detail/zh/Pytorch/600/ptmoddevg/trainingmigrguide/performance_tuning_0027.html",
)
_ROTARY = (
    "npu_rotary_mul",
    "https://www.hiascend.com/doc_center/source/zh/Pytorch/60RC3/apiref/apilist/ptaoplist_000794.html",
)
_GRAPHS = ("TorchAir graph mode", f"{_HIASCEND}/zh/Pytorch/710/modthirdparty/torchairuseguide/torchair_00060.html")
_SYNC = ("aclrtSynchronizeStream", f"{_HIASCEND}/zh/CANNCommunityEdition/910/API/runtimeapi/aclcppdevg_03_0076.html")
_EVENTS = (
    "How AscendCL synchronizes",
    "https://www.hiascend.com/doc_center/source/zh/canncommercial/63RC1/inferapplicationdev/aclcppdevg/"
    "aclcppdevg_000162.html",
)
_SLOW_RANK = (
    "Locating a slow rank",
    "https://hiascend.com/document/detail/zh/mindstudio/70RC2/msinsightug/msascendinsightug/AscendInsight_0102.html",
)
_SLOW_RANK_CASE = (
    "A slow rank, step by step",
    f"{_HIASCEND}/zh/mindstudio/830/practicalcases/Largemodeltraining/toolsample1_008.html",
)
_ANALYZE = (
    "msprof-analyze",
    f"{_HIASCEND}/zh/mindstudio/830/practicalcases/GeneralPerformanceIssue/toolsample6_014.html",
)
_ADVISOR = (
    "msprof-analyze advisor",
    f"{_HIASCEND}/en/mindstudio/830/practicalcases/Largemodeltraining/toolsample1_009.html",
)
_PROFILER = (
    "Ascend PyTorch Profiler",
    f"{_HIASCEND}/zh/canncommercial/700/devtools/auxiliarydevtool/atlasprofiling_16_0007.html",
)
_ASYNC = ("MindIE asynchronous scheduling", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0535.html")
_ATB = ("MindIE LLM and ATB variables", f"{_HIASCEND}/en/mindie/230/LLMframe/llmdev/mindie_llm0416.html")
_DATA = ("torch.utils.data", f"{_PYTORCH}/data.html")
_AMP = ("torch.amp", f"{_PYTORCH}/amp.html")
_CHECKPOINT = ("torch.utils.checkpoint", f"{_PYTORCH}/checkpoint.html")
_DDP = ("DistributedDataParallel", f"{_PYTORCH}/notes/ddp.html")
_TUNING = ("PyTorch tuning guide", "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html")
_GC = ("gc", "https://docs.python.org/3/library/gc.html")

_BY_RULE: dict[str, tuple[Page, ...]] = {
    "DISPATCH.VERTICAL": (_PIPELINE, _TASK_QUEUE, _BINDING, _ASYNC),
    "DISPATCH.FREE": (_PIPELINE, _TASK_QUEUE, _BINDING),
    "DISPATCH.STAGE": (_TASK_QUEUE, _BINDING, _COMPILE),
    "DISPATCH.INTERRUPT": (_PIPELINE, _TUNING),
    "SYNC.HOST": (_TUNING, _SYNC, _BLOCKING, _ASYNC),
    "DEVICE.EVENT": (_EVENTS, _GRAPHS),
    "OP.COMPILE": (_COMPILE,),
    "STEP.START": (_DATA, _TUNING),
    "OP.SMALL": (_GRAPHS, _OPTIMIZERS, _ATB),
    "OPT.FUSED": (_OPTIMIZERS, _FUSED),
    "HOST.PAUSE": (_PROFILER, _TUNING),
    "COMM.STRAGGLER": (_SLOW_RANK, _SLOW_RANK_CASE, _ANALYZE),
    "COMM.EXPOSED": (_DDP, _ANALYZE),
    "COMM.LONGOP": (_SLOW_RANK, _ANALYZE),
    "COMM.LINK": (_ANALYZE, _DDP),
    "OP.AFFINITY_API": (_FUSED, _ATTENTION, _ROTARY),
    "OP.AFFINITY_KERNEL": (_FUSED, _ATTENTION, _ROTARY),
    "DTYPE": (_AMP,),
    "DATA.LOADER": (_DATA, _TUNING),
    "DATA.COPY": (_TUNING, _DATA),
    "MEM.ALLOC": (_ALLOCATOR,),
    "MEM.PRESSURE": (_ALLOCATOR, _CHECKPOINT),
    "PY.GC": (_GC, _PROFILER),
    "ENV/STARTUP": (_VARIABLES, _TASK_QUEUE, _BLOCKING, _ALLOCATOR),
    "PROFILER.OVERHEAD": (_PROFILER,),
}
_BY_CLASS: dict[str, tuple[Page, ...]] = {
    "dispatch": (_PIPELINE,),
    "compute": (_ADVISOR,),
    "communication": (_ANALYZE,),
    "memory": (_ALLOCATOR,),
    "config": (_VARIABLES,),
    "data": (_DATA,),
}

_CHANGES: dict[str, str] = {
    "SYNC.HOST": """\
-for batch in loader:
-    loss = train(batch)
-    total += loss.item()
-    print(metric(out, target).item())
+for step, batch in enumerate(loader):
+    loss = train(batch)
+    total += loss.detach()
+    if step % 100 == 0:
+        print(total.item(), metric(out, target).item())
""",
    "DISPATCH.INTERRUPT": """\
-    if torch.isnan(loss):
-        raise ValueError
+    bad |= torch.isnan(loss)
+    if step % 100 == 0 and bad.item():
+        raise ValueError
""",
    "OP.COMPILE": """\
+torch_npu.npu.set_compile_mode(jit_compile=False)
+torch_npu.npu.config.allow_internal_format = False
 model = model.npu()
""",
    "STEP.START": """\
-for images, labels in loader:
-    images = images.npu()
+loader = DataLoader(data, num_workers=4, prefetch_factor=2, pin_memory=True)
+for images, labels in loader:
+    images = images.npu(non_blocking=True)
""",
    "DATA.LOADER": """\
-loader = DataLoader(data, batch_size=64)
+loader = DataLoader(data, batch_size=64, num_workers=4, prefetch_factor=2, pin_memory=True, persistent_workers=True)
""",
    "DATA.COPY": """\
-mask = torch.ones(n).npu()
-images = images.npu()
+mask = torch.ones(n, device="npu")
+images = images.npu(non_blocking=True)
""",
    "OPT.FUSED": """\
-optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
-torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
+optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=lr)
+optimizer.clip_grad_norm_fused_(1.0)
""",
    "OP.SMALL": """\
-for weight, grad in zip(weights, grads):
-    weight.add_(grad, alpha=-lr)
+torch._foreach_add_(weights, grads, alpha=-lr)
""",
    "OP.AFFINITY_API": """\
-scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
-out = torch.matmul(scores.softmax(-1), v)
+out = torch_npu.npu_fusion_attention(q, k, v, heads, "BNSD", scale=1 / math.sqrt(d))[0]
""",
    "OP.AFFINITY_KERNEL": """\
-x[~mask] = 0
+x = x * mask
-y = F.one_hot(index, n).sum(0)
+y = torch.zeros(n, device="npu").scatter_add_(0, index, ones)
-z = x.repeat_interleave(k, dim=0)
+z = x.unsqueeze(1).expand(-1, k, -1).reshape(-1, x.shape[-1])
""",
    "OP.DOMINANT": """\
-x[index] = value
+x = torch.where(mask, value, x)
""",
    "COMM.EXPOSED": """\
-model = DistributedDataParallel(model)
+model = DistributedDataParallel(model, bucket_cap_mb=10, gradient_as_bucket_view=True)
""",
    "COMM.LINK": """\
-bucket = torch.zeros(n, dtype=torch.float16, device="npu")
+bucket = torch.zeros(-(-n // 256) * 256, dtype=torch.float16, device="npu")
""",
    "DTYPE": """\
-out = model(x)
+with torch.npu.amp.autocast():
+    out = model(x)
""",
    "KERNEL.BOUND": """\
-index = torch.nonzero(x > 0)
-y = x.double().cumsum(0)
+mask = x > 0
+y = x.float().cumsum(0)
""",
    "MEM.ALLOC": """\
-    torch.npu.empty_cache()
+export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
""",
    "MEM.PRESSURE": """\
-x = block(x)
+x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
""",
    "PY.GC": """\
+gc.collect()
+gc.freeze()
+gc.disable()
 for step, batch in enumerate(loader):
     train(batch)
+    if step % 500 == 0:
+        gc.collect()
""",
    "HOST.PAUSE": """\
-torch.save(model.state_dict(), path)
+state = {name: each.to("cpu", non_blocking=True) for name, each in model.state_dict().items()}
+threading.Thread(target=torch.save, args=(state, path)).start()
""",
    "DISPATCH.VERTICAL": """\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
    "DISPATCH.STAGE": """\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
    "DISPATCH.FREE": """\
+export TASK_QUEUE_ENABLE=2
+export CPU_AFFINITY_CONF=2
""",
    "DEVICE.EVENT": """\
-side.wait_stream(main)
-with torch.npu.stream(side):
-    y = light(x)
-main.wait_stream(side)
-z = heavy(x)
+side.wait_stream(main)
+with torch.npu.stream(side):
+    y = light(x)
+z = heavy(x)
+main.wait_stream(side)
""",
    "ENV/STARTUP": """\
-export ASCEND_LAUNCH_BLOCKING=1
+unset ASCEND_LAUNCH_BLOCKING
+export TASK_QUEUE_ENABLE=1
+export ACLNN_CACHE_LIMIT=100000
""",
}


def pages_of(rule: Rule) -> tuple[Page, ...]:
    """Public pages about ``rule``, the nearest first; those of its class where none is about it alone."""
    return _BY_RULE.get(rule.id, _BY_CLASS[rule.cls])


def change_of(rule: Rule) -> list[str]:
    """A change of code or of the environment that fixes such a finding, as lines of a diff; empty without one."""
    return _CHANGES.get(rule.id, "").splitlines()
