from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from decide.rules.live.rules_live import (
    GPU,
    LOST,
    START_S,
    Turns,
    line,
    line_rule,
    metric_rule,
    moment,
)
from factories import job, node, samples, view
from steward.decide.rules.live import RuleRecogniser
from steward.decide.rules.live.episodes import MOST_OPEN
from steward.decide.rules.live.findings import MOST_TEXT, thresholds_of
from steward.decide.rules.live.new_events import NewEvents
from steward.model.event import Event, Observation
from steward.model.finding import Severity
from steward.model.identity import GpuId
from steward.model.job import JobState
from steward.model.rules import Clause, Rule, RuleNode, RuleSeverity, Term
from steward.model.span import Span
from steward.model.treatment import Treatment


def test_a_line_becomes_a_finding_with_the_very_line() -> None:
    turns = Turns(line_rule())

    (found,) = turns.look(lines=(line(-5.0), line(-4.0, "all is well")))

    assert found.rule == "R-LOST-1"
    assert found.subject == "n1"
    assert found.title == "GPU lost on n1"
    assert found.severity is Severity.FAULT
    assert found.since_s == START_S - 5.0
    (quote,) = found.quotes
    assert (quote.text, quote.stream, quote.entity) == ("NVRM: it fell off the bus", "kernel", "n1")
    assert found.evidence == ()


def test_a_line_of_a_file_is_quoted_with_its_number() -> None:
    (found,) = Turns(line_rule()).look(lines=(line(number=812),))

    assert [quote.line for quote in found.quotes] == [812]


def test_matches_without_a_pause_are_one_finding_and_are_counted() -> None:
    turns = Turns(line_rule())

    (first,) = turns.look(0.0, lines=(line(0.0),))
    (again,) = turns.look(500.0, lines=(line(499.0), line(500.0)))

    assert again.id == first.id
    assert again.hits == 3
    assert turns.rules.recurrences(START_S + 599.0) == ()
    (recurrence,) = turns.rules.recurrences(START_S + 600.0)
    assert (recurrence.finding, recurrence.rule, recurrence.hits) == (first.id, "R-LOST-1", 2)
    assert (recurrence.from_s, recurrence.t_s) == (START_S, START_S + 600.0)
    assert turns.rules.recurrences(START_S + 1300.0) == ()


def test_after_a_pause_it_is_another_finding() -> None:
    turns = Turns(line_rule())
    (first,) = turns.look(0.0, lines=(line(0.0), line(1.0)))

    assert turns.look(602.0) == ()
    (recurrence,) = turns.rules.recurrences(START_S + 602.0)
    assert recurrence.hits == 1
    (second,) = turns.look(700.0, lines=(line(700.0),))

    assert second.id != first.id
    assert second.hits == 1


def test_a_fault_names_the_gpu_that_failed_and_goes_on_until_it_is_mended() -> None:
    turns = Turns(line_rule(category="gpu-problem", severity=RuleSeverity.CRITICAL))

    (found,) = turns.look(lines=(line(-5.0),), failed="n1/gpu1")

    assert found.gpus == (GpuId("n1/gpu1"),)
    assert (found.subject, found.title) == ("n1", "GPU lost on n1/gpu1")
    assert turns.look(5000.0, failed="n1/gpu1") == (found,)
    assert turns.look(5100.0) == (found,)  # it may come back
    assert turns.look(5800.0) == ()


def test_a_fault_of_something_else_does_not_name_a_gpu_that_failed_before() -> None:
    turns = Turns(line_rule(category="network-problem", severity=RuleSeverity.CRITICAL))

    (found,) = turns.look(lines=(line(-5.0),), failed="n1/gpu1")

    assert found.gpus == ()


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("0.3 > gpu_busy_share", "GPU busy share below 30 % for 60 s, 10 % at the end"),
        ("DCGM_FI_DEV_GPU_UTIL < 30", "GPU busy share below 30 % for 60 s, 10 % at the end"),
        ("gpu_busy_share + 1 < 2", "GPU busy share fitted the rule for 60 s"),
        ("gpu_busy_share < 2 unless gpu_busy_share > 0.5",
         "GPU busy share below 200 % for 60 s, 10 % at the end"),
        ("count by (node) (gpu_busy_share == 0.1)", "GPU busy share at 10 % for 60 s"),
        ("(gpu_busy_share < bool 0.3) == 1", "GPU busy share below 30 % for 60 s"),
    ],
)  # fmt: skip
def test_evidence_is_said_in_words_not_in_promql(expr: str, says: str) -> None:
    turns = Turns(metric_rule(expr))

    (found,) = turns.busy_until(60.0, 0.1)

    assert [each.says for each in found.evidence] == [says]


