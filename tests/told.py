"""A journal with one of everything in it, and a command line to ask it with."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from typer.main import get_command

from factories import call_back, decision, finding, outcome, receipt, samples
from steward.cli.app import app
from steward.model.decision import Choice, Ruling, Verdict
from steward.model.forecast import Forecast
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry

T_S = 1_700_000_000.0
COMMAND = get_command(app)  # made once: that takes 50 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def steward(*args: object, **environment: str | None) -> Answer:
    """Run the command line in this process, away from the user's own configuration."""
    away = {"HOME": "/nonexistent", "STEWARD_CONFIG": None, "XDG_CONFIG_HOME": None}
    result = CliRunner().invoke(COMMAND, [str(each) for each in args], env={**away, **environment})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(code=result.exit_code, out=result.stdout, err=result.stderr)


def told(folder: Path) -> Path:
    """Fill a store: one decision done, one waiting, one advised, one active, one call-back."""
    journal = open_journal(f"sqlite:///{folder}/journal.sqlite3")
    belief = Forecast(
        subject="n1/gpu0", quantity="idle.remaining_s", low=600, mid=1800, high=3600, basis="test"
    )
    done = decision("d-done", t_s=T_S, forecasts=(belief,), because="j1 left n1/gpu0 idle")
    waiting, advised = decision("d-waiting", t_s=T_S + 60), decision("d-advised", t_s=T_S + 70)
    active = decision("d-active", t_s=T_S + 80, findings=())
    noticed = finding("j1", "n1/gpu0", since_s=T_S - 600)
    evidence = tuple(replace(each, to_s=T_S) for each in noticed.evidence)
    journal.append(
        [
            replace(noticed, t_s=T_S, evidence=evidence),
            done,
            Verdict(decision=done.id, t_s=T_S, ruling=Ruling.ASK, why="a person has to approve"),
            Choice(decision=done.id, t_s=T_S + 5, choice="approve", user="ann", note="go on"),
            replace(receipt(done, t_s=T_S + 6), text="started j2"),
            outcome("d-done", t_s=T_S + 600, gained=2556.0, final=True, text="it worked"),
            waiting,
            Verdict(decision=waiting.id, t_s=T_S + 60, ruling=Ruling.ASK, why="approve mode"),
            advised,
            Verdict(decision=advised.id, t_s=T_S + 70, ruling=Ruling.ADVISE, why="advice only"),
            active,
            Verdict(decision=active.id, t_s=T_S + 80, ruling=Ruling.GO, why="within budget"),
            receipt(active, t_s=T_S + 81),
            replace(call_back(done), t_s=T_S + 90),
        ]
    )
    journal.close()
    telemetry = Telemetry(folder / "telemetry")
    for i in range(60):
        row = {"gpu.busy_share": 0.9 if i < 5 else 0.01}
        telemetry.append(samples(T_S - 600 + i * 10, {"n1/gpu0": row}))
    telemetry.flush()
    return folder
