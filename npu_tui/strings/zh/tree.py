"""The texts of the list of commands."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "tree.look": "查看（不写命令：打开浏览器；目录里有多张卡：打开整个作业）：",
    "tree.gate": "门禁：",
    "tree.files": "文件：",
    "tree.words": "说明：",
    "tree.demo": "用自带的示例打开浏览器",
    "tree.report": "同样的结论，输出为文本、Markdown、HTML 或 JSON",
    "tree.compare": "两份或多份性能数据之间变了什么",
    "tree.ranks": "整个作业：统一时钟、拖慢作业的卡及其代价、链路",
    "tree.query": "把性能数据当作表，用 SQL 查询",
    "tree.whatif": "去掉某个原因后 step 有多长：重放得出，不是估计",
    "tree.screenshot": "把屏幕存为 SVG 图片",
    "tree.check": "性能数据超出限值或比基线慢时让 CI 失败",
    "tree.index": "提前生成大文件的解析缓存，打开时立即可用",
    "tree.cache": "列出或删除解析缓存",
    "tree.explain": "一条诊断的含义和处理方法",
    "tree.keys": "浏览器的全部按键",
    "tree.settings": "输出完整的配置文件，或检查现有的配置",
    "tree.summarize": "把各张卡归纳为小的摘要，卡多时可分到多台机器",
    "tree.schema": "报告或配置文件的 JSON Schema",
    "tree.doctor": "检查运行环境：终端、tmux、磁盘、配置，以及需要调整的地方",
    "tree.crop": "截取一部分，得到各种查看器都能打开的小文件",
    "tree.watch": "等待新的性能数据，逐个给出结论",
    "tree.help": "一页说明，或某个命令的选项",
    "tree.completion": "让 bash、zsh 或 fish 补全 npu-tui",
    "tree.pages": "说明页（npu-tui help TOPIC）：",
    "tree.version": "版本号",
}
