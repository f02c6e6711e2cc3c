"""The texts of the list of commands."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "tree.look": "Look (without a command: the explorer, with a folder of ranks the job):",
    "tree.gate": "Gate:",
    "tree.files": "Files:",
    "tree.words": "Words:",
    "tree.pages": "Pages (npu-tui help TOPIC):",
    "tree.demo": "the explorer on a bundled example",
    "tree.report": "the same answers as text, Markdown, HTML or JSON",
    "tree.compare": "what changed between two profiles, or over several",
    "tree.ranks": "a whole job: its clock, the rank to blame and what it costs, its links",
    "tree.query": "the profile as tables, and SQL over them",
    "tree.whatif": "the step without one of its causes: replayed, not guessed",
    "tree.screenshot": "the screen as an SVG picture",
    "tree.check": "fail a CI job when a profile passes its limits or is slower than its baseline",
    "tree.index": "make parsed copies of large traces, so that they open at once",
    "tree.cache": "list or delete the parsed copies",
    "tree.explain": "what a finding means and what to do",
    "tree.keys": "every key of the explorer",
    "tree.settings": "a complete settings file, or a check of yours",
    "tree.summarize": "reduce ranks to small summaries, over machines where there are many",
    "tree.schema": "the JSON Schema of a report, or of the settings file",
    "tree.doctor": "check the terminal, tmux, disk and settings, and say what to change",
    "tree.crop": "a smaller trace that every viewer opens",
    "tree.watch": "wait for new profiles and print the verdict of each",
    "tree.help": "a page of the manual, or the options of a command",
    "tree.completion": "the completion script for bash, zsh or fish",
    "tree.version": "the version, and which scanner reads traces",
}
