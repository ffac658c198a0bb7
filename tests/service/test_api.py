from __future__ import annotations

import json
import resource
from itertools import pairwise

import pytest

from factories import decision, finding, outcome, preempt, receipt
from service.bed import AND_CHECKED_S, LONG_ENOUGH_S, MakeBed, ServiceBed
from steward.model.decision import Autonomy, Ruling, Verdict
from steward.model.identity import DecisionId
from steward.model.yardstick import STOP_COST
from steward.service.pages.savings import stop_cost_line


def test_the_cluster_shows_each_gpu_its_owner_and_how_long_it_has_been_idle(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=100)

    cluster = bed.client.get("/api/v1/cluster").json()

    idle, busy = cluster["nodes"][0]["gpus"]
    assert (idle["id"], idle["state"], idle["owner"], idle["tenant"]) == (
        "n1/gpu0",
        "idle",
        "j1",
        "a",
    )
    assert idle["idle_s"] == 90
    assert (busy["state"], busy["busy_share"], busy["idle_s"]) == ("busy", 0.9, None)


def test_the_cluster_shows_the_queue_the_tenants_and_the_loop(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=100)

    cluster = bed.client.get("/api/v1/cluster").json()

    assert [(job["id"], job["gpus"]) for job in cluster["queue"]] == [("j2", 1)]
    assert cluster["queue_length"] == 1
    assert [(t["id"], t["held"], t["waiting"], t["fair_share"]) for t in cluster["tenants"]] == [
        ("a", 2, 0, 1.0),
        ("b", 0, 1, 1.0),
    ]
    assert cluster["status"]["turns"] == 10
    assert cluster["status"]["autonomy"] == "approve"


def test_a_silent_gpu_is_unknown_and_its_busy_share_is_null(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=100)
    bed.world.collect_fault = OSError("the driver is gone")
    bed.turn(200)

    cluster = bed.client.get("/api/v1/cluster").json()

    gpus = cluster["nodes"][0]["gpus"]
    assert [(gpu["state"], gpu["busy_share"]) for gpu in gpus] == [("unknown", None)] * 2
    assert "driver is gone" in cluster["status"]["faults"][-1]["problem"]


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        (
            "/api/v1/cluster?queue_limt=1&running_limit=2",
            "unknown query parameter 'queue_limt'; this address takes queue_limit, running_limit",
            "did you mean 'queue_limit'?",
        ),
        (
            "/api/v1/decisions?since=1&stat=done",
            "unknown query parameters 'since', 'stat'; this address takes ",
            "did you mean 'state'?",
        ),
        ("/api/v1/savings?x=1", "'x'; this address takes none", "openapi.json"),
        ("/api/v1/gpus/n1/gpu0/series?form=5", "'form'", "did you mean 'from'?"),
    ],
)
def test_a_parameter_that_an_address_does_not_take_is_refused_with_the_nearest_one(
    make_bed: MakeBed, asked: str, problem: str, hint: str
) -> None:
    bed = make_bed(run_s=100)

    answer = bed.client.get(asked)

    assert answer.status_code == 422
    assert problem in answer.json()["error"]["problem"]
    assert hint in answer.json()["error"]["hint"]
    assert answer.json()["error"]["where"].startswith("query.")