def test_evidence_has_the_units_of_its_metric_and_minutes_where_it_lasts() -> None:
    turns = Turns(metric_rule("gpu_power_watts > 100", for_s=300.0))

    for at_s in range(0, 310, 10):
        frame = samples(START_S + at_s, {GPU: {"gpu.power_watts": 400.0}})
        found = turns.look(float(at_s), frame=frame)

    (piece,) = found[0].evidence
    assert piece.says == "GPU power above 100 W for 5 min, 400 W at the end"


def test_of_several_series_only_the_first_has_its_last_value() -> None:
    turns = Turns(metric_rule("gpu_busy_share < 0.3 and gpu_power_watts > 100"))

    for at_s in range(0, 70, 10):
        values = {"gpu.busy_share": 0.1, "gpu.power_watts": 400.0}
        found = turns.look(float(at_s), frame=samples(START_S + at_s, {GPU: values}))

    assert [each.says for each in found[0].evidence] == [
        "GPU busy share below 30 % for 60 s, 10 % at the end",
        "GPU power above 100 W for 60 s",
    ]


def test_a_flood_of_entities_is_bounded_and_nothing_is_lost() -> None:
    turns = Turns(line_rule())
    nodes = 3 * MOST_OPEN

    found = turns.look(lines=tuple(line(0.0, entity=f"n{i}") for i in range(nodes)))

    assert len(found) == MOST_OPEN + 1
    (rest,) = (each for each in found if not each.subject)
    assert rest.title == "GPU lost on many more at once"
    assert sum(each.hits for each in found) == nodes


def test_a_condition_on_series_holds_for_as_long_as_it_is_so() -> None:
    turns = Turns(metric_rule())
    assert turns.busy_until(50.0, 0.1) == ()

    (found,) = turns.busy(60.0, 0.1)
    (still,) = turns.busy_until(3000.0, 0.1, from_s=70.0)

    assert still.id == found.id
    assert still.hits == 1
    assert (found.job, found.tenant, found.gpus) == ("j1", "a", (GpuId(GPU),))
    (piece,) = found.evidence
    assert (piece.entity, piece.metric, piece.threshold) == (GPU, "gpu.busy_share", 0.3)
    assert (piece.from_s, piece.to_s) == (START_S, START_S + 60.0)
    assert piece.says == "GPU busy share below 30 % for 60 s, 10 % at the end"
    assert found.quotes == ()


def test_a_condition_that_comes_back_soon_is_the_same_finding() -> None:
    turns = Turns(metric_rule())
    (found,) = turns.busy_until(60.0, 0.1)

    assert turns.busy(70.0, 0.9) == ()
    (again,) = turns.busy_until(200.0, 0.1, from_s=80.0)

    assert again.id == found.id
    assert again.hits == 2


def test_a_gpu_that_nobody_holds_is_not_said_to_be_held() -> None:
    turns = Turns(metric_rule())

    for step in range(20):
        assert turns.busy(10.0 * step, 0.0, gpu="n1/gpu1") == ()


def test_nothing_is_joined_before_all_of_a_look_is_read() -> None:
    gone = RuleNode(
        kind="set", clauses=(Clause(what=Term(kind="value", text="gone")),), source="b.b"
    )
    lost = line_rule(source="a.a").root
    both = RuleNode(
        kind="sequence",
        clauses=(Clause(what=lost), Clause(what=gone)),
        window_ns=10 * 10**9,
    )
    rule = Rule(id="R-BOTH-1", key="k", hash="h", root=both)
    turns = Turns(rule, sources={"a*": "a.a", "b*": "b.b"})

    (found,) = turns.look(5.0, lines=(line(4.0, "gone", source="b.log"), line(3.0, source="a.log")))

    assert [quote.stream for quote in found.quotes] == ["a.log", "b.log"]


@pytest.mark.parametrize(
    ("written_by", "looked_at"),
    [
        ("kernel", "cre.log.kernel"),
        ("slurmd.service", "cre.log.slurm.slurmd"),
        ("/var/log/slurm/slurmctld.log", "cre.log.slurm.slurmctld"),
        ("sshd.service", "cre.log.syslog"),
        ("models/vllm-0/server", "cre.log.vllm"),
    ],
)
def test_rules_look_at_the_sources_that_they_name(written_by: str, looked_at: str) -> None:
    looking = Turns(line_rule(source=looked_at))
    other = Turns(line_rule(source="cre.log.redis"))

    assert looking.look(lines=(line(source=written_by),))
    assert not other.look(lines=(line(source=written_by),))


def test_output_of_a_job_may_be_of_any_program_and_a_site_may_name_it() -> None:
    anything = (line(source="/home/ann/out.log", entity="job:j1"),)

    (found,) = Turns(line_rule(source="cre.log.redis")).look(lines=anything)
    named = Turns(line_rule(source="cre.log.redis"), sources={"/home/*": "cre.log.training"})

    assert (found.job, found.gpus) == ("j1", (GpuId(GPU),))
    assert named.look(lines=anything) == ()


