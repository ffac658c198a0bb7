"""Writes docs/reference from the code itself, so that it cannot say anything else.

    python scripts/make_reference.py            write the files
    python scripts/make_reference.py --check    exit 1 and name the files that are out of date

What comes out depends on the code alone: not on the terminal, the machine or installed plugs.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from steward.cli.app import app
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.mistakes import dotted
from steward.config.plugs import KINDS, options_of
from steward.config.settings import Settings
from steward.model.metrics import METRICS, VOCABULARIES
from steward.service.api import PREFIX
from steward.service.app import create_api
from steward.service.authentication import Authenticator
from steward.service.live_state import LiveState
from steward.store.rules import rule_schema
from steward.store.rules.language.fields import MAPPINGS
from steward.store.rules.language.fields import FieldSpec as RuleField
from steward.store.tokens import Tokens

Click = Any  # typer's own commands and options

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/make_reference.py; change the code instead. -->"
BOUNDS = {"gt": "above {}", "ge": "at least {}", "lt": "below {}", "le": "at most {}"}
FREE_TABLES = {"plugs": "[plugs](plugs.md)", "sites": "[several engines](../sites.md)"}
WORDS = {float: "number", int: "whole number", str: "text", bool: "true or false"}


def main(args: Sequence[str]) -> int:
    """Write the reference, or say which files are stale."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    given = parser.parse_args(args)
    given.folder.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, text in pages().items():
        file = given.folder / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not given.check:
            file.write_text(text, encoding="utf-8")
    said = "out of date, run `make docs`" if given.check else "written"
    print("\n".join(f"{name}: {said}" for name in stale) or "docs/reference is up to date")
    return 1 if stale and given.check else 0


def pages() -> dict[str, str]:
    """Return every file of the reference by its name."""
    made = {
        "cli.md": cli(),
        "configuration.md": configuration(),
        "metrics.md": metrics(),
        "plugs.md": plugs(),
        "api.md": api(),
        "rules.md": rules(),
    }
    texts = {name: "\n".join([NOTE, "", *lines]).rstrip() + "\n" for name, lines in made.items()}
    schema = json.dumps(rule_schema(), indent=1, ensure_ascii=False)
    return {**texts, "rule-schema.json": schema + "\n"}


# -- the command line --------------------------------------------------------------------------


def cli() -> Iterator[str]:
    """Describe every command."""
    yield "# Command line"
    yield ""
    yield "Answers go to stdout, everything else to stderr. Exit codes: 0 is fine, 1 means that"
    yield "something was found or failed, 2 is wrong use. With `--json`, errors are JSON too:"
    yield '`{"error": {"problem": …, "where": …, "hint": …}}`.'
    yield from _command("steward", typer.main.get_command(app))


def _command(path: str, command: Click) -> Iterator[str]:
    yield from ("", f"## {path}", "")
    yield from inspect.cleandoc(command.help or "").splitlines()
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    inside: Mapping[str, Any] = getattr(command, "commands", {})
    usage = [path, *(each.metavar or each.name.upper() for each in arguments), "[OPTIONS]"]
    yield from ("", "```", " ".join([*usage, *(["COMMAND"] if inside else [])]), "```", "")
    rows = [(f"`{each.metavar or each.name.upper()}`", "", each.help) for each in arguments]
    rows += [(_option(each), _default(each.default), each.help) for each in options]
    yield from _table(("option", "default", "meaning"), rows) if rows else ()
    for name, each in inside.items():
        yield from _command(f"{path} {name}", each)


def _option(option: Click) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return f"`{', '.join(option.opts)}{value}`"


def _default(value: object) -> str:
    shown = value is not None and not isinstance(value, bool) and not callable(value)
    return f"`{value}`" if shown and value != "" else ""


# -- the configuration -------------------------------------------------------------------------


