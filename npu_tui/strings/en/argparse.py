"""What argparse says itself, word for word as it asks for it."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "argparse.usage": "usage: ",
    "argparse.positional": "positional arguments",
    "argparse.options": "options",
    "argparse.help": "show this help message and exit",
    "argparse.version": "show program's version number and exit",
    "argparse.error": "%(prog)s: error: %(message)s\n",
    "argparse.argument": "argument %(argument_name)s: %(message)s",
    "argparse.unrecognized": "unrecognized arguments: %s",
    "argparse.required": "the following arguments are required: %s",
    "argparse.one_of": "one of the arguments %s is required",
    "argparse.not_with": "not allowed with argument %s",
    "argparse.ambiguous": "ambiguous option: %(option)s could match %(matches)s",
    "argparse.explicit": "ignored explicit argument %r",
    "argparse.one": "expected one argument",
    "argparse.at_most_one": "expected at most one argument",
    "argparse.at_least_one": "expected at least one argument",
    "argparse.choice": "invalid choice: %(value)r (choose from %(choices)s)",
    "argparse.value": "invalid %(type)s value: %(value)r",
}