def test_what_became_of_jobs_is_read_as_events_each_once() -> None:
    rule = event_rule("job.failed job:j1 train out of memory")
    turns = Turns(rule)
    runs = replace(job("j1", on=[GPU]), name="train")
    failed = runs.changed(START_S - 3.0, JobState.FAILED, "out of memory")

    assert turns.look(0.0, jobs=(runs,)) == ()
    (found,) = turns.look(10.0, jobs=(failed,))
    (again,) = turns.look(20.0, jobs=(failed,))

    assert again.hits == found.hits == 1
    assert found.subject == "job:j1"
    assert found.title.endswith(": job j1")


def test_events_and_beginnings_of_spans_are_read_once() -> None:
    turns = Turns(event_rule("phase.began n1 compile"), event_rule("gpu.failed n1/gpu0"))
    span = Span(id="s1", entity="n1", kind="phase", name="compile", from_s=START_S - 5.0)
    fell = Event(t_s=START_S, kind="gpu.failed", subject=GPU, text="it fell", source="sim")

    found = turns.look(0.0, spans=(span,), events=(fell,))
    again = turns.look(10.0, spans=(span,))

    assert {each.subject for each in found} == {"n1", GPU}
    assert [each.hits for each in again] == [1, 1]


def test_phases_that_last_deny_what_they_explain() -> None:
    expr = 'gpu_busy_share < 0.3 unless on (node) steward_phase{phase="compile"}'
    turns = Turns(metric_rule(expr))
    span = Span(id="s1", entity="n1", kind="phase", name="compile", from_s=START_S)
    turns.look(0.0, spans=(span,))

    assert turns.busy_until(300.0, 0.1, from_s=10.0) == ()


def test_metrics_that_nobody_has_translated_can_be_asked_for() -> None:
    turns = Turns(metric_rule("vllm_waiting > 5", for_s=0.0))
    row = {"t_s": START_S, "entity": "n1", "metric": "vllm_waiting", "value": 9.0}

    (found,) = turns.look(0.0, other=pl.DataFrame([row]))

    assert found.subject == "n1"
    assert found.evidence == ()  # such series are kept apart, and no page can draw them yet


def test_what_matters_most_comes_first_and_doubtful_rules_last() -> None:
    bad = line_rule("R-BAD-1", severity=RuleSeverity.CRITICAL)
    minor = line_rule("R-MINOR-1", severity=RuleSeverity.LOW)
    doubtful = line_rule("R-DOUBT-1", severity=RuleSeverity.CRITICAL)
    turns = Turns(minor, doubtful, bad)
    turns.rules.weigh({"R-DOUBT-1": 0.1})

    found = turns.look(lines=(line(),))

    assert [each.rule for each in found] == ["R-BAD-1", "R-MINOR-1", "R-DOUBT-1"]
    assert [each.weight for each in found] == [0.5, 0.5, 0.1]
    assert [each.is_trusted for each in found] == [True, True, False]


def test_a_finding_carries_what_its_rule_would_do() -> None:
    treatment = Treatment(action="tell", advice="reboot it")

    (found,) = Turns(line_rule(treatment=treatment)).look(lines=(line(),))

    assert found.treatment == treatment
    assert found.severity is Severity.FAULT


def test_long_lines_are_cut_and_broken_text_does_no_harm() -> None:
    long = "fell off the bus " + "x" * 5000

    found = Turns(line_rule()).look(lines=(line(text=long), line(text="\ud800 fell off the bus")))

    (quote,) = found[0].quotes
    assert len(quote.text) == MOST_TEXT + 2


def test_lines_that_come_out_of_order_are_read_by_their_times() -> None:
    first = Term(kind="value", text="one")
    then = Term(kind="value", text="two")
    root = RuleNode(
        kind="sequence",
        clauses=(Clause(what=first), Clause(what=then)),
        window_ns=10**10,
        source="cre.log.kernel",
    )
    turns = Turns(Rule(id="R-SEQ-1", key="k", hash="h", root=root))

    assert turns.look(lines=(line(2.0, "two"), line(1.0, "one")))
    assert turns.rules.counts.late == 0


def test_what_comes_from_far_away_is_waited_for() -> None:
    denied = Turns(metric_rule(for_s=0.0), patience_s=15.0)

    assert denied.busy(0.0, 0.1) == ()
    (found,) = denied.busy(15.0, 0.1)

    assert found.since_s == START_S