def configuration() -> Iterator[str]:
    """Describe every section and key."""
    yield "# Configuration"
    yield ""
    yield "One TOML file: the one given with `--config`, else `$STEWARD_CONFIG`, else"
    yield "`./steward.toml`, else `~/.config/steward/steward.toml`, else the defaults below. A"
    yield "variable `STEWARD_SECTION__KEY` wins over the file. `steward config check` names all"
    yield "mistakes with their lines; `steward config show` prints what is in force, and why."
    for name, field in Settings.model_fields.items():
        yield from _section(name, field)


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    kind: Any = field.annotation
    table = name
    if get_origin(kind) is dict:
        table, kind = f"{name}.NAME", get_args(kind)[1]
    yield from ("", f"## [{table}]", "")
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        yield f"{_sentence(field.description)} See {FREE_TABLES[name]}."
        return
    yield inspect.cleandoc(kind.__doc__ or "")
    yield ""
    rows = [
        (
            f"`{key}`",
            _kind(each),
            _toml({} if each.default_factory is dict else each.default),
            f"`{_variable(table, key)}`",
            each.description,
        )
        for key, each in kind.model_fields.items()
    ]
    yield from _table(("key", "type", "default", "variable", "meaning"), rows)


def _variable(table: str, key: str) -> str:
    return f"STEWARD_{table.replace('.', '__').upper()}__{key.upper()}"


def _kind(field: FieldInfo) -> str:
    kind: Any = field.annotation
    kinds = [each for each in (kind, *get_args(kind)) if isinstance(each, type)]
    enum = next((each for each in kinds if issubclass(each, Enum)), None)
    if enum is not None:
        return "one of " + ", ".join(f"`{each.value}`" for each in enum)
    if get_origin(kind) is tuple:
        return "list of text"
    if get_origin(kind) is dict:
        return "table of text"
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"`{each}`" for each in get_args(kind))
    if kind == int | None:
        kind = int
    bounds = [
        form.format(f"{getattr(each, name):g}")
        for each in field.metadata
        for name, form in BOUNDS.items()
        if getattr(each, name, None) is not None
    ]
    return ", ".join([WORDS.get(kind, str(kind)), *bounds])


def _toml(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{each}"' for each in value) + "]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


# -- metrics and plugs -------------------------------------------------------------------------


def metrics() -> Iterator[str]:
    """List every metric with what others call it."""
    yield "# Metrics"
    yield ""
    yield "Our names end in their base unit. Others' names are translated once, when samples come"
    yield "in: ours = theirs times scale. A counter only grows; its rate is what is kept."
    for of in dict.fromkeys(each.of for each in METRICS):
        yield from ("", f"## Of a {of}", "")
        rows = [
            (
                f"`{each.name}`",
                each.unit,
                f"counter, kept as `{each.rate}`" if each.rate else each.kind.value,
                each.meaning,
            )
            for each in METRICS
            if each.of == of
        ]
        yield from _table(("metric", "unit", "kind", "meaning"), rows)
    for vocabulary in VOCABULARIES[1:]:
        yield from ("", f"## What {vocabulary} calls them", "")
        names = [
            (f"`{alias.name}`", f"`{each.name}`", f"{alias.scale:g}", str(alias.field_id or ""))
            for each in METRICS
            for alias in each.aliases
            if alias.vocabulary == vocabulary
        ]
        yield from _table(("theirs", "ours", "scale", "field id"), names)


def plugs() -> Iterator[str]:
    """Describe every built-in plug with its options."""
    yield "# Plugs"
    yield ""
    yield "Options are set under `[plugs.NAME]`. Packages from outside add plugs with an entry"
    yield "point in the group `steward.KINDs`; `steward config check` knows those too."
    for kind in KINDS:
        yield from ("", f"## {kind.kind}", "", f"Chosen by `{dotted(kind.key)}`.")
        for name, make in sorted(kind.table.items()):
            yield from ("", f"### {name}", "", *inspect.cleandoc(make.__doc__ or "").splitlines())
            rows = [
                (f"`{option.name}`", option.type, _toml(option.default))
                for option in options_of(make).values()
            ]
            yield from ("", *_table(("option", "type", "default"), rows)) if rows else ()


# -- rule files --------------------------------------------------------------------------------


def rules() -> Iterator[str]:
    """Describe every field of a rule file."""
    yield "# Rule files"
    yield ""
    yield "Every field that a rule file may have. [The language](../rules/language.md) says what"
    yield "they mean together; [rule-schema.json](rule-schema.json) says the same to editors."
    yield "Durations are written `300ms`, `30s`, `1.5h`, `1m30s`. Text is taken as it stands: `502`"
    yield "and `yes` are text."
    for shape in MAPPINGS.values():
        yield from ("", f"## {shape.name}", "", f"At `{shape.path}`. {shape.doc}", "")
        rows = [
            (f"`{each.name}`", _rule_kind(each), _rule_default(each), each.doc)
            for each in shape.fields.values()
        ]
        yield from _table(("field", "type", "default", "meaning"), rows)


