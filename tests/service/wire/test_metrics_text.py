"""What Prometheus scrapes is well formed, and names everything as our tables do."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from factories import job, node, samples, view
from service.bed import MakeBed
from steward.clients.wire.exposition import decode_text, labels_of_text
from steward.model.metrics import METRICS
from steward.model.span import Span
from steward.observe.latest import Latest
from steward.observe.receive import SampleConverter, observation_of
from steward.observe.translate import map_series
from steward.service.wire.metrics_text import holders, metrics_text

ENTITIES = {"gpu": "n1/gpu0", "node": "n1", "job": "job:8", "share": "n1/gpu0@8"}


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from([each for each in METRICS if each.of in ENTITIES]),
        st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=10,
    )
)
def test_what_is_exposed_comes_back_exactly(values: dict[object, float]) -> None:
    latest, wanted = Latest(), {}
    for metric, value in values.items():
        entity = ENTITIES[metric.of]  # type: ignore[attr-defined]
        wanted[metric.name, entity] = value  # type: ignore[attr-defined]
        latest.take([samples(5.0, {entity: {metric.name: value}})])  # type: ignore[attr-defined]

    text = metrics_text(latest, since_s=0.0, held={"n1/gpu0": (("job_id", "9"),)}).text.encode()

    sorter = SampleConverter(lambda key: map_series(labels_of_text(key)), source="test")
    seen = observation_of([sorter.read(decode_text(text, now_ms=5000))])
    found = {
        (name, row["entity"]): row[name]
        for table in seen.tables
        for row in table.iter_rows(named=True)
        for name in table.columns[2:]
        if row[name] is not None
    }
    assert found == wanted
    assert seen.other.height == 0


def test_help_and_type_are_those_of_the_table() -> None:
    latest = Latest()
    latest.take([samples(5.0, {"n1/gpu0": {"gpu.power_watts": 70.0}})])

    plain = metrics_text(latest, since_s=0.0, held={}).text
    more = metrics_text(latest, since_s=0.0, held={}, openmetrics=True).text

    (family,) = text_string_to_metric_families(plain)
    (opened,) = openmetrics(more + "# EOF\n")
    assert (family.name, family.type) == ("steward_gpu_power_watts", "gauge")
    assert "(W)" in family.documentation
    assert opened.unit == "watts"
    assert opened.samples[0].labels == {"node": "n1", "gpu": "0"}


def test_whoever_is_silent_vanishes() -> None:
    latest = Latest()
    latest.take([samples(5.0, {"n1": {"host.load_1m": 1.0}})])
    latest.take([samples(50.0, {"n2": {"host.load_1m": 2.0}})])

    shown = metrics_text(latest, since_s=40.0, held={})

    assert shown.series == 1
    assert 'steward_host_load_1m{node="n2"} 2.0' in shown.text


def test_holders_are_the_jobs_and_tenants_of_gpus() -> None:
    seen = view(node("n1", 2), jobs=[job("8", tenant="a", on=["n1/gpu0"])])

    assert holders(seen) == {"n1/gpu0": (("job_id", "8"), ("tenant", "a"))}


def test_metrics_are_openmetrics_for_those_who_ask(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=50.0)

    accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
    answer = bed.client.get("/metrics", headers=accept)

    families = {family.name for family in openmetrics(answer.text)}
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {"steward_turns", "steward_gpu_busy_share", "steward_job_cpu_busy_cores"} <= families


def test_many_rows_of_one_entity_are_one_series() -> None:
    latest = Latest()
    moments = [samples(1.0 + t, {"n1": {"host.load_1m": float(t)}}) for t in range(5)]
    latest.take([pl.concat(moments)])

    shown = metrics_text(latest, since_s=0.0, held={})

    assert shown.series == 1
    assert shown.text.endswith('{node="n1"} 4.0\n')


def phase(
    name: str, *, to_s: float | None = None, entity: str = "n1@8", kind: str = "phase"
) -> Span:
    return Span(id=f"{entity}:{name}", entity=entity, kind=kind, name=name, from_s=5.0, to_s=to_s)


def test_a_phase_is_exposed_while_it_lasts() -> None:
    latest = Latest()
    latest.mark([phase("compile"), phase("9", kind="job"), phase("load", entity="n1/*")], 10.0)

    during = metrics_text(latest, since_s=0.0, held={})
    latest.mark([phase("compile", to_s=20.0)], 20.0)
    after = metrics_text(latest, since_s=0.0, held={})

    families = list(text_string_to_metric_families(during.text))
    assert [(each.labels, each.value) for family in families for each in family.samples] == [
        ({"node": "n1", "job_id": "8", "phase": "compile"}, 1.0)
    ]
    assert during.series == 1
    assert (after.text, after.series) == ("", 0)


def test_phases_that_nobody_ended_are_forgotten_and_too_many_are_counted() -> None:
    latest = Latest(most_entities=2)

    latest.mark([phase("a"), phase("b"), phase("c")], 10.0)

    assert len(latest.phases()) == 2
    assert latest.dropped == 1
    latest.mark([], 10.0 + 2 * 86_400)
    assert latest.phases() == []