@pytest.mark.parametrize(
    ("expr", "thresholds"),
    [
        ("gpu_busy_share < 0.3", {"gpu.busy_share": 0.3}),
        ("0.3 > gpu_busy_share", {"gpu.busy_share": 0.3}),
        ("DCGM_FI_DEV_GPU_UTIL < 30", {"gpu.busy_share": 0.3}),
        ("max(avg_over_time(gpu_busy_share[1m])) < 0.3", {"gpu.busy_share": 0.3}),
        (
            "gpu_busy_share < 0.3 and gpu_power_watts > 100 unless gpu_busy_share < 0.1",
            {"gpu.busy_share": 0.3, "gpu.power_watts": 100.0},
        ),
        ("changes(gpu_busy_share[5m]) > 1", {}),
        ("gpu_busy_share + 1", {}),
        ("gpu_busy_share > gpu_sm_active_share", {}),
    ],
)
def test_thresholds_are_known_where_they_are_numbers(
    expr: str, thresholds: dict[str, float]
) -> None:
    assert dict(thresholds_of(expr)) == thresholds


def test_it_works_without_rules_and_in_an_empty_look() -> None:
    assert RuleRecogniser(()).recognise(Observation(), moment()) == ()
    assert Turns(metric_rule()).look() == ()


def event_rule(text: str) -> Rule:
    what = Clause(what=Term(kind="value", text=text))
    root = RuleNode(kind="set", clauses=(what,), source="steward.event")
    return Rule(id=f"R-{abs(hash(text))}", key="k", hash="h", root=root)


def test_what_is_remembered_of_jobs_and_spans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steward.decide.rules.live.new_events._REMEMBERED", 2)
    events = NewEvents()
    jobs = tuple(job(f"j{i}") for i in range(3))
    spans = tuple(
        Span(id=f"s{i}", entity="n1", kind="run", name=f"r{i}", from_s=1.0) for i in range(3)
    )

    first = events.of(Observation(jobs=jobs, spans=spans), 10.0)
    again = events.of(Observation(jobs=jobs[:1], spans=spans[:1]), 20.0)

    assert len(first) == 6
    assert [event.kind for event in again] == ["run.began", "job.queued"]


def test_tables_without_anything_wanted_are_left_out_and_gpus_may_be_free() -> None:
    turns = Turns(metric_rule("gpu_busy_share < 0.3", for_s=0.0))
    disk = samples(START_S, {"n1/disk:sda": {"disk.read_bytes_per_s": 1.0}})
    free = replace(view(node("n1", 2)), t_s=START_S)
    gpu = samples(START_S, {GPU: {"gpu.busy_share": 0.1}})

    (found,) = turns.rules.recognise(Observation(frames=(disk, gpu)), free)

    assert (found.job, found.gpus) == (None, (GpuId(GPU),))


@pytest.mark.parametrize(
    "t_s", [2**63 / 1e9, 2**64 / 1e9, float("nan"), float("inf"), -1e19, 7_258_118_400.0]
)
def test_a_line_whose_time_cannot_be_used_costs_itself_only(t_s: float) -> None:
    turns = Turns(line_rule())
    bad = replace(line(), t_s=t_s)

    (found,) = turns.look(0.0, lines=(bad, line(), replace(bad, entity="n2")))

    assert found.subject == "n1"
    assert found.hits == 1
    assert turns.rules.counts.untimed == 2
    assert turns.look(10.0, lines=(line(10.0),))[0].hits == 2


@pytest.mark.parametrize("t_s", [2**63 / 1e9, float("nan")])
def test_an_event_whose_time_cannot_be_used_costs_itself_only(t_s: float) -> None:
    bad = Event(t_s=t_s, kind="a", subject="n1", text="b", source="test")
    turns = Turns(line_rule())

    assert len(turns.look(0.0, lines=(line(),), events=(bad,))) == 1


def test_of_a_storm_enough_lines_are_matched_and_the_others_are_counted() -> None:
    root = RuleNode(kind="set", clauses=(Clause(what=LOST, count=300),), window_ns=10**10)
    many = Rule(id="R-MANY-1", key="m", hash="m", root=root, title="many")
    rare = Term(kind="value", text="only once")
    root = RuleNode(kind="set", clauses=(Clause(what=rare),))
    once = Rule(id="R-ONCE-1", key="o", hash="o", root=root, title="once")
    turns = Turns(line_rule(), many, once)
    streams = [f"n{number}" for number in range(200)]
    storm = [line(entity=each) for each in streams for _ in range(5)]
    storm += [line(number / 1000, entity="n0") for number in range(5000)]
    storm.append(line(9.0, "it happens only once", entity="n0"))

    found = turns.look(10.0, lines=tuple(storm))

    assert {each.rule for each in found} == {"R-LOST-1", "R-MANY-1", "R-ONCE-1"}
    assert turns.rules.counts.suppressed == 5005 - 2 * 300