def _rule_kind(field: RuleField) -> str:
    if field.choices:
        return "one of " + ", ".join(f"`{each}`" for each in field.choices)
    inside = f", see [{field.shape}](#{field.shape})" if field.shape else ""
    return field.kind.value + inside


def _rule_default(field: RuleField) -> str:
    return "required" if field.required else f"`{field.default}`" if field.default else ""


# -- the API -----------------------------------------------------------------------------------


def api() -> Iterator[str]:
    """Describe every route from the schema that the service itself publishes."""
    schema = _schema()
    yield "# HTTP API"
    yield ""
    yield "The service publishes this as OpenAPI at `/api/v1/openapi.json`. Every request needs"
    yield "`Authorization: Bearer TOKEN`; `steward token new` makes one."
    routes = {
        f"{method.upper()} {path}": route
        for path, methods in schema["paths"].items()
        for method, route in methods.items()
    }
    everywhere = _everywhere(routes)
    yield from ("", f"Every address below `{PREFIX}` may also refuse:", "")
    yield from _table(("status", "body", "meaning"), everywhere)
    for title, route in routes.items():
        yield from _route(title, route, everywhere)
    yield from ("", "# Shapes")
    for name, shape in sorted(schema.get("components", {}).get("schemas", {}).items()):
        yield from ("", f"## {name}", "")
        yield from inspect.cleandoc(shape.get("description", "")).splitlines()
        fields = shape.get("properties", {})
        rows = [(f"`{key}`", _shape(each), each.get("description")) for key, each in fields.items()]
        yield from ("", *_table(("field", "type", "meaning"), rows)) if rows else ()
        if "enum" in shape:
            yield from ("", "One of " + ", ".join(f"`{each}`" for each in shape["enum"]) + ".")


def _schema() -> dict[str, Any]:

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate({"store": {"folder": folder}})
        loop = assemble(settings, clock=ManualClock(), collectors=())
        access = Authenticator(Tokens(settings.store.tokens_file), cookie="steward")
        schema = create_api(LiveState(loop, settings), access).openapi()
        loop.close()
    return schema


def _everywhere(routes: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the answers that all routes for programs share: they are listed once."""
    lists = [_answers(route) for title, route in routes.items() if PREFIX in title]
    return [row for row in lists[0] if all(row in rows for rows in lists)]


def _answers(route: Mapping[str, Any]) -> list[Sequence[str]]:
    answers = route["responses"].items()
    return [(code, _content(each), each.get("description", "")) for code, each in answers]


def _route(
    title: str, route: Mapping[str, Any], everywhere: Sequence[Sequence[str]]
) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield from (route.get("description") or _sentence(route.get("summary"))).splitlines()
    rows = [
        (f"`{each['name']}`", each["in"], _shape(each.get("schema", {})), each.get("description"))
        for each in route.get("parameters", ())
    ]
    yield from ("", *_table(("parameter", "in", "type", "meaning"), rows)) if rows else ()
    body = _content(route.get("requestBody", {}))
    yield from ("", f"Takes {body}.") if body else ()
    answers = [row for row in _answers(route) if PREFIX not in title or row not in everywhere]
    yield from ("", *_table(("status", "body", "meaning"), answers))


def _content(part: Mapping[str, Any]) -> str:
    kinds = part.get("content", {})
    return ", ".join(_shape(each.get("schema", {})) or f"`{kind}`" for kind, each in kinds.items())


def _shape(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_shape(each) for each in schema[several])
    if schema.get("type") == "array":
        return f"list of {_shape(schema.get('items', {})) or 'anything'}"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    return str(schema.get("type", ""))


# -- words -------------------------------------------------------------------------------------


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        cells = (" ".join((cell or "").split()).replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def _sentence(text: str | None) -> str:
    said = (text or "").strip()
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith('.') else '.'}" if said else ""


if __name__ == "__main__":
    for variable in [name for name in os.environ if name.startswith("STEWARD_")]:
        del os.environ[variable]
    sys.exit(main(sys.argv[1:]))
