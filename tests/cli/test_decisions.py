"""`steward decisions`: what was decided and why, and a person's word on it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from factories import decision, finding, outcome, preempt, start
from fake_slurm import FakeSlurm
from local_socket import listening
from steward.cli.decisions import STATES
from steward.model.actions import Action, Drain, Preempt
from steward.model.decision import DecisionState
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.yardstick import STOP_COST
from steward.store.journal import open_journal
from told import Answer, steward, told


def test_decisions_are_listed_newest_first(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("decisions", "list", "--data", tmp_path)

    lines = answer.out.splitlines()
    assert answer.code == 0
    assert lines[0].split() == ["id", "decided", "state", "what", "measured", "because"]
    assert [line.split()[0] for line in lines[1:]] == [
        "d-back",
        "d-active",
        "d-advised",
        "d-waiting",
        "d-done",
    ]
    assert "0.71 GPU-hours" in lines[-1]
    assert "Lend 1 GPU of job j1 to job j2" in lines[-1]


def test_a_list_tells_what_a_stop_cost(tmp_path: Path) -> None:
    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as journal:
        stop_cost = outcome("d-stop", gained=-900.0, yardstick=STOP_COST)
        journal.append([preempt("d-stop"), stop_cost])

    answer = steward("decisions", "list", "--data", tmp_path)

    assert "-0.25 GPU-hours" in answer.out


def test_a_list_is_plain_when_it_is_piped(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("decisions", "list", "--data", tmp_path)

    assert "\x1b" not in answer.out
    assert "│" not in answer.out


@pytest.mark.parametrize(
    ("state", "ids"),
    [("waiting", ["d-waiting"]), ("done", ["d-done"]), ("active", ["d-active"]), ("failed", [])],
)
def test_a_list_can_be_narrowed_to_a_state(tmp_path: Path, state: str, ids: list[str]) -> None:
    told(tmp_path)

    answer = steward("decisions", "list", "--data", tmp_path, "--state", state, "--json")

    assert [each["id"] for each in answer.json] == ids
    assert all(each["state"] == state for each in answer.json)


def test_a_list_that_is_cut_says_so(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("decisions", "list", "--data", tmp_path, "--limit", 2)

    assert len(answer.out.splitlines()) == 3
    assert "only the newest 2 are shown; --limit shows more" in answer.err


def test_every_state_can_be_asked_for() -> None:
    assert tuple(state.value for state in DecisionState) == STATES


def test_an_unknown_state_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    answer = steward("decisions", "list", "--data", told(tmp_path), "--state", "wating")

    assert answer.code == 2
    assert "there is no state called 'wating'; known: " in answer.err
    assert "did you mean 'waiting'?" in answer.err


def test_an_empty_list_is_said_beside_the_answer(tmp_path: Path) -> None:
    answer = steward("decisions", "list", "--data", told(tmp_path), "--state", "failed")

    assert (answer.code, answer.out) == (0, "")
    assert "no failed decisions" in answer.err


def test_asking_a_folder_without_a_journal_makes_none(tmp_path: Path) -> None:
    answer = steward("decisions", "list", "--data", tmp_path / "new")

    assert answer.code == 2
    assert "there is no journal here yet" in answer.err
    assert "--data" in answer.err
    assert not (tmp_path / "new").exists()


# -- explain -----------------------------------------------------------------------------------


def test_a_decision_is_explained_from_its_samples_to_its_outcome(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("decisions", "explain", "d-done", "--data", tmp_path)

    assert answer.code == 0
    for part in (
        "decision d-done: done",
        "Lend 1 GPU of job j1 to job j2",
        "j1 left n1/gpu0 idle",
        "0.0833 GPU-hours (0.0278 to 0.139) after 10 min",
        "Give 1 GPU back to job j1 from job j2",
        "idle.remaining_s of n1/gpu0 is 1,800 (600 to 3,600)",
        "ask: a person has to approve",
        "approve: by ann: go on",
        "done: started j2",
        "final: 0.71 GPU-hours",
        "finding f-j1: j1 is idle",
        "n1/gpu0 gpu.busy_share: 0 % busy",
        "lowest 0.01, mean 0.0842, highest 0.9, 60 samples",
        "█████▁",
    ):
        assert part in answer.out, part


def test_an_explanation_as_json_holds_the_samples(tmp_path: Path) -> None:
    told(tmp_path)

    story = steward("decisions", "explain", "d-done", "--data", tmp_path, "--json").json

    assert story["state"] == "done"
    assert story["gained_gpu_seconds"] == 2556.0
    assert story["story"]["choices"][0]["user"] == "ann"
    assert len(story["samples"]["n1/gpu0 gpu.busy_share"]) == 60


def test_a_decision_without_findings_is_explained_too(tmp_path: Path) -> None:
    answer = steward("decisions", "explain", "d-active", "--data", told(tmp_path))

    assert answer.code == 0
    assert "go: within budget" in answer.out
    assert "finding" not in answer.out


def test_a_way_back_has_no_undo(tmp_path: Path) -> None:
    answer = steward("decisions", "explain", "d-back", "--data", told(tmp_path))

    assert "it is itself a way back" in answer.out


def test_findings_and_samples_that_are_gone_are_said(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([decision("d-1", findings=("f-gone",)), decision("d-2"), finding("j1")])
    journal.close()

    first = steward("decisions", "explain", "d-1", "--data", tmp_path)
    second = steward("decisions", "explain", "d-2", "--data", tmp_path)

    assert "1 of its findings are not in the journal any more" in first.out
    assert "its samples are not there any more" in second.out


def test_an_unknown_decision_names_the_nearest(tmp_path: Path) -> None:
    answer = steward("decisions", "explain", "d-don", "--data", told(tmp_path))

    assert answer.code == 2
    assert "there is no decision 'd-don'" in answer.err
    assert "did you mean 'd-done'?" in answer.err


# -- a person's word ---------------------------------------------------------------------------


def test_an_approval_is_in_the_journal_with_its_user(tmp_path: Path) -> None:
    told(tmp_path)

    answer = steward("decisions", "approve", "d-waiting", "--data", tmp_path, "--note", "fine")

    assert answer.code == 0
    story = steward("decisions", "explain", "d-waiting", "--data", tmp_path, "--json").json
    assert story["state"] == "approved"
    assert story["story"]["choices"][0]["user"] == getpass.getuser()
    assert story["story"]["choices"][0]["note"] == "fine"


@pytest.mark.parametrize(
    ("word", "id_", "state"),
    [
        ("reject", "d-waiting", "rejected"),
        ("undo", "d-active", "active"),  # until the loop has done it
        ("approve", "d-advised", "approved"),
    ],
)
def test_each_word_changes_the_state(tmp_path: Path, word: str, id_: str, state: str) -> None:
    told(tmp_path)

    answer = steward("decisions", word, id_, "--data", tmp_path, "--json")

    assert (answer.json["choice"], answer.json["decision"]) == (word, id_)
    story = steward("decisions", "explain", id_, "--data", tmp_path, "--json").json
    assert story["state"] == state


@pytest.mark.parametrize(
    ("word", "id_"),
    [("approve", "d-done"), ("reject", "d-advised"), ("undo", "d-waiting"), ("undo", "d-back")],
)
def test_what_cannot_be_said_any_more_is_refused(tmp_path: Path, word: str, id_: str) -> None:
    told(tmp_path)

    answer = steward("decisions", word, id_, "--data", tmp_path, "--json")

    assert answer.code == 2
    assert set(answer.json["error"]) == {"problem", "where", "hint"}
    assert answer.json["error"]["where"] == f"decision {id_}"


# -- completion --------------------------------------------------------------------------------


def completions(words: str, **environment: str) -> list[str]:
    count = str(len(words.split()) - (0 if words.endswith(" ") else 1))
    given = {
        "_STEWARD_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": count,
        **environment,
    }
    return steward(**given).out.split()


def test_ids_of_decisions_are_completed(tmp_path: Path) -> None:
    told(tmp_path)

    found = completions("steward decisions explain d-a", STEWARD_STORE__FOLDER=str(tmp_path))

    assert found == ["d-active", "d-advised"]


def test_completion_in_an_empty_folder_says_nothing(tmp_path: Path) -> None:
    found = completions("steward decisions explain d-", STEWARD_STORE__FOLDER=str(tmp_path / "x"))

    assert found == []
    assert not (tmp_path / "x").exists()


def test_states_are_completed() -> None:
    assert completions("steward decisions list --state re") == ["rejected"]


def test_a_store_that_may_only_be_read_is_listed_explained_and_reported(
    tmp_path: Path, read_only: Callable[[Path], AbstractContextManager[None]]
) -> None:
    told(tmp_path / "store")

    with read_only(tmp_path / "store"):
        listed = steward("decisions", "list", "--data", tmp_path / "store")
        explained = steward("decisions", "explain", "d-done", "--data", tmp_path / "store")
        report = steward("report", "--data", tmp_path / "store")
        refused = steward("decisions", "approve", "d-waiting", "--data", tmp_path / "store")

    assert (listed.code, explained.code, report.code) == (0, 0, 0), (listed, explained, report)
    assert "d-done" in listed.out
    assert refused.code == 2


def allow(folder: Path, tenant: str) -> Answer:
    asked = ("--tenant", tenant, "--action", "lend", "--hours", 4, "--gpus", 16)
    return steward("decisions", "allow", *asked, "--data", folder)


def test_a_tenant_that_nobody_has_seen_is_not_approved_in_advance(tmp_path: Path) -> None:
    told(tmp_path)
    known = decision().tenant

    refused, made = allow(tmp_path, f"{known}x"), allow(tmp_path, known)

    assert refused.code == 2
    assert f"no tenant called '{known}x'" in refused.err
    assert made.code == 0
    listed = steward("decisions", "approvals", "--data", tmp_path, "--json").json
    assert [each["tenant"] for each in listed] == [known]
    assert listed[0]["until_s"] == listed[0]["t_s"] + 4 * 3600.0


def test_a_steward_that_runs_is_asked_to_approve_in_advance(tmp_path: Path) -> None:
    told(tmp_path)
    said = {"id": "a-1", "user": "ann"}

    with listening(tmp_path / "steward.sock", 201, said) as came:
        answer = allow(tmp_path, "bio")

    ((path, body),) = came
    assert path == "/api/v1/approvals"
    assert body == {"tenant": "bio", "action": "lend", "hours": 4.0, "gpus": 16, "note": ""}
    assert "a-1: ann approved 'lend' for bio for 4 h" in answer.out
    assert steward("decisions", "approvals", "--data", tmp_path, "--json").json == []


# -- by hand -------------------------------------------------------------------------------------


def decided(folder: Path, action: Action) -> Path:
    with closing(open_journal(f"sqlite:///{folder}/journal.sqlite3")) as journal:
        journal.append([decision("d-1", action=action, t_s=1794967300.0)])
    return folder


def test_on_this_machine_the_commands_are_stewards_own(tmp_path: Path) -> None:
    decided(tmp_path, Preempt(job=JobId("7"), gpus=(GpuId("n1/gpu0"),)))

    answer = steward("decisions", "commands", "d-1", "--data", tmp_path)

    assert (answer.code, answer.out) == (0, "steward jobs preempt 7\n")
    assert "local: " in answer.err


@pytest.mark.skipif(os.geteuid() != 0, reason="the recorded jobs are root's")
def test_the_engine_that_is_looked_at_is_the_one_that_a_person_types_for(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    FakeSlurm(bin_).controller()
    config = tmp_path / "steward.toml"
    slurm = f"[plugs.slurm]\nfolder = '{bin_}:/bin:/usr/bin'\n"
    config.write_text(f"[observe]\ncollectors = ['slurm']\n{slurm}")
    where = ("--config", config, "--data", decided(tmp_path, start(job="18").action))

    answer = steward("decisions", "commands", "d-1", *where)
    as_json = steward("decisions", "commands", "d-1", *where, "--json").json

    assert (answer.code, answer.out) == (0, "scontrol release 18\n")
    assert (as_json["engine"], as_json["commands"]) == ("slurm", ["scontrol release 18"])
    calls = (bin_ / "calls").read_text().splitlines()
    assert {*calls} <= {"ping", "show config", "--version"}


def test_what_the_engine_cannot_do_has_no_command(tmp_path: Path) -> None:
    decided(tmp_path, Drain(node=NodeId("n1"), gpus=()))

    answer = steward("decisions", "commands", "d-1", "--data", tmp_path)

    assert (answer.code, answer.out) == (1, "")
    assert "the local engine cannot drain" in answer.err


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            "actuator = 'slurm'\n[plugs.slurm]\nfolder = '/nonexistent'",
            "no scontrol on this machine",
        ),
        ("actuator = 'kubernetes'", "no cluster is configured"),
    ],
)
def test_an_engine_that_is_not_there_is_a_fault_and_no_answer(
    tmp_path: Path, config: str, problem: str
) -> None:
    decided(tmp_path, Preempt(job=JobId("7"), gpus=()))
    (tmp_path / "steward.toml").write_text(f"[act]\n{config}\n")
    where = ("--config", tmp_path / "steward.toml", "--data", tmp_path)

    answer = steward("decisions", "commands", "d-1", *where, KUBECONFIG=None)

    assert (answer.code, answer.out) == (2, "")
    assert problem in answer.err
    assert "hint:" in answer.err


def test_advice_says_where_its_commands_are(tmp_path: Path) -> None:
    open_one = steward("decisions", "explain", "d-advised", "--data", told(tmp_path)).out
    over = steward("decisions", "explain", "d-done", "--data", tmp_path).out

    assert "by hand   steward decisions commands d-advised" in open_one
    assert "by hand" not in over
