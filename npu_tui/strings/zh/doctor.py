"""The texts of what the program finds around it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "doctor.format": "text（默认）或 json",
    "doctor.machine": "{cores:核|核}，内存 {size:memory}",
    "doctor.colours": "终端支持真彩色时请声明：export COLORTERM=truecolor（ssh 和 sudo 会丢掉它）",
    "doctor.locale": "不是 UTF-8",
    "doctor.no_utf8": "色块和连线需要 UTF-8 区域设置：export LANG=C.UTF-8",
    "doctor.no_terminal": "未询问：stdin 或 stdout 不是终端",
    "doctor.silent": "无",
    "doctor.is_silent": "无法按终端的速度输出画面，慢速连接上按键可能滞后；用 --glyphs 和 --theme 指定问不到的内容",
    "doctor.answers": "字符集 {glyphs}，背景{shade}",
    "doctor.light": "浅色",
    "doctor.unsaid": "未知",
    "doctor.dark": "深色",
    "doctor.escape": "Esc 有延迟：set -sg escape-time 10",
    "doctor.extended": "收不到 Ctrl+0 和部分 Shift 组合键：set -s extended-keys on（每个键都有第二种按法）",
    "doctor.clipboard": "复制的内容只留在 tmux 里：set -s set-clipboard external",
    "doctor.copies": "{path}，最多 {size:memory}",
    "doctor.no_copies": "不保存：{variable} 为 0",
    "doctor.no_cache": "无法写入 {path}：大文件每次都要重新解析",
    "doctor.room": "{path}，剩余 {size:memory}",
    "doctor.little": "压缩文件和管道在这里解开：请把 TMPDIR 设到空间足够的磁盘",
    "doctor.none": "无需调整。",
    "doctor.sum": "{count:处|处}需要调整，以 -> 标出。",
}
