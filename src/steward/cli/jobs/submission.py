"""From a command line or a script to the body of a submission."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steward.clients.job_directives import exported, options_body, read_directives
from steward.errors import StewardError

__all__ = ["Submission", "body_of", "read_script"]

MOST_SCRIPT_BYTES = 4 << 20
Submission = tuple[dict[str, Any], dict[str, str], tuple[str, ...]]


def body_of(command: Sequence[str], given: Mapping[str, str], *, as_command: bool) -> Submission:
    """Return what is sent, the options that hold, and the options of a script that do not.

    The command line wins over the lines of a script.
    """
    script, argv = "", list(command)
    options: dict[str, str] = {}
    ignored: tuple[str, ...] = ()
    if not as_command:
        path = Path(command[0])
        script = read_script(path)
        options, ignored = read_directives(script, str(path))
        argv = list(command[1:])
        options.setdefault("job-name", path.name)
    options = {**options, **given}
    _check_words(argv, options)
    return _body(script, argv, options), options, ignored


def _check_words(argv: Sequence[str], options: Mapping[str, str]) -> None:
    """Refuse bytes that are no UTF-8: what is submitted travels as text."""
    named = {f"--{name}": value for name, value in options.items()}
    for where, word in {
        **{f"argument {i}": each for i, each in enumerate(argv, 1)},
        **named,
    }.items():
        if not _is_text(word):
            hint = "write such bytes in a script, which makes them itself, as by printf"
            raise StewardError(f"{word!r} is no UTF-8 text", where=where, hint=hint)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _body(script: str, argv: list[str], given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "argv": argv,
        "script": script,
        "folder": str(Path(given.get("chdir") or Path.cwd()).expanduser().absolute()),
        "environment": _environment(given.get("export", "ALL")),
        "token": given.get("token") or secrets.token_hex(16),
        **options_body(given),
    }


def read_script(path: Path) -> str:
    """Return the text of a script that a person names."""
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise StewardError(
            f"the script cannot be read: {(fault.strerror or str(fault)).lower()}",
            where=str(path),
            hint="for a command write `steward jobs submit -- COMMAND`",
        ) from fault
    if not data.startswith(b"#!"):
        hint = "begin it with a line such as #!/bin/bash, or write -- before a command"
        raise StewardError("the script does not name its interpreter", where=str(path), hint=hint)
    if len(data) > MOST_SCRIPT_BYTES:
        raise StewardError("the script is larger than 4 MiB", where=str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        raise StewardError("the script is no UTF-8 text", where=str(path)) from fault


def _environment(export: str) -> dict[str, str]:
    """Return what the job inherits: ALL, NONE, names, and NAME=VALUE."""
    found = exported(export, os.environ)
    odd = sorted(repr(name) for name, value in found.items() if not _is_text(name + value))
    if odd:
        raise StewardError(
            f"these variables are no UTF-8 text: {', '.join(odd)}",
            where="environment",
            hint="`unset` them, or name what the job inherits, as --export=PATH,HOME",
        )
    return found
