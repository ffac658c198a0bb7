"""`/api/v1/mutes` and `/api/v1/alerts`: people mute their own, Alertmanager brings alerts."""

from __future__ import annotations

import httpx

from service.bed import Client, MakeBed, ServiceBed
from steward.store.tokens import Role


def mute(client: Client, **body: object) -> httpx.Response:
    return client.post("/api/v1/mutes", json={"for_s": 3600.0, **body})


def client_of(bed: ServiceBed, name: str, role: Role) -> Client:
    return Client(bed.client.app, "http://127.0.0.1:8787", token=bed.tokens.make(name, role))


def test_an_operator_mutes_for_anybody_and_ends_it(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)

    made = mute(bed.client, user="ann", job="7").json()
    listed = bed.client.get("/api/v1/mutes").json()["items"]
    ended = bed.client.request("DELETE", f"/api/v1/mutes/{made['id']}")

    assert (made["user"], made["job"]) == ("ann", "7")
    assert [each["id"] for each in listed] == [made["id"]]
    assert ended.status_code == 200
    assert bed.client.get("/api/v1/mutes").json()["items"] == []


def test_wrong_mutes_are_refused_with_a_reason(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)

    kind = mute(bed.client, kind="jobs")
    forever = mute(bed.client, for_s=1e12)
    unknown = bed.client.request("DELETE", "/api/v1/mutes/m-none")

    assert [each.status_code for each in (kind, forever, unknown)] == [422, 422, 404]
    assert "no kind of message" in kind.text


def test_viewers_see_neither_what_waits_nor_others_mutes(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)
    mute(bed.client, user="ann")
    viewer = client_of(bed, "eve", Role.VIEWER)

    assert viewer.get("/api/v1/mutes").json()["items"] == []
    assert viewer.get("/api/v1/messages").status_code == 403
    assert mute(viewer).status_code == 403
    assert bed.client.get("/api/v1/messages").json() == {"waiting": [], "dropped": []}


ALERT = {
    "status": "firing",
    "labels": {"alertname": "NodeDown", "instance": "n7:9100"},
    "annotations": {"summary": "n7 is down\x1b[31m"},
    "startsAt": "2001-02-03T04:05:06Z",
}


def test_alerts_come_into_the_journal_and_stewards_own_do_not(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)
    own = {**ALERT, "labels": {"alertname": "x", "sender": "steward"}}

    answer = bed.client.post("/api/v1/alerts", json={"version": "4", "alerts": [ALERT, own]})

    assert (answer.status_code, answer.json()) == (202, {"taken": 1})
    events = [
        entry.value for entry in bed.loop.journal.read(kinds=("event",), newest_first=True, limit=1)
    ]
    assert [(each.kind, each.subject, each.text) for each in events] == [
        ("alert.firing", "n7:9100", "NodeDown: n7 is down [31m")
    ]


def test_agents_may_bring_alerts_and_viewers_may_not(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)
    body = {"alerts": [ALERT]}

    assert client_of(bed, "am", Role.AGENT).post("/api/v1/alerts", json=body).status_code == 202
    assert client_of(bed, "eve", Role.VIEWER).post("/api/v1/alerts", json=body).status_code == 403


def test_alerts_of_another_form_are_refused(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=20)

    for body in ({"alerts": "x"}, {"alerts": [{**ALERT, "status": "odd"}]}, {}):
        assert bed.client.post("/api/v1/alerts", json=body).status_code == 422
