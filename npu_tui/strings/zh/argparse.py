"""What argparse says itself, word for word as it asks for it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "argparse.usage": "用法：",
    "argparse.positional": "位置参数",
    "argparse.options": "选项",
    "argparse.help": "显示本帮助并退出",
    "argparse.version": "显示版本号并退出",
    "argparse.error": "%(prog)s：错误：%(message)s\n",
    "argparse.argument": "参数 %(argument_name)s：%(message)s",
    "argparse.unrecognized": "无法识别的参数：%s",
    "argparse.required": "缺少参数：%s",
    "argparse.one_of": "以下参数必须给出一个：%s",
    "argparse.not_with": "不能与参数 %s 同时使用",
    "argparse.ambiguous": "选项有歧义：%(option)s 可能是 %(matches)s",
    "argparse.explicit": "参数值 %r 被忽略",
    "argparse.one": "需要一个值",
    "argparse.at_most_one": "最多一个值",
    "argparse.at_least_one": "至少一个值",
    "argparse.choice": "无效的选择：%(value)r（可选 %(choices)s）",
    "argparse.value": "无效的 %(type)s 值：%(value)r",
}
