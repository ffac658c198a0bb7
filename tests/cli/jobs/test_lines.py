"""How jobs read on a terminal of 80 columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steward.cli.jobs.lines import WIDTH, job_lines, job_rows
from steward.cli.output import print_json, print_table

COLUMNS = ("id", "name", "user", "state", "since", "GPUs", "why")
LONG: dict[str, Any] = {
    "id": "123456_10000",
    "name": "a-name-that-nobody-would-want-to-type",
    "user": "somebody-with-a-long-name",
    "state": "submitted",
    "since_s": 0.0,
    "asks_for": 8,
    "gpus": [f"a-node-with-a-long-name/gpu{index}" for index in range(8)],
    "why": "on " + "n1/gpu0, " * 8,
    "exit_code": None,
}
SHORT = {**LONG, "id": "7", "name": "hello", "user": "ann", "gpus": [], "why": "it may start"}


def test_a_list_of_jobs_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, job_rows([LONG, SHORT], 59.9 * 60), empty="")

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[1].startswith("123456_10000  a-name-that…  somebod…  submitted  59.9 min  gpu0+7")
    assert lines[2].split()[:3] == ["7", "hello", "ann"]
    assert "(8)" in lines[2]


def test_of_a_job_of_others_nothing_is_shown_that_is_theirs() -> None:
    event = {"t_s": 0.0, "state": "failed", "why": "it could not be started"}
    hidden = {"spec": None, "command": None, "log": None, "fault": None, "checkpoints": []}
    hidden["power"] = None

    lines = job_lines({**SHORT, **hidden, "state": "failed", "events": [event], "exit_code": 127})

    assert lines[0] == "job 7 (hello) of ann: failed"
    assert not [line for line in lines if "command" in line or "log" in line or "folder" in line]
    assert lines[-1].endswith("failed: it could not be started")


def test_json_has_nothing_in_it_that_a_terminal_would_act_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "a\x1b[31m\x9b31m\x7f\u202eb€"

    print_json({"name": name})

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": name}
    assert all(each.isprintable() or each in "\n " for each in printed)


POWER: dict[str, Any] = {
    "max_slowdown_share": 0.05,
    "caps": [{"gpu": "n1/gpu0", "watts": 540.0, "before_watts": 700.0}],
    "refused": None,
    "curve": [
        {
            "limit_watts": 540.0,
            "steps_per_s": 19.4,
            "gpu_watts": 533.0,
            "joules_per_step": 27.5,
            "slowdown_share": 0.03,
            "windows": 3,
        }
    ],
    "saved_joules": 7.2e6,
}


def test_a_job_that_may_be_slower_shows_its_cap_its_curve_and_what_it_saved() -> None:
    found = {"spec": None, "command": None, "log": None, "fault": None, "checkpoints": []}
    lines = "\n".join(job_lines({**SHORT, **found, "events": [], "power": POWER}))
    refused = {**POWER, "caps": [], "curve": [], "saved_joules": 0.0, "refused": "not root"}
    other = "\n".join(job_lines({**SHORT, **found, "events": [], "power": refused}))

    assert "power: 5 % slower is allowed, capped at 540 W (700 before)" in lines
    assert "540 W: 19.4 steps/s, 533 W drawn, 27.5 J/step, 3.0% slower" in lines
    assert "saved: 2 kWh" in lines
    assert "no cap now" in other
    assert "refused: not root" in other
    assert "saved" not in other
