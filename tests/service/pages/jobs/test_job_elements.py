"""How jobs look: in words, with what is known of their start, and nothing broken into."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.job_records import EVIL, loan, record
from steward.errors import StewardError
from steward.model.cluster_snapshot import ClusterSnapshot, QueuedJob, RunningJobRow
from steward.model.managed_job import LifeState
from steward.service.pages.jobs.elements import (
    cells,
    cost_tiles,
    headline,
    loan_table,
    log_text,
    reason,
    refusal,
    starts_text,
    task_table,
    what_runs,
    why_waits,
)
from steward.service.pages.jobs.one_job import possible_changes
from steward.service.pages.jobs.simulated import lent_table, seen_table
from steward.service.pages.jobs.state_words import GROUPS, state_chip, state_word

ETA = {"low_s": 60.0, "mid_s": 120.0, "high_s": 240.0, "unknown": [], "beyond": False}
WHY = {
    "summary": "it waits behind 1 jobs",
    "limits": ["it asks for 2 GPUs, and 1 of 4 are free"],
    "holders": [],
    "ahead": [{"id": "7", "name": "big", "user": "bob", "gpus": 4, "time_limit_s": 3600.0}],
    "eta": ETA,
    "changes": [{"what": "gpus", "value": "1", "text": "ask for 1 GPUs"}],
    "now_s": 0.0,
}
COST = dict.fromkeys(
    (f"{x}_gpu_s" for x in ("paid", "productive", "lost", "unsaved", "lent", "borrowed")), 0.0
)


def test_every_state_has_words_and_is_in_one_group_of_open_or_ended_ones() -> None:
    assert all(state_word(each.value) for each in LifeState)
    assert {*GROUPS["open"]} | {*GROUPS["ended"]} == {*LifeState}
    assert not {*GROUPS["waiting"]} & {*GROUPS["running"]}
    assert state_word("dreaming") == "dreaming"
    assert "dreaming" in state_chip("dreaming")


def test_a_line_has_user_tenant_state_need_and_times() -> None:
    shown = " ".join(cells({**record(), "eta": None}, 120.0))

    for word in ("ann", "bio", "runs", "2 GPUs", "1 min"):
        assert word in shown
    assert "slot" in " ".join(cells(record(on_slots=True, asks_for=1), 120.0))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "in 2 min (from 1 min, to 4 min)"),
        ({"high_s": None}, "in 2 min (from 1 min, no latest)"),
        ({"high_s": 1e9}, "in 2 min (from 1 min, to over 30 d)"),
        ({"beyond": True}, "in more than 2 min"),
        ({"mid_s": None}, "unknown"),
    ],
)
def test_a_start_is_told_with_its_interval_as_far_as_it_is_known(
    change: dict[str, object], text: str
) -> None:
    assert starts_text({**ETA, **change}, 0.0) == text


def test_why_a_job_waits_names_who_is_ahead_the_limit_the_time_and_what_would_help() -> None:
    shown = why_waits(WHY)

    for word in ("It waits behind", "2 GPUs, and 1 of 4", "7 big", "of bob", "Starts in 2 min"):
        assert word in shown
    assert "ask for 1 GPUs" in shown
    assert 'href="/jobs/7"' in shown


def test_a_start_that_nobody_knows_is_not_invented() -> None:
    unknown = {**ETA, "low_s": None, "mid_s": None, "high_s": None, "unknown": ["7"]}

    assert "Nobody knows when 7 end" in why_waits({**WHY, "eta": unknown})
    assert "never starts" in why_waits({**WHY, "eta": {**unknown, "unknown": []}})


def test_the_headline_tells_what_everybody_may_know() -> None:
    ended = record(("waiting", 0.0), ("running", 60.0), ("failed", 180.0), exit_code=3)

    shown = headline(ended, 240.0)

    for word in ("train", "job 12", "failed", "of ann", "waited 1 min", "ran 2 min", "status 3"):
        assert word in shown
    assert "train.py" not in shown + reason(ended, 240.0)


def test_a_fault_of_steward_about_a_job_is_shown_with_its_hint() -> None:
    fault = {"problem": "the disk is full", "where": "", "hint": "make room"}

    shown = reason(record(fault=fault), 90.0)

    assert "the disk is full" in shown
    assert "make room" in shown
    assert "Why running, for 30 s now." in shown


def test_cost_is_of_gpus_or_of_slots() -> None:
    shown = cost_tiles({**COST, "paid_gpu_s": 7200.0, "lost_gpu_s": 3600.0}, "slot")

    assert "2.00 slot-h" in shown
    assert shown.count("st-is-bad") == 1
    assert "st-is-bad" not in cost_tiles(COST, "GPU")


def test_what_runs_has_command_limits_and_a_long_script_cut() -> None:
    spec = {**record()["spec"], "script": "#!/bin/sh\n" + "true\n" * 500}
    spec |= {"dependencies": [{"job": "3", "when": "afterok"}]}

    shown = what_runs(record(spec=spec))

    for word in ("python3 train.py", "/home/ann", "1 h 00 min", "afterok:3", "101 more lines"):
        assert word in shown


def test_a_log_is_text_without_colours_and_overwritten_lines() -> None:
    assert log_text("\x1b[1;31mred\x1b[0m\r\n 1 %\r 50 %\r100 %\nend\x07\n") == "red\n100 %\nend\n"


def test_loans_tell_who_how_and_whether_it_was_in_time() -> None:
    named = {"owner": "12", "borrower": "13"}
    late = {**loan(until_s=80.0, took_s=9.0, way="suspended"), **named}

    shown = loan_table([{**loan(gpus=["a", "b"]), **named}, late], 100.0)

    for word in ("still lent", "within 5.0 s", "in 9.0 s, late", "owner suspended", ">2<"):
        assert word in shown
    assert "failed: no room" in loan_table([{**late, "failed": "no room"}], 100.0)
    assert "Nothing is lent" in loan_table([], 100.0)


def test_an_array_lists_its_tasks_and_counts_those_that_are_too_many() -> None:
    tasks = [record(id=f"12_{at}") for at in range(203)]

    shown = task_table(tasks, 100.0)

    assert 'href="/jobs/12_0"' in shown
    assert "and 3 more tasks" in shown


@pytest.mark.parametrize(
    ("state", "given", "changes"),
    [
        ("waiting", {}, ("hold", "cancel")),
        ("held", {}, ("release", "cancel")),
        ("held", {"attempts": [{}]}, ("resume", "cancel")),
        ("running", {}, ("save", "preempt", "cancel")),
        ("running", {"can_save": False}, ("cancel",)),
        ("saving", {}, ("cancel",)),
        ("finished", {}, ()),
    ],
)
def test_only_what_is_possible_in_a_state_is_offered(
    state: str, given: dict[str, object], changes: tuple[str, ...]
) -> None:
    assert possible_changes(record((state, 0.0), **given)) == changes


def test_what_is_possible_for_a_task_is_offered_for_its_array() -> None:
    tasks = [record(("held", 0.0)), record(("finished", 0.0))]

    assert possible_changes({"tasks": tasks}) == ("release", "cancel")


def test_who_cannot_submit_reads_why_and_how_it_is_done() -> None:
    shown = refusal(StewardError("'eve' is no account", where="jobs", hint="set token_accounts"))

    for word in ("&#x27;eve&#x27; is no account", "token_accounts", "steward jobs submit"):
        assert word in shown


def test_jobs_of_a_view_are_listed_to_be_read_only() -> None:
    common = {"name": "train", "user": "ann", "tenant": "bio", "gpus": 2}
    runs = RunningJobRow(id="1", nodes=("n1",), **common)  # type: ignore[arg-type]
    waits = QueuedJob(id="2", priority=0, waiting_s=90.0, deadline_s=None, **common)  # type: ignore[arg-type]
    view = ClusterSnapshot(t_s=0.0, nodes=(), queue=(), running=(), tenants=(), states={})

    shown = seen_table(replace(view, running=(runs,) * 101, queue=(waits,)))

    for word in ("101 jobs run, 1 wait", "on n1", "1 min", "and 1 more job"):
        assert word in shown
    assert "href" not in shown
    assert "No jobs" in seen_table(view)
    assert "Nothing is lent" in lent_table(view)


def test_names_from_elsewhere_cannot_become_markup() -> None:
    fault = {"problem": EVIL, "hint": EVIL, "where": EVIL}
    spec = {**record()["spec"], "script": EVIL, "folder": EVIL}
    given = {"name": EVIL, "user": EVIL, "tenant": EVIL, "why": EVIL, "command": [EVIL]}
    evil = record(**given, fault=fault, spec=spec, gpus=[EVIL])
    who = [{"id": EVIL, "name": EVIL, "user": EVIL, "gpus": 1, "time_limit_s": None}]
    texts = {"summary": EVIL, "limits": [EVIL], "changes": [{"text": EVIL}], "ahead": who}

    pieces = (
        *cells(evil, 90.0),
        headline(evil, 90.0),
        reason(evil, 90.0),
        what_runs(evil),
        why_waits({**WHY, **texts}),
        loan_table([{**loan(way=EVIL), "owner": EVIL, "borrower": EVIL}], 90.0),
        task_table([evil], 90.0),
        refusal(StewardError(EVIL, hint=EVIL)),
    )

    assert all("<script" not in piece for piece in pieces)
