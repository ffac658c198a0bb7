from __future__ import annotations

import numpy as np

from factories import believing, column, job, loan, node, view
from steward.decide.rules.gpu_idle_while_allocated import GpuIdleWhileAllocated
from steward.model.forecast import phase_probability

GPU, OTHER = "n1/gpu0", "n1/gpu1"


def test_gpus_idle_for_five_minutes_are_found_once_per_job_with_their_samples() -> None:
    seen = view(jobs=[job(on=[GPU, OTHER])])

    (found,) = GpuIdleWhileAllocated().detect(believing(seen, idle_s={GPU: 400.0, OTHER: 300.0}))

    assert found.job == "j1"
    assert found.gpus == (GPU, OTHER)
    assert found.since_s == 600.0
    assert [(each.entity, each.metric) for each in found.evidence] == [
        (GPU, "gpu.busy_share"),
        (OTHER, "gpu.busy_share"),
        ("job:j1", "job.cpu.busy_cores"),
    ]
    assert "2 of its 2 GPUs idle for 400 s" in found.title


def test_long_idleness_is_told_in_minutes() -> None:
    (found,) = GpuIdleWhileAllocated().detect(
        believing(view(jobs=[job(on=[GPU])]), idle_s={GPU: 900.0})
    )

    assert "for 15 min" in found.title
    assert found.title.startswith(f"job j1 has left its GPU {GPU} idle")


def test_the_one_idle_gpu_among_several_is_named() -> None:
    seen = view(jobs=[job(on=[GPU, OTHER])])

    (found,) = GpuIdleWhileAllocated().detect(believing(seen, idle_s={GPU: 900.0}))

    assert found.title == f"job j1 has left {GPU}, 1 of its 2 GPUs, idle for 15 min"


def test_the_same_idle_spell_is_the_same_finding_in_every_turn() -> None:
    rule = GpuIdleWhileAllocated()
    first = rule.detect(believing(view(jobs=[job(on=[GPU])], t_s=1000.0), idle_s={GPU: 400.0}))
    second = rule.detect(believing(view(jobs=[job(on=[GPU])], t_s=1010.0), idle_s={GPU: 410.0}))

    assert first[0].id == second[0].id


def test_shorter_idleness_and_unknown_idleness_are_not_found() -> None:
    seen = view(jobs=[job(on=[GPU, OTHER])])

    assert GpuIdleWhileAllocated().detect(believing(seen, idle_s={GPU: 299.0})) == ()
    assert GpuIdleWhileAllocated().detect(seen) == ()


def test_on_a_lent_gpu_the_evidence_is_the_owners_own_part() -> None:
    seen = view(jobs=[job("j1", on=[GPU]), job("j2", on=[GPU])], loans=[loan()])

    (found,) = GpuIdleWhileAllocated().detect(believing(seen, idle_s={GPU: 400.0}))

    assert found.evidence[0].entity == "n1/gpu0@j1"
    assert found.evidence[0].metric == "share.busy_share"


def test_a_job_of_no_known_tenant_is_found_too() -> None:
    seen = view(node(), jobs=[job(on=[GPU], tenant="nobody")])

    (found,) = GpuIdleWhileAllocated().detect(believing(seen, idle_s={GPU: 400.0}))

    assert found.tenant is None


def test_where_the_phase_is_all_but_certainly_idle_two_minutes_suffice() -> None:
    seen = believing(view(jobs=[job(on=[GPU, OTHER])]), idle_s={GPU: 130.0, OTHER: 130.0})
    sure = column(phase_probability("idle"), np.array([0.995, 0.9]))

    (found,) = GpuIdleWhileAllocated().detect(seen.with_forecasts((sure,)))

    assert found.gpus == (GPU,)
