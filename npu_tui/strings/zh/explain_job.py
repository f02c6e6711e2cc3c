"""What the findings about a whole job mean, and what to do about each."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.job": "关于整个多卡作业的诊断",
    "explain.job.needs": (
        "需要：两张及以上的卡，各有 communication.json 或 trace。时钟只在 notify、收发消息和集合通信的共同结束时刻能够关联的范围内比较。"
    ),
    "explain.RANK.SLOW": (
        "一张卡在集合通信之前的工作比承担同样工作的卡（同一 stage、同一张量并行位置）更久，其他卡都在等它。"
        "从别的卡继承来的延迟不计。可节省的时间由重放得出：假设这张卡与同类卡的中位数一样快。"
    ),
    "explain.RANK.SLOW.do": "进入这张卡并与同类卡对比：host 下发、数据、频率、不同的算子。",
    "explain.RANK.STAGE": "流水线的一个 stage 比其他 stage 计算更久，其中各卡一致，因此其他 stage 在等待。",
    "explain.RANK.STAGE.do": "把若干层移到其他 stage，或拆分含有 embedding 和 loss 的首尾 stage。",
    "explain.RANK.HOST": "一台主机上的所有卡都比其他主机上的同类卡慢。",
    "explain.RANK.HOST.do": "检查这台主机：其他进程、CPU 频率、内存、存储、网卡。",
    "explain.RANK.WANDER": "每个 step 都是不同的卡因自身工作而慢。这不是设备慢，而是工作量或停顿不均。",
    "explain.RANK.WANDER.do": "均衡各卡的数据、序列长度或专家；让所有卡在同一 step 做垃圾回收。",
    "explain.RANK.MISSING": "作业中有些卡在这里没有文件；只有其他卡等待它们时才能见到它们。",
    "explain.RANK.MISSING.do": "把缺失卡的 profile 复制到这个目录，先复制其他卡在等的那些。",
    "explain.RANK.CLOCK": "没有统一时钟：记录中没有任何内容把这张卡与其他卡关联，或者它的时钟在漂移。这样的卡单独绘制，不作时间比较。",
    "explain.RANK.CLOCK.do": "用 level 1 及以上采集，它会记录 notify，并保留所有卡的 communication.json。",
    "explain.LINK.SLOW": (
        "一条链路比它两端的端口与其他卡通信时更慢，只与同类传输、同类操作、同等大小的链路比较："
        "偏离 3.5 个稳健标准差，且不到通常带宽的 0.8。"
    ),
    "explain.LINK.SLOW.do": "检查两端之间的线缆、端口和交换机，看链路上是否有其他流量。",
    "explain.LINK.PORT": "一张卡在一个方向上的所有链路都比同类链路慢。",
    "explain.LINK.PORT.do": "检查这张卡的网卡或端口。",
    "explain.GROUP.SIZES": "通信域中各卡的调用次数不同，因此有一些没有比较。",
    "explain.GROUP.SIZES.do": "在所有卡上采集相同的 step；调用更多的卡运行了不同的代码。",
}
