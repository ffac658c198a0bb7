"""What Slurm's commands print becomes jobs and nodes, whatever the version."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_slurm import FakeSlurm
from patience import LONG_S
from steward.clients.slurm import SlurmCommands, SlurmError, SlurmJob, SlurmMissingError
from steward.clients.slurm.jobs import job_from_json
from steward.clients.slurm.json_stream import read_entries
from steward.clients.slurm.program import SlurmPrograms
from steward.clients.slurm.refusals import reason_in
from steward.clients.slurm.syntax import gres, hosts, number
from steward.errors import StewardError


def commands(folder: Path, *, version: str = "22.05", timeout_s: float = LONG_S) -> SlurmCommands:
    FakeSlurm(folder, version=version)
    return SlurmCommands(folder=f"{folder}:/bin:/usr/bin", timeout_s=timeout_s)


def by_id(jobs: list[SlurmJob]) -> dict[str, SlurmJob]:
    return {job.id: job for job in jobs}


# -- recorded ------------------------------------------------------------------------------------


def test_every_recorded_job_of_22_05_is_read(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path).jobs())

    assert len(jobs) == 14
    train = jobs["1"]
    assert (train.user, train.account, train.partition, train.states) == (
        "root",
        "bio",
        "gpu",
        ("RUNNING",),
    )
    assert (train.gpus, train.gpu_types, train.cpus) == (2, ("a100",), 4)
    assert (train.memory_bytes, train.limit_s) == (4 * 2**30, 3600.0)
    assert train.gres[0][0].indices == (0, 1)
    assert jobs["5"].exclusive
    assert jobs["5"].nodes == ("n2", "n3")


def test_exit_codes_and_signals_of_22_05_are_distinguished(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path).jobs())

    assert (jobs["2"].exit_code, jobs["2"].signal) == (3, 0)
    assert (jobs["3"].exit_code, jobs["3"].signal) == (0, 11)


def test_a_job_that_waits_has_neither_start_nor_end(tmp_path: Path) -> None:
    waiting = by_id(commands(tmp_path).jobs())["10"]

    assert waiting.states == ("PENDING",)
    assert (waiting.start_s, waiting.end_s, waiting.reason) == (None, None, "BeginTime")


def test_tasks_of_an_array_keep_their_raw_id_and_report_their_place(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path).jobs())

    assert [jobs[id_].array for id_ in ("12", "13", "6")] == ["6_0", "6_1", "6_2"]


def test_a_name_that_is_no_utf8_hides_nothing_else(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path).jobs())

    assert jobs["14"].name.startswith("caf\ufffd")


def test_nodes_of_22_05_come_from_sinfo_because_scontrol_has_no_json(tmp_path: Path) -> None:
    nodes = {node.name: node for node in commands(tmp_path).nodes()}

    assert nodes["n3"].states == ("DOWN",)
    assert nodes["n4"].states == ("MIXED", "DRAIN")
    assert (nodes["n4"].reason, nodes["n4"].reason_s) == ("bad ECC on gpu3", 1794751585.0)
    assert [(each.type, each.count) for each in nodes["n1"].gres] == [("a100", 8)]


def test_accounting_reports_the_exit_code_that_its_json_does_not(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path).ended(past_s=3600))

    assert (jobs["2"].states, jobs["2"].exit_code) == (("FAILED",), 3)
    assert (jobs["11"].states, jobs["11"].end_s) == (("CANCELLED",), 1794751584.0)
    assert (jobs["7"].limit_s, jobs["7"].nodes, jobs["1"].end_s) == (None, (), None)


def test_accounts_have_their_shares_and_limits_and_users_are_left_out(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.accounting(
        *fake.recorded("sacctmgr-assoc.txt").decode().split("\n"),
        "cut|short",
        qos=fake.recorded("sacctmgr-qos.txt").decode().split("\n"),
    )

    found = SlurmCommands(folder=f"{tmp_path}:/bin:/usr/bin", timeout_s=LONG_S).accounting()

    accounts = {each.name: (each.parent, each.shares, each.gpu_limit) for each in found.of("bed")}
    assert accounts == {
        "root": ("", 1, None),
        "bio": ("root", 30, 16),
        "group": ("root", 1, None),
        "nlp": ("group", 3, None),
        "vision": ("root", 1, None),
    }
    assert found.qos_gpu_limits == (("boost", 4),)
    assert found.of("another") == found.accounts  # its name is not known yet


# -- the newer shape -----------------------------------------------------------------------------


def test_the_newer_shape_reports_the_same_things(tmp_path: Path) -> None:
    jobs = by_id(commands(tmp_path, version="23.11").jobs())

    assert jobs["812"].gres[0][0].indices == (0, 2, 3, 4)
    assert (jobs["812"].gpus, jobs["812"].gpu_types) == (4, ("h100",))
    assert jobs["813"].exclusive
    assert (jobs["814"].start_s, jobs["814"].limit_s) == (None, None)
    assert (jobs["815"].exit_code, jobs["816"].signal) == (3, 9)
    assert jobs["817"].states == ("CANCELLED", "COMPLETING")
    assert (jobs["818"].restarts, jobs["818"].start_s) == (1, None)
    assert jobs["821"].array == "820_[2-9%2]"


def test_nodes_that_are_only_planned_are_left_out(tmp_path: Path) -> None:
    slurm = commands(tmp_path, version="23.11")

    assert [node.name for node in slurm.nodes()] == ["gpu01", "gpu02", "gpu03", "gpu04", "login"]
    assert slurm.refused == 1


def test_the_shape_between_the_two_is_read_too() -> None:
    """v0.0.39 has plain times, but numbers with `set`, and wait(2)'s status as exit code."""
    job = job_from_json(
        {
            "job_id": 7,
            "job_state": "FAILED",
            "exit_code": {"set": True, "infinite": False, "number": 256},
            "start_time": 5,
            "end_time": 9,
        }
    )

    assert job is not None
    assert (job.exit_code, job.start_s, job.end_s) == (1, 5.0, 9.0)


