"""Phases of runs and jobs as conditions."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from decide.rules.metric.frames import busy, reports, watch
from steward.decide.rules.metric import Phases, phase_frame, span_events
from steward.model.span import Span

UNLESS = (
    "steward_gpu_busy_share < 0.3 unless on (node) "
    'steward_phase{phase=~"compile|checkpoint|data.*"}'
)


def phase(
    name: str, from_s: float, to_s: float | None, *, entity: str = "n1", rank: int = 0
) -> Span:
    id_ = f"{entity}:{name}:{from_s}:{rank}"
    return Span(id=id_, entity=entity, kind="phase", name=name, from_s=from_s, to_s=to_s)


def samples(frame: pl.DataFrame, name: str) -> list[tuple[float, float | None]]:
    return [
        (t_s, None if math.isnan(value) else value)
        for t_s, value in frame.select("t_s", f"phase:{name}").drop_nulls().iter_rows()
    ]


def test_a_phase_is_one_while_it_lasts_and_none_afterwards() -> None:
    frame = phase_frame([phase("compile", 1000.0, 1130.0)], from_s=0.0, to_s=9000.0)

    assert samples(frame, "compile") == [
        (1000.0, 1.0),
        (1060.0, 1.0),
        (1120.0, 1.0),
        (1130.0, None),
    ]


@given(cut=st.integers(900, 1400))
def test_frames_that_follow_each_other_have_all_samples_once(cut: float) -> None:
    spans = [phase("compile", 1000.0, 1330.0), phase("train", 1330.0, None)]

    whole = phase_frame(spans, from_s=900.0, to_s=1500.0)
    parts = [
        phase_frame(spans, from_s=900.0, to_s=cut),
        phase_frame(spans, from_s=cut, to_s=1500.0),
    ]

    for name in ("compile", "train"):
        found = [
            sample for part in parts if f"phase:{name}" in part for sample in samples(part, name)
        ]
        assert found == samples(whole, name)


def test_a_phase_lasts_until_the_last_rank_has_left_it() -> None:
    spans = [
        phase("compile", 1000.0, 1010.0),
        phase("compile", 1005.0, 1020.0, rank=1),
        phase("compile", 1020.0, 1020.0, rank=2),
        phase("compile", 1050.0, 1050.0, rank=3),
    ]

    frame = phase_frame(spans, from_s=0.0, to_s=9000.0)

    assert samples(frame, "compile") == [(1000.0, 1.0), (1020.0, None)]


def test_what_holds_below_a_node_is_said_by_the_node() -> None:
    other = Span(id="r", entity="n1", kind="run", name="r1", from_s=1000.0)

    frame = phase_frame([phase("compile", 1000.0, None, entity="n1/*"), other], from_s=0, to_s=9e3)

    assert frame.is_empty()


def test_more_names_than_anybody_needs_are_one_phase() -> None:
    spans = [phase(f"p{i}", 1000.0, 1001.0, entity=f"n{i}") for i in range(300)]

    frame = phase_frame(spans, from_s=0.0, to_s=9000.0)

    assert frame.width == 2 + 201
    assert len(samples(frame, "other")) == 200


def test_a_site_that_goes_on_tells_each_moment_which_phases_last() -> None:
    phases = Phases()
    open_, closed = phase("compile", 1000.0, None), phase("compile", 1000.0, 1025.0)

    first = phases.add([open_, phase("eval", 2000.0, None)], 1010.0)
    second = phases.add([], 1020.0)
    third = phases.add([closed], 1030.0)
    last = phases.add([], 1040.0)

    assert samples(first, "compile") == [(1010.0, 1.0)]
    assert samples(second, "compile") == [(1020.0, 1.0)]
    assert samples(third, "compile") == [(1030.0, None)]
    assert last.is_empty()


def test_idle_is_no_finding_while_it_compiles() -> None:
    idle = watch(UNLESS, for_s=30)
    frame = busy({"n1/gpu0": [0.1] * 12, "n2/gpu0": [0.1] * 12})
    spans = [phase("compile", 1005.0, 1055.0), phase("train", 1055.0, None)]
    lasting = phase_frame(spans, from_s=1000.0, to_s=1120.0)

    found = idle.add(pl.concat([frame, lasting], how="diagonal"))
    found += idle.finish()

    assert reports(found) == [("n2/gpu0", 1030.0, 1000.0), ("n1/gpu0", 1090.0, 1055.0)]


def test_a_phase_can_be_asked_for_by_its_name_alone() -> None:
    long = watch('steward_phase{phase="checkpoint", node="n1"} == 1', for_s=100)
    spans = [phase("checkpoint", 1000.0, 1300.0), phase("checkpoint", 1000.0, 1300.0, entity="n2")]

    found = long.add(phase_frame(spans, from_s=0.0, to_s=9000.0))

    assert reports(found) == [("n1", 1120.0, 1000.0)]
    assert found[0].extracted == {"node": "n1", "phase": "checkpoint"}


def test_a_phase_of_a_job_is_of_its_node() -> None:
    idle = watch(UNLESS)
    lasting = phase_frame([phase("data", 990.0, None, entity="n1@812")], from_s=0.0, to_s=1001.0)

    found = idle.add(pl.concat([busy({"n1/gpu0": [0.1]}), lasting], how="diagonal"))

    assert found == []
    assert reports(idle.finish()) == []


def test_what_began_and_what_ended_are_events() -> None:
    job = Span(id="j", entity="n1/gpu0", kind="job", name="812", from_s=990.0, to_s=None)
    spans = [phase("compile", 1000.0, 1010.0), phase("compile", 1000.0, 1010.0, entity="n1/*"), job]

    found = span_events(spans, from_s=0.0, to_s=1010.0)
    later = span_events(spans, from_s=1010.0, to_s=9000.0)

    assert [(each.t_s, each.kind, each.subject, each.text) for each in found] == [
        (990.0, "job.began", "n1/gpu0", "812"),
        (1000.0, "phase.began", "n1", "compile"),
    ]
    assert [each.kind for each in later] == ["phase.ended"]
