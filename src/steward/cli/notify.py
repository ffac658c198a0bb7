"""`steward notify`: who is told what happens, and what people do not want to be told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steward.cli.options import Config, Data, Json, login_name, read_draft, read_settings
from steward.cli.output import print_json, print_lines, print_note, print_table
from steward.cli.words import moment, seconds, span
from steward.errors import StewardError, unknown_name

if TYPE_CHECKING:
    from pathlib import Path

    from steward.config import Settings

__all__ = ["app"]

app = typer.Typer(
    help="Messages to people: try receivers, see what waits, mute.", rich_markup_mode=None
)

Receiver = Annotated[str, typer.Argument(metavar="NAME", help="A receiver: `[messages.NAME]`.")]
ForLong = Annotated[
    str, typer.Option("--for", metavar="TIME", help="For how long, such as 8h or 14d.")
]
JobName = Annotated[str, typer.Option("--job", metavar="ID", help="Only what is about this job.")]
Kind = Annotated[
    str,
    typer.Option(
        "--kind", help="Only: finding, approval, decision, advice, job, alert or steward."
    ),
]
ForUser = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="USER", help="Whose messages; for operators. '' is everybody's."
    ),
]


@app.command(name="test")
def send_test(
    name: Receiver, *, config: Config = None, data: Data = None, as_json: Json = False
) -> None:
    """Send one message to a receiver now, and print what became of it.

    Exits with 1 if the receiver did not take it. What the receiver gets otherwise does not matter.
    """
    from steward.config.messages import receivers_of
    from steward.model.finding import Severity
    from steward.model.message import Message

    settings = _checked(config, data)
    if name not in settings.messages:
        if not settings.messages:
            hint = 'add one: [messages.ops] with form = "slack" and url_file = "…"'
            raise StewardError("the configuration has no receivers", where="[messages]", hint=hint)
        raise unknown_name("receiver", name, settings.messages, where="[messages]")
    found = {each.name: each for each in receivers_of(_only(settings, name))}[name]
    message = Message(
        key="test",
        t_s=time.time(),
        kind="test",
        severity=Severity.NOTE,
        title="a test of steward's messages",
        text=f"{login_name()} tried the receiver '{name}' of {settings.site.name}",
        advice="nothing to do",
        user=login_name(),
    )
    fault: StewardError | None = None
    try:
        found.receiver.send([message])
    except StewardError as raised:
        fault = raised
    record = {"receiver": name, "where": found.receiver.where, "sent": fault is None}
    record |= {"fault": fault.as_record()} if fault is not None else {}
    if as_json:
        print_json(record)
    elif fault is None:
        print_lines([f"{name}: {found.receiver.where} took it"])
    else:
        print_lines([f"{name}: {fault}", *([f"  {fault.hint}"] if fault.hint else [])])
    raise typer.Exit(0 if fault is None else 1)


@app.command(name="list")
def list_(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List the receivers, what waits for them, and what they refused."""
    settings = _checked(config, data)
    waiting, dropped = _state(settings)
    if as_json:
        receivers = {
            name: {**each.model_dump(mode="json"), "waiting": len(waiting.get(name, []))}
            for name, each in settings.messages.items()
        }
        print_json({"receivers": receivers, "waiting": waiting, "dropped": dropped})
        return
    rows = [
        (
            name,
            each.form.value,
            ", ".join(each.kinds) or "all",
            each.least,
            str(len(waiting.get(name, []))),
            next((one["fault"] for one in waiting.get(name, []) if one["fault"]), ""),
        )
        for name, each in settings.messages.items()
    ]
    columns = ("receiver", "form", "kinds", "least", "waiting", "last fault")
    print_table(columns, rows, empty="no receivers: nobody is told anything")
    for each in dropped[:10]:
        print_lines([f"refused by {each['receiver']}: {each['title']}: {each['fault']}"])


@app.command()
def mute(  # noqa: PLR0913 - a command's options are its parameters
    *,
    for_long: ForLong = "7d",
    job: JobName = "",
    kind: Kind = "",
    user: ForUser = None,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Stop messages for a while: yours, about one job, of one kind."""
    body: dict[str, Any] = {"for_s": seconds(for_long, where="--for"), "job": job, "kind": kind}
    if user is not None:
        body["user"] = user
    made = _there(_service(config, data).post("mutes", body=body), config, data)
    if as_json:
        print_json(made)
    else:
        print_lines([f"{made['id']}: {_sentence(made)}"])


@app.command()
def mutes(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List the mutes that hold."""
    found = _there(_service(config, data).get("mutes"), config, data)["items"]
    if as_json:
        print_json(found)
        return
    rows = [(each["id"], _sentence(each), each["made_by"]) for each in found]
    print_table(("id", "what is not sent", "by"), rows, empty="nothing is muted")


@app.command()
def unmute(
    mute_id: Annotated[str, typer.Argument(metavar="ID", help="A mute: `notify mutes`.")],
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send those messages again."""
    ended = _there(_service(config, data).delete("mutes", mute_id), config, data)
    if as_json:
        print_json(ended)
        return
    print_lines([f"{ended['id']} is over"])
    print_note("what happened meanwhile is not sent any more")


def _sentence(mute: dict[str, Any]) -> str:
    what = f"{mute['kind']} messages" if mute["kind"] else "messages"
    whose = f" to {mute['user']}" if mute["user"] else " to anybody"
    about = f" about job {mute['job']}" if mute["job"] else ""
    left = span(max(0.0, mute["until_s"] - time.time()))
    return f"no {what}{whose}{about} until {moment(mute['until_s'])} ({left})"


def _checked(config: Path | None, data: Path | None) -> Settings:
    """Return settings of which the receivers, at least, are right."""
    from steward.config import SettingsError

    draft = read_draft(config, data)
    wrong = [each for each in draft.mistakes if each.key.startswith("messages")]
    if wrong:
        raise SettingsError(tuple(wrong), where=draft.where)
    return draft.settings


def _only(settings: Settings, name: str) -> Settings:
    return settings.model_copy(update={"messages": {name: settings.messages[name]}})


def _state(settings: Settings) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return what waits for each receiver, and what was given up."""
    from dataclasses import asdict

    from steward.config.messages import OUTBOX, open_outbox

    waiting: dict[str, list[dict[str, Any]]] = {}
    if not (settings.store.path / OUTBOX).is_file():
        return waiting, []
    outbox = open_outbox(settings)
    try:
        for each in outbox.pending():
            record = {"title": each.message.title, "due_s": each.due_s, "fault": each.fault}
            waiting.setdefault(each.receiver, []).append(record)
        return waiting, [asdict(each) for each in outbox.dropped()]
    finally:
        outbox.close()


def _service(config: Path | None, data: Path | None) -> Any:  # noqa: ANN401 - imported late
    from steward.clients.local_service import LocalService

    return LocalService(read_settings(config, data).socket_path)


def _there(answer: Any, config: Path | None, data: Path | None) -> Any:  # noqa: ANN401 - JSON
    if answer is None:
        raise StewardError(
            "no steward runs here",
            where=str(read_settings(config, data).socket_path),
            hint="start it with `steward up`",
        )
    return answer
