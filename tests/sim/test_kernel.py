from __future__ import annotations

from steward.model.event import Event
from steward.sim.kernel import kernel_lines


def event(kind: str, subject: str) -> Event:
    return Event(t_s=5.0, kind=kind, subject=subject, text="", source="sim")


def test_a_gpu_that_fails_says_so_in_the_log_of_its_node() -> None:
    lines = kernel_lines([event("job.failed", "job:1"), event("gpu.failed", "n04/gpu3")])

    assert {(line.t_s, line.entity, line.source) for line in lines} == {(5.0, "n04", "kernel")}
    assert "NVRM: Xid (PCI:0000:5d:00): 79" in lines[0].text