def test_findings_say_whether_they_hold_now(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    (now,) = bed.client.get("/api/v1/findings").json()["items"]

    bed.world.owner_busy = 0.9
    bed.turn(100)
    (later,) = bed.client.get("/api/v1/findings").json()["items"]

    assert (now["open"], later["open"]) == (True, False)
    assert now["id"] == later["id"]
    assert now["evidence"][0]["metric"] == "gpu.busy_share"


def test_a_decision_is_explained_back_to_its_samples(approval_bed: ServiceBed) -> None:
    told = approval_bed.client.get(f"/api/v1/decisions/{approval_bed.only_decision()}").json()

    assert told["story"]["state"] == "waiting"
    assert told["findings"][0]["id"] == told["story"]["decision"]["findings"][0]
    samples = next(s for s in told["samples"] if s["metric"] == "gpu.busy_share")
    assert samples["entity"] == "n1/gpu0"
    assert len(samples["t_s"]) == len(samples["values"]) >= 30
    assert set(samples["values"]) == {0.0}


def test_an_approved_decision_is_carried_out_and_the_journal_knows_by_whom(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    id_ = bed.only_decision()

    answer = bed.client.post(f"/api/v1/decisions/{id_}/approve", json={"note": "go on"})
    bed.turn(20)

    assert answer.status_code == 202
    assert (answer.json()["choice"], answer.json()["user"]) == ("approve", "local")
    assert bed.world.carried_out == [id_]
    (entry,) = bed.client.get("/api/v1/journal?kind=choice").json()["items"]
    assert (entry["value"]["user"], entry["value"]["note"]) == ("local", "go on")


def test_a_rejected_decision_is_not_carried_out(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    id_ = bed.only_decision()

    answer = bed.client.post(f"/api/v1/decisions/{id_}/reject")
    bed.turn(50)

    assert answer.status_code == 202
    assert bed.world.carried_out == []
    assert bed.client.get(f"/api/v1/decisions/{id_}").json()["story"]["state"] == "rejected"


def test_an_active_decision_can_be_undone(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S, autonomy=Autonomy.AUTO)
    id_ = bed.only_decision()

    answer = bed.client.post(f"/api/v1/decisions/{id_}/undo")
    bed.turn(30)

    assert answer.status_code == 202
    assert bed.client.get(f"/api/v1/decisions/{id_}").json()["story"]["state"] == "undone"
    assert bed.world.jobs["j2"].gpus == ()


def test_what_makes_no_sense_now_is_409_with_what_is_possible(approval_bed: ServiceBed) -> None:
    answer = approval_bed.client.post(f"/api/v1/decisions/{approval_bed.only_decision()}/undo")

    assert answer.status_code == 409
    assert "waiting" in answer.json()["error"]["problem"]
    assert answer.json()["error"]["hint"] == "possible now: approve, reject"


def test_an_unknown_decision_is_404_and_names_the_nearest(approval_bed: ServiceBed) -> None:
    nearly = approval_bed.only_decision()[:-1] + "x"

    for answer in (
        approval_bed.client.get(f"/api/v1/decisions/{nearly}"),
        approval_bed.client.post(f"/api/v1/decisions/{nearly}/approve"),
    ):
        assert answer.status_code == 404
        assert approval_bed.only_decision() in answer.json()["error"]["hint"]


def test_decisions_come_newest_first_page_by_page(make_bed: MakeBed) -> None:
    bed = make_bed()
    bed.loop.journal.append([decision(f"d-{n}") for n in range(7)])

    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = bed.client.get("/api/v1/decisions", params=query).json()
        seen += [item["decision"]["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == [f"d-{n}" for n in reversed(range(7))]


def test_decisions_can_be_filtered_by_state(make_bed: MakeBed) -> None:
    bed = make_bed()
    for n in range(6):
        ruling = Ruling.ASK if n % 2 else Ruling.ADVISE
        id_ = DecisionId(f"d-{n}")
        verdict = Verdict(decision=id_, t_s=1.0, ruling=ruling, why="")
        bed.loop.journal.append([decision(id_), verdict])

    query = {"state": "waiting", "limit": 2}
    first = bed.client.get("/api/v1/decisions", params=query).json()
    rest = bed.client.get(
        "/api/v1/decisions", params={**query, "cursor": first["next_cursor"]}
    ).json()

    assert [item["decision"]["id"] for item in first["items"]] == ["d-5", "d-3"]
    assert [item["decision"]["id"] for item in rest["items"]] == ["d-1"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "czEy!", "", "c" * 60, "cy0x", "c8K9", "🐟"])
@pytest.mark.parametrize("path", ["decisions", "findings", "journal"])
def test_a_cursor_that_is_not_ours_is_refused_with_a_hint(
    approval_bed: ServiceBed, path: str, cursor: str
) -> None:
    answer = approval_bed.client.get(f"/api/v1/{path}", params={"cursor": cursor})

    assert answer.status_code == 400
    assert "next_cursor" in answer.json()["error"]["hint"]


def test_the_journal_is_read_on_from_where_it_was_left(make_bed: MakeBed) -> None:
    bed = make_bed()
    bed.loop.journal.append([decision("d-1"), decision("d-2"), decision("d-3")])

    first = bed.client.get("/api/v1/journal?limit=2").json()
    second = bed.client.get(f"/api/v1/journal?cursor={first['next_cursor']}").json()
    third = bed.client.get(f"/api/v1/journal?cursor={second['next_cursor']}").json()

    assert [item["id"] for item in first["items"] + second["items"]] == ["d-1", "d-2", "d-3"]
    assert third == {"items": [], "next_cursor": second["next_cursor"]}


def test_savings_are_intervals_with_their_assumptions_and_the_simulators_truth(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO, truth=lambda: 0.125)

    savings = bed.client.get("/api/v1/savings").json()

    for figure in ("gpu_hours", "cost", "energy_kwh", "co2_kg"):
        assert savings[figure]["low"] < savings[figure]["mid"] < savings[figure]["high"]
    assert savings["cost"]["mid"] == pytest.approx(2.5 * savings["gpu_hours"]["mid"])
    assert savings["assumptions"]["currency"] == "USD"
    assert savings["simulated_truth_gpu_hours"] == 0.125
    assert savings["series"][-1]["mid"] == pytest.approx(savings["gpu_hours"]["mid"])
    assert all(one["t_s"] < other["t_s"] for one, other in pairwise(savings["series"]))


def test_without_outcomes_savings_are_zero_and_there_is_no_truth(make_bed: MakeBed) -> None:
    bed = make_bed()

    savings = bed.client.get("/api/v1/savings").json()

    assert savings["gpu_hours"] == {"low": 0.0, "mid": 0.0, "high": 0.0}
    assert savings["simulated_truth_gpu_hours"] is None
    assert savings["series"] == []


def test_what_stopping_jobs_cost_is_told_beside_the_savings(make_bed: MakeBed) -> None:
    bed = make_bed()
    stop_cost = outcome("d-stop", gained=-900.0, yardstick=STOP_COST)
    bed.loop.journal.append([preempt("d-stop"), stop_cost])

    savings = bed.client.get("/api/v1/savings").json()
    metrics = bed.client.get("/metrics").text

    assert savings["stop_cost_gpu_hours"] == 0.25
    assert savings["gpu_hours"]["mid"] == 0.0
    assert "steward_stop_cost_gpu_seconds 900.0" in metrics
    assert "cost 0.25 GPU-h" in stop_cost_line(bed.live_state.refresh())


def test_a_figure_that_nobody_knows_is_null_and_never_nan(make_bed: MakeBed) -> None:
    bed = make_bed()
    made = decision("d-1")
    dark = outcome("d-1", idle_watts=float("nan"), counterfactual=float("inf"))
    bed.loop.journal.append([finding(), made, receipt(made), dark])

    answers = [
        bed.client.get(f"/api/v1/{path}")
        for path in ("savings", "decisions", "decisions/d-1", "journal", "findings")
    ]

    for answer in answers:
        assert answer.status_code == 200
        json.loads(answer.text, parse_constant=pytest.fail)
    assert answers[0].json()["energy_kwh"] == {"low": None, "mid": None, "high": None}
    assert answers[1].json()["items"][0]["outcomes"][0]["idle_watts"] is None


def test_patterns_are_listed(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)

    items = bed.client.get("/api/v1/patterns").json()["items"]

    assert {item["id"] for item in items} == {pattern.id for pattern in bed.loop.patterns}
    assert items


def test_metrics_are_prometheus_text_without_series_for_unknown_gpus(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    text = bed.client.get("/metrics").text

    bed.world.collect_fault = OSError("gone")
    bed.turn(200)
    later = bed.client.get("/metrics").text

    assert 'steward_gpu_busy_share{node="n1",gpu="1",job_id="j3",tenant="a"} 0.9' in text
    assert 'steward_gpus{state="idle"} 1.0' in text
    assert 'steward_decisions{state="waiting"} 1.0' in text
    assert "steward_turns_total 40.0" in text
    assert "steward_queue_jobs 1.0" in text
    assert "steward_gpu_busy_share{" not in later
    assert 'steward_gpus{state="unknown"} 2.0' in later
    assert "steward_faults_total 20.0" in later


def test_it_is_ready_once_the_loop_has_turned(make_bed: MakeBed) -> None:
    bed = make_bed()
    before = bed.client.get("/readyz")

    bed.turn(10)
    after = bed.client.get("/readyz")

    assert before.status_code == 503
    assert "first turn" in before.json()["error"]["problem"]
    assert (after.status_code, after.json()) == (200, {"status": "ready", "turns": 1})


def test_it_is_not_ready_while_the_journal_cannot_be_written(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=300)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # that is how a full disk looks
    try:
        bed.turn(20)
        full = bed.client.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    bed.turn(10)
    roomy = bed.client.get("/readyz")

    assert full.status_code == 503
    assert "the journal cannot be written" in full.json()["error"]["problem"]
    assert roomy.status_code == 200


def test_a_dead_loop_is_not_alive(make_bed: MakeBed) -> None:
    alive = make_bed().client.get("/healthz")
    dead = make_bed(alive=lambda: False).client.get("/healthz")

    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    assert dead.status_code == 503
    assert dead.json()["error"]["problem"] == "the loop has stopped"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/", 404),
        ("POST", "/api/v1/cluster", 405),
        ("DELETE", "/api/v1/decisions/d-1", 405),
        ("GET", "/api/v1/decisions/d-1/approve", 405),
        ("PUT", "/healthz", 405),
        ("GET", "/api/v1/decisions?limit=0", 422),
        ("GET", "/api/v1/decisions?limit=many", 422),
        ("GET", "/api/v1/decisions?state=lost", 422),
        ("GET", "/api/v1/journal?kind=gossip", 422),
        ("GET", f"/api/v1/decisions/{'x' * 200}", 422),
        ("GET", "/api/v1/decisions/%00", 422),
    ],
)
def test_every_error_says_what_is_wrong_in_the_same_three_fields(
    approval_bed: ServiceBed, method: str, path: str, status: int
) -> None:
    answer = approval_bed.client.request(method, path)

    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"problem", "where", "hint"}
    assert answer.json()["error"]["problem"]


def test_a_wrong_method_is_told_the_right_ones(approval_bed: ServiceBed) -> None:
    answers = [
        approval_bed.client.request("PUT", "/api/v1/cluster"),
        approval_bed.client.get("/api/v1/decisions/d-1/undo"),
    ]

    assert [answer.headers["allow"] for answer in answers] == ["GET", "POST"]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"note": 7}', b'{"note": "x", "user": "root"}', b'{"note": "\\ud800"}']
)
def test_a_body_that_is_not_a_note_is_refused(approval_bed: ServiceBed, body: bytes) -> None:
    answer = approval_bed.client.post(
        f"/api/v1/decisions/{approval_bed.only_decision()}/approve",
        content=body,
        headers={"content-type": "application/json"},
    )

    assert answer.status_code == 422
    assert approval_bed.loop.journal.read(kinds=("choice",)) == []


