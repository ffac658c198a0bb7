"""The schedule that a trace was recorded with, beside what policies would have made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.model.machines import machines_of
from steward.model.trace import trace_of
from steward.sim.lab.recorded import AS_RECORDED, knows_its_starts
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials.variants import with_load
from steward.sim.traces import read_trace

SACCT = """JobID|JobName|User|Account|Submit|Start|ElapsedRaw|Timelimit|State|AllocTRES
1|bert|ann|bio|2024-05-01T10:00:00|2024-05-01T10:05:00|600|01:00:00|COMPLETED|gres/gpu=2
2|gpt|bob|chem|2024-05-01T10:01:00|2024-05-01T10:01:00|60|UNLIMITED|COMPLETED|gres/gpu=1
"""
PLAIN_SACCT = """JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode
1|bert|gpu|bio|8|COMPLETED|0:0
"""


def test_sacct_says_when_jobs_started_and_how_long_they_might_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)

    trace = read_trace(tmp_path / "jobs.txt")

    assert trace.start_s.tolist() == [300.0, 60.0]
    assert trace.time_limit_s[0] == 3600.0
    assert np.isnan(trace.time_limit_s[1])
    assert knows_its_starts(trace)


def test_as_recorded_is_what_the_site_did(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)
    trace = read_trace(tmp_path / "jobs.txt")

    found = replay(trace, machines_of(8), AS_RECORDED, LabSettings())

    assert found.start_s.tolist() == [300.0, 60.0]
    assert found.end_s.tolist() == [900.0, 120.0]


def test_a_trace_that_does_not_know_its_starts_has_no_recorded_schedule() -> None:
    trace = trace_of("unknown", submit_s=[0.0], duration_s=[1.0], gpus=[1.0])

    with pytest.raises(StewardError, match="does not say when its jobs started"):
        replay(trace, machines_of(8), AS_RECORDED, LabSettings())


def test_arrivals_that_were_changed_leave_no_recorded_starts() -> None:
    trace = trace_of("known", submit_s=[0.0], duration_s=[1.0], gpus=[1.0], start_s=[5.0])

    assert not knows_its_starts(with_load(trace, 2.0))


def test_plain_sacct_output_is_refused_with_the_command_that_works(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(PLAIN_SACCT)

    with pytest.raises(StewardError) as refused:
        read_trace(tmp_path / "jobs.txt")

    assert "--format=JobID,JobName,User,Account,Submit,Start,ElapsedRaw" in refused.value.hint
