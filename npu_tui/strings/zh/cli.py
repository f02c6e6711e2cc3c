"""The texts of the command line."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "cli.description": "运行在终端里的昇腾 NPU 性能数据浏览器。",
    "cli.epilog": (
        "stdout 不是终端时，PATH 和 demo 直接打印报告。退出码：0 完成，1 检查未通过，2 用法错误，3 输入不可读"
        "或输出不可写，70 内部错误，130 被中断。"
    ),
    "cli.usage": "npu-tui [命令] [PATH …] [选项]",
    "cli.topic": "一页说明（{topics}）或一个命令；不给则列出全部",
    "cli.schema": "哪一个：{names}",
    "cli.no_topic": "没有说明页或命令 {word}",
    "cli.fields": "与 --format json 同用：只输出这些字段，例如 verdict,findings.id,overlap.free_us",
    "cli.fields_of": "--fields 需要 --format json",
    "cli.no_field": "没有字段 {name}",
    "cli.no_field_meant": "；是否指 {nearest}？",
    "cli.shell": "哪种 shell：{names}",
    "cli.completion": "打印补全脚本，使 shell 可以补全命令、选项、路径、诊断和表名",
    "cli.completion_epilog": (
        "bash（装有 bash-completion）：\n"
        "npu-tui completion bash > ~/.local/share/bash-completion/completions/npu-tui\n"
        "bash（没有 bash-completion），在 ~/.bashrc 中加入：\n"
        "source <(npu-tui completion bash)\n"
        "zsh，并在 ~/.zshrc 的 compinit 之前加入 fpath=(~/.zfunc $fpath)：\n"
        "npu-tui completion zsh > ~/.zfunc/_npu-tui\n"
        "fish：\n"
        "npu-tui completion fish > ~/.config/fish/completions/npu-tui.fish\n"
        "目录不存在时先用 mkdir -p 创建，然后打开新的 shell。"
    ),
    "cli.no_command": "{word}：没有这个文件，也没有这个命令",
    "cli.meant": "；是否想用 npu-tui {nearest}？",
    "cli.no_stdout": "标准输出已关闭；请指定输出位置",
    "cli.stdout": "标准输出",
    "cli.version": "npu-tui {version}（扫描器：{scanner}）",
    "cli.no_scanner": "Python",
    "cli.no_memory": "内存不足；请关闭其他程序，或换一台内存更大的机器",
    "cli.no_threads": "系统无法再创建线程；请关闭其他程序，或调高上限（ulimit -u）",
    "cli.report": "打印浏览器中显示的内容",
    "cli.format": "text（默认）、markdown、html 或 json",
    "cli.range": "只看这段时间，如 12ms..14ms；两端均可省略",
    "cli.step": "只看设备上的 ProfilerStep#N",
    "cli.outside": "区间在 trace 之外，trace 的范围是 0 到 {end}",
    "cli.bad_range": "区间由两个时间组成，如 12ms..14ms",
    "cli.no_step": "没有下发过任务的 ProfilerStep#{step}",
    "cli.trace": "trace_view.json 或 *_ascend_pt 目录，- 表示管道",
    "cli.bad_output": "-o 需要一个 .svg 文件名",
    "cli.paths": "trace_view.json 或 *_ascend_pt 目录，- 表示管道；给出多个时在同一时钟上依次排列；不给则为当前目录，其下有多个 profile 时列出供选择；PATH 下是同一张卡的多次采集时也列出",
    "cli.traces": "trace_view.json 或 *_ascend_pt 目录，- 表示管道；给出多个时在同一时钟上依次排列",
    "cli.path": "trace_view.json 或 *_ascend_pt 目录，- 表示管道；不给则为当前目录",
    "cli.demo": "打开自带的示例",
    "cli.demo_name": "哪个示例：{names}",
    "cli.explain": "诊断的含义：规则、阈值、处理建议和依据文档",
    "cli.explain_id": "哪条诊断，如 DISPATCH.VERTICAL；不给则列出全部",
    "cli.screenshot": "不需要终端，把界面写成 SVG 图片",
    "cli.settings": "打印带全部默认值的完整设置文件，或检查正在使用的设置文件",
    "cli.settings.check": "只检查设置文件是否正确",
    "cli.settings.good": "{path}：所有设置项均有效",
    "cli.settings.none": "{path}：文件不存在，使用默认值",
    "cli.config": "使用这个设置文件，代替配置目录中的那个",
    "cli.lang": "界面语言：auto（按系统语言环境）、en、zh（中文）",
    "cli.output": "图片写到哪里",
    "cli.theme": "配色：auto（随终端背景）、dark、light、colour-blind、colour-blind-light",
    "cli.glyphs": "绘图字符：auto（询问终端）、blocks、safe（方块字符占两格时用）、ascii",
    "cli.size": "界面的列数 x 行数",
    "cli.keys": "先按这些键，用空格分隔，如 x Enter Ctrl+R PgDn",
    "cli.bad_keys": "没有名为 {keys} 的键；请使用字符或键名，如 Space、Enter、left、Shift+left",
    "cli.bad_size": "--size 需要 COLUMNSxROWS，范围 20x6 到 1000x500，如 120x40",
    "cli.no_demo": "没有名为 {name} 的示例；可用的有 {names}",
    "cli.key_table": "打印所有按键及其功能",
    "cli.place": "打开的位置；在浏览器中按 Y 可复制带全部这些选项的命令",
    "cli.place.at": "把光标放到这个时间，如 12.3ms",
    "cli.place.range": "标出并显示这个区间，如 12ms..14ms",
    "cli.place.view": "显示这段时间",
    "cli.place.select": "选中该名称的片段，NAME@12.3ms 表示从该时刻开始的那一个",
    "cli.place.search": "搜索这个内容",
    "cli.place.finding": "跳到这条诊断的证据；npu-tui explain 列出所有 id",
    "cli.place.links": "画哪些连线",
    "cli.place.tab": "打开面板的这个页签",
    "cli.place.rows": "哪些行折叠、置顶和隐藏，格式与 Y 写出的相同",
    "cli.place.notes": "把标记保存在这个文本文件中，而不是用户数据目录",
    "cli.place.offsets": "多个 trace 各自偏移多少，每个 PATH 一个时间，用逗号分隔，格式与 Y 写出的相同",
    "cli.bad_offsets": "--offsets 需要每个 PATH 一个时间，如 0ms,1.25ms，而不是 {text}",
    "cli.bad_span": "{option} 需要两个时间，如 12ms..14ms，而不是 {text}",
    "cli.bad_time": "--at 需要一个时间，如 12.3ms 或 40us，而不是 {text}",
    "cli.bad_tab": "没有页签 {text}；可用的有 {tabs}",
}
