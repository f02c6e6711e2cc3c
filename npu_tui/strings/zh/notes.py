"""The texts of flags, copies and places to open at."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "flag.prompt": "标记：",
    "flag.kept": "标记 {name}，位置 {when}",
    "flag.here": "标记 {name}：{when}",
    "flag.deleted": "标记 {name} 已删除",
    "flag.renamed": "标记已改名为 {name}",
    "flag.edit": "名称留空则删除该标记",
    "flag.new": "{when}；按 Enter 保存标记",
    "flag.point": "标记",
    "flag.range": "区间",
    "flags.head": "# npu-tui 的标记：先写时间或区间，再写名称；每一节属于一个 trace。",
    "flags.problem": "标记只保存在内存中：{path}：{why}",
    "flags.title": "标记",
    "flags.none": "没有标记：按 {press[flag]} 添加",
    "flags.when": "时间",
    "flags.name": "名称",
    "flags.keys": "Enter 跳转，r 改名，d 删除，Esc 关闭",
    "copy.name": "已复制：{text}",
    "copy.table": "已复制 {rows:count} 行",
    "copy.part": "已复制前 {rows} 行，共 {count:count} 行：终端最多接受 {size} kB",
    "copy.none": "没有打开表格：面板的页签中有",
    "copy.nothing": "没有可复制的内容：请选中片段或跳到表格行",
    "copy.piped": "已复制；请把同一个 trace 通过管道传给它：{text}",
    "copy.title_piped": "把同一个 trace 通过管道传入，这条命令会打开当前视图；已复制",
    "copy.title": "这条命令会打开当前视图；已复制",
    "open.failed": "{option}：这个 trace 中没有对应的内容",
}
