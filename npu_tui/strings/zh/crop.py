"""The texts of ``npu-tui crop``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "crop.description": "写出更小的 trace_view.json，MindStudio Insight、Perfetto 和 npu-tui 均可打开。",
    "crop.epilog": "与区间有交集的片段完整保留，并带上下发它们的片段和连线；事件及元数据逐字节不变。trace 旁的文件不会复制。数据库没有这样的事件：--for perfetto 会重新写出。",
    "crop.output": "输出文件，名称以 .json 或 .json.gz 结尾",
    "crop.lanes": "只保留名称含此内容的泳道或层，如 Stream 或 Hardware；可多次给出",
    "crop.slices": "只保留名称含此内容的片段及其下发者；可多次给出",
    "crop.clip": "在区间边缘截断片段，区间之外一律不保留",
    "crop.for": "perfetto：写成它能准确读取的时间和 id，与其他片段交叉的片段放到单独线程",
    "crop.bad_output": "-o 需要以 .json 或 .json.gz 结尾的文件名",
    "crop.no_text": "{path} 没有可裁剪的片段",
    "crop.database": "{path} 是数据库，没有可逐字节保留的 JSON 事件；--for perfetto 会把其片段、连线和计数器写成新的 trace_view.json，npu-tui 也能打开",
    "crop.no_lane": "没有名称含 {name} 的泳道或层；现有的层为 {names}",
    "crop.nothing": "没有片段留下；请放宽区间或改用其他名称",
    "crop.left_out": "Perfetto 无法绘制，未写出：{why}",
    "crop.backward": "{count:count} 条连线的终点片段在起点片段开始前就已结束（Host 与设备时钟有偏差）",
    "crop.unbound": "{count:count} 条连线的一端没有片段",
    "list.semicolon": "；",
    "crop.done": "{path}：{all:count} 个片段中的 {slices} 个，{all_links:count} 条连线中的 {links:count} 条，{events:count} 个事件，{size} MB",
}
