from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from steward.act.actuators import process_memory
from steward.act.actuators.process_memory import NodeMemory, SwapMemory, online_nodes
from steward.clients.processes import ProcessTable
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import Demote, Pin, Promote, Tell
from steward.model.decision import Decision
from steward.model.identity import DecisionId, TenantId

BLOCK = (1 << 30, (1 << 30) + (2 << 20))


def me() -> str:
    found = ProcessTable().one(os.getpid())
    assert found is not None
    return f"{found.pid}@{found.start_s:.0f}"


def decision(kind: type, *, process: str = "", **more: object) -> Decision:
    action = kind(process=process or me(), pid=os.getpid(), blocks=(BLOCK,), **more)
    return Decision(
        id=DecisionId(f"d-{kind.__name__}"),
        t_s=0.0,
        policy="test",
        action=action,
        because="",
        check_after_s=1.0,
        tenant=TenantId(""),
    )


@pytest.mark.parametrize("kind", [Promote, Demote])
@pytest.mark.parametrize("engine", [SwapMemory(), NodeMemory(near=0, far=1)])
def test_a_number_that_is_anothers_by_now_is_never_touched(
    engine: SwapMemory | NodeMemory, kind: type
) -> None:
    with pytest.raises(PermanentError, match="has ended"):
        engine.carry_out(decision(kind, process=f"{os.getpid()}@1"), 0.0)


@pytest.mark.parametrize("engine", [SwapMemory(), NodeMemory(near=0, far=1)])
def test_pins_are_done_at_once_and_other_actions_refused(engine: SwapMemory | NodeMemory) -> None:
    receipt = engine.carry_out(decision(Pin), 5.0)

    assert (receipt.result, receipt.t_s) == ("done", 5.0)
    assert engine.progress(decision(Pin), 9.0) == receipt
    tell = Tell(to="ann", text="hello", about="")
    from dataclasses import replace

    with pytest.raises(PermanentError, match="cannot tell"):
        engine.carry_out(replace(decision(Pin), id=DecisionId("d-2"), action=tell), 0.0)
    assert {each.__name__ for each in engine.actions()} == {"Demote", "Pin", "Promote"}


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errno.ESRCH, PermanentError, "has ended"),
        (errno.EPERM, PermanentError, "may not move"),
        (errno.ENODEV, PermanentError, "cannot be moved there"),
        (errno.EIO, PermanentError, "input/output"),
        (errno.EAGAIN, TemporaryError, "temporarily"),
    ],
)
def test_faults_of_the_kernel_are_said_in_words(code: int, kind: type, text: str) -> None:
    fault = process_memory._fault(OSError(code, os.strerror(code)), 7)

    assert type(fault) is kind
    assert text in fault.problem


def test_advice_about_what_is_not_mapped_is_refused() -> None:
    with pytest.raises(PermanentError):
        SwapMemory().carry_out(decision(Demote), 0.0)


def test_one_node_only_is_said_before_anything_is_tried(tmp_path: Path) -> None:
    online = tmp_path / "online"
    online.write_text("0-1,3\n", encoding="ascii")

    assert online_nodes(str(online)) == [0, 1, 3]
    assert online_nodes(str(tmp_path / "none")) == [0]
    there = online_nodes()
    other = NodeMemory(near=there[0], far=max(there) + 1).available()
    assert other.status == "missing"
    assert f"no NUMA node {max(there) + 1}" in other.reason
    assert NodeMemory(near=there[0], far=there[0]).available().status == "ok"
