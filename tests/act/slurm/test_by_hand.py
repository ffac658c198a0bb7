"""What a person would type on Slurm instead of steward."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from factories import decision, drain, start
from fake_slurm import FakeSlurm
from patience import LONG_S
from steward.act.actuators.slurm import Slurm
from steward.clock import ManualClock
from steward.model.actions import (
    Action,
    Lend,
    Migrate,
    Preempt,
    Reprioritise,
    Reset,
    Resize,
    Save,
    Tell,
)
from steward.model.by_hand import ByHand
from steward.model.identity import GpuId, JobId

T_S = 1794967300.0  # after the recorded jobs were submitted
GPUS = (GpuId("n1/gpu0"),)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the recorded jobs are root's")


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    slurm = FakeSlurm(tmp_path)
    slurm.controller()
    slurm.command("scancel", f"echo scancel >> {tmp_path}/calls")
    slurm.command("sinfo", "d=${4#*%N}; d=${d%%%*}; printf 'n1%sidle%snone%sUnknown\\n' $d $d $d")
    return slurm


def by_hand(fake: FakeSlurm, action: Action) -> ByHand:
    folder = f"{fake.folder}:/bin:/usr/bin"
    slurm = Slurm(folder=folder, timeout_s=LONG_S, clock=ManualClock(T_S))
    return slurm.by_hand(decision("d-1", action=action, t_s=T_S), T_S)


@pytest.mark.parametrize(
    ("action", "commands"),
    [
        (start(job="18").action, ("scontrol release 18",)),
        (
            Preempt(job=JobId("17"), gpus=GPUS),
            ("scancel --batch --signal=USR2 17", "sleep 90", "scontrol requeue Incomplete 17"),
        ),
        (Save(job=JobId("17")), ("scancel --batch --signal=USR2 17",)),
        (Reprioritise(job=JobId("21"), before=1, priority=5), ("scontrol update JobId=21 Nice=0",)),
        (
            Resize(job=JobId("17"), now=(*GPUS, GpuId("n2/gpu0")), then=GPUS),
            ("scontrol update JobId=17 NodeList=n1",),
        ),
        (
            drain(on="n1").action,
            ("scontrol update NodeName=n1 State=DRAIN 'Reason=it is idle'",),
        ),
    ],
    ids=lambda each: each.type if hasattr(each, "type") else "",
)
def test_the_commands_do_it_without_stewards_notes(
    fake: FakeSlurm, action: Action, commands: tuple[str, ...]
) -> None:
    found = by_hand(fake, action)

    assert (found.commands, found.possible) == (commands, True)
    assert fake.calls() == []


def test_a_move_is_a_save_a_requeue_held_nodes_to_stay_away_from_and_a_release(
    fake: FakeSlurm,
) -> None:
    found = by_hand(fake, Migrate(job=JobId("17"), source=GPUS, target=(GpuId("n2/gpu0"),)))

    assert found.possible, found.text
    assert [each.partition(" ")[2] for each in found.commands if each.startswith("scontrol")] == [
        "requeuehold Incomplete 17",
        "update JobId=17 ExcNodeList=n1 StartTime=now+5",
        "release 17",
    ]


def test_what_slurm_refuses_has_a_reason_and_no_command(fake: FakeSlurm) -> None:
    impossible: list[Action] = [
        Reset(gpus=GPUS),
        Preempt(job=JobId("24"), gpus=GPUS),
        Save(job=JobId("22")),
        Lend(gpus=GPUS, owner=JobId("17"), borrower=JobId("99999")),
    ]

    found = [by_hand(fake, each) for each in impossible]

    assert [(each.commands, each.possible) for each in found] == [((), False)] * 4
    assert "slurm cannot reset" in found[0].text
    assert "no batch job" in found[1].text


def test_advice_needs_no_command(fake: FakeSlurm) -> None:
    found = by_hand(fake, Tell(to="ada", about="job:17", text="ask for less"))

    assert found == ByHand(text="tell ada: ask for less")
