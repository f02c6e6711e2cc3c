"""The texts of ``npu-tui crop``."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "crop.description": "写出更小的 trace_view.json，MindStudio Insight、Perfetto 和 npu-tui 均可打开。",
    "crop.epilog": "与区间有交集的片段完整保留，并带上下发它们的片段和连线；事件及元数据逐字节不变。trace 旁的文件不会复制。数据库没有这样的事件。",
    "crop.output": "输出文件，名称以 .json 或 .json.gz 结尾",
    "crop.lanes": "只保留名称含此内容的泳道或层，如 Stream 或 Hardware；可多次给出",
    "crop.slices": "只保留名称含此内容的片段及其下发者；可多次给出",
    "crop.clip": "在区间边缘截断片段，区间之外一律不保留",
    "crop.bad_output": "-o 需要以 .json 或 .json.gz 结尾的文件名",
    "crop.no_text": "{path} 没有可裁剪的片段",
    "crop.database": "{path} 是数据库，没有可裁剪的 JSON 事件；请用 export_type text 导出 trace_view.json 再裁剪",
    "crop.no_lane": "没有名称含 {name} 的泳道或层；现有的层为 {names}",
    "crop.nothing": "没有片段留下；请放宽区间或改用其他名称",
    "crop.done": "{path}：{all:count} 个片段中的 {slices} 个，{all_links:count} 条连线中的 {links:count} 条，{events:count} 个事件，{size} MB",
}