def test_the_openapi_document_describes_every_way_to_fail(approval_bed: ServiceBed) -> None:
    document = approval_bed.client.get("/api/v1/openapi.json").json()

    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert {"401", "422", "429", "503"} <= set(operation["responses"]), path
    assert "/api/v1/decisions/{decision}/approve" in document["paths"]
    assert "/login" not in document["paths"]


def test_an_approval_in_advance_lasts_for_real_hours_and_needs_a_known_tenant(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=100)
    bed.live_state.speed = 60.0
    body = {"tenant": "a", "action": "lend", "hours": 2.0, "gpus": 4}

    made = bed.client.post("/api/v1/approvals", json=body)
    refused = bed.client.post("/api/v1/approvals", json={**body, "tenant": "x"})

    assert made.json()["until_s"] == made.json()["t_s"] + 60 * 7200.0
    assert refused.status_code == 422
    assert "no tenant called 'x'; known: a, b" in refused.json()["error"]["problem"]
    for unbounded in ({"gpus": 10**9}, {"hours": 1e-6}, {"hours": 10_000.0}):
        assert bed.client.post("/api/v1/approvals", json={**body, **unbounded}).status_code == 422


@pytest.mark.parametrize("body", [b"[" * 5_000, b'{"note": "\xff"}', b'{"note": ' + b"9" * 5000])
def test_a_body_that_cannot_be_read_at_all_is_told_where_and_what_to_send(
    approval_bed: ServiceBed, body: bytes
) -> None:
    answer = approval_bed.client.post(
        f"/api/v1/decisions/{approval_bed.only_decision()}/approve",
        content=body,
        headers={"content-type": "application/json"},
    )

    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["where"]
    assert answer.json()["error"]["hint"]


def test_savings_come_by_kind_of_decision_and_without_a_projection_at_first(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=AND_CHECKED_S, autonomy=Autonomy.AUTO)

    found = bed.client.get("/api/v1/savings").json()

    (lent,) = [each for each in found["by_kind"] if each["kind"] == "lend"]
    # open loans count in the sum at once, by kind when they are checked
    assert 0 < lent["gpu_hours"]["mid"] <= found["gpu_hours"]["mid"]
    assert found["projection"] is None