# -- trouble -------------------------------------------------------------------------------------


def test_an_empty_list_from_a_dead_controller_is_an_error_not_an_empty_queue(
    tmp_path: Path,
) -> None:
    fake = FakeSlurm(tmp_path)
    fake.squeue_prints(fake.recorded("controller-down.json"))

    with pytest.raises(SlurmError, match="Failed while looking for jobs") as caught:
        SlurmCommands(folder=f"{tmp_path}:/bin:/usr/bin").jobs()

    assert "scontrol ping" in caught.value.hint


def test_a_command_that_fails_reports_its_first_line(tmp_path: Path) -> None:
    FakeSlurm(tmp_path).command("squeue", "echo 'squeue: error: no way' >&2; exit 1")

    with pytest.raises(SlurmError, match="no way"):
        SlurmCommands(folder=f"{tmp_path}:/bin").jobs()


def test_a_command_that_hangs_is_ended_at_its_deadline(tmp_path: Path) -> None:
    FakeSlurm(tmp_path).command("squeue", "echo '{\"jobs\": ['; exec sleep 600")
    began_s = time.monotonic()

    with pytest.raises(SlurmError, match=r"no answer within 0\.2 s"):
        SlurmCommands(folder=f"{tmp_path}:/bin", timeout_s=0.2).jobs()

    assert time.monotonic() - began_s < 200


def test_a_machine_without_slurm_this_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SlurmMissingError, match="there is no squeue"):
        SlurmCommands(folder=str(tmp_path)).jobs()


def test_commands_without_a_cluster_say_so_in_words(tmp_path: Path) -> None:
    said = "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host"
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)

    answer = SlurmPrograms(folder=str(tmp_path)).run(("scontrol", "ping"), timeout_s=LONG_S)

    assert "know of no cluster here: set SLURM_CONF" in reason_in(answer)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"hello", b'{"jobs": [{"job_id": 1', b'{"jobs": [{]}', b'{"jobs": [1]} x'],
    ids=["nothing", "a list", "words", "cut off", "broken", "more after the end"],
)
def test_what_is_no_list_of_jobs_is_refused(tmp_path: Path, text: bytes) -> None:
    FakeSlurm(tmp_path).squeue_prints(text)

    with pytest.raises(SlurmError) as caught:
        SlurmCommands(folder=f"{tmp_path}:/bin").jobs()

    assert caught.value.hint


def test_entries_that_are_no_jobs_are_counted_and_hide_no_others(tmp_path: Path) -> None:
    entries = [
        {"job_id": 1, "job_state": "RUNNING", "gres_detail": 7, "nodes": "n[1-9999999]"},
        {"job_id": None, "job_state": []},
        "what",
        {"job_id": 2, "job_state": ["PENDING"], "tres_req_str": "cpu=x,gres/gpu=y,mem=..G"},
        {"job_id": 3, "job_state": ["PENDING"], "exit_code": "huh", "priority": None},
    ]
    FakeSlurm(tmp_path).squeue_prints(json.dumps({"jobs": entries}).encode())
    slurm = SlurmCommands(folder=f"{tmp_path}:/bin")

    assert [job.id for job in slurm.jobs()] == ["3"]
    assert slurm.refused == 4


# -- syntax ---------------------------------------------------------------------------------------


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers()), max_size=8),
    st.integers(1, 40),
)
def test_entries_are_the_same_however_the_text_is_cut(
    entries: list[dict[str, object]], size: int
) -> None:
    text = json.dumps({"meta": {"a": [1]}, "jobs": entries, "errors": ["x"]}, indent=1)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]

    made, refused, rest = read_entries(chunks, "jobs", make=lambda raw: raw)

    assert (made, refused) == (entries, 0)
    assert rest == {"meta": {"a": [1]}, "jobs": [], "errors": ["x"]}


@given(st.integers(0, 300), st.integers(0, 40), st.integers(1, 4))
def test_a_range_of_hosts_is_written_out_in_full(low: int, more: int, width: int) -> None:
    first, last = str(low).zfill(width), str(low + more).zfill(width)

    found = hosts(f"n[{first}-{last}]")

    assert len(found) == more + 1
    assert (found[0], found[-1]) == (f"n{first}", f"n{last}")


@given(st.text(max_size=30))
def test_no_text_breaks_the_small_readers(text: str) -> None:
    assert all(each.count >= 0 for each in gres(text))
    assert number(text) is None
    try:
        hosts(text)
    except StewardError as fault:
        assert "hosts" in fault.problem
