"""The API of agents: who may bring what, and what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from observe.parcels import T0, full, label, parcel, small
from service.bed import Client, build_bed
from steward.model.event import Observation
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.model.span import Span
from steward.observe.agent.parcel import pack_parcel, read_header, replace_header
from steward.observe.intake import AgentRegistry, Intake
from steward.service.access_middleware import AccessMiddleware
from steward.service.api.agents import agent_routes
from steward.service.app import create_api
from steward.service.authentication import Authenticator
from steward.service.failures import handle_failures
from steward.service.limits import BodyLimit, RateLimit, StreamLimit
from steward.store.tokens import Role, Tokens

PARCELS, TIME, AGENTS = "/api/v1/agents/parcels", "/api/v1/agents/time", "/api/v1/agents"


class Site:
    """The routes of agents behind the access middleware, as other machines reach them."""

    def __init__(
        self, folder: Path, *, max_bytes: int = 2**20, per_minute: int = 600, upload: int = 2**20
    ) -> None:
        self.tokens = Tokens(folder / "tokens.json")
        self.access = Authenticator(self.tokens, cookie="steward_test")
        self.intake = Intake(folder / "intake", max_bytes=max_bytes)
        app = FastAPI()
        app.include_router(agent_routes(self.intake, AgentRegistry()), prefix="/api/v1")
        handle_failures(app)
        app.add_middleware(
            AccessMiddleware,
            access=self.access,
            rate=RateLimit(per_minute),
            body=BodyLimit(65536),
            check_host=False,
            uploads={PARCELS: StreamLimit(upload)},
        )
        self.client = Client(app, "http://steward.example:8787")

    def token(self, name: str = "agents", role: Role = Role.AGENT, *, node: str = "") -> str:
        return self.tokens.make(name, role, node=node)

    def post(self, body: bytes, token: str) -> httpx.Response:
        return self.client.post(PARCELS, content=body, headers=bearer(token))

    def times(self) -> list[float]:
        seen = self.intake.collect(T0)
        return sorted(t_s - T0 for table in seen.tables for t_s in table["t_s"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def problem(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["problem"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with closing(made.intake):
        yield made


def test_a_parcel_is_taken_once_and_its_sender_told_the_time(site: Site) -> None:
    token = site.token()

    first, again = site.post(parcel(1), token), site.post(parcel(1), token)

    assert first.status_code == again.status_code == 200
    assert (first.json()["repeated"], again.json()["repeated"]) == (False, True)
    assert first.json()["received_s"] <= first.json()["answered_s"]
    assert first.json()["server"] == again.json()["server"]
    assert site.times() == [1]


def test_agents_are_listed_with_what_they_tell_about_themselves(site: Site) -> None:
    token = site.token()
    for sequence in (1, 2, 3):
        body = parcel(sequence, version="0.1.0")
        told = replace(
            read_header(body), offset_s=0.25, round_trip_s=0.01, buffered_bytes=4096, gaps=2
        )
        site.post(replace_header(body, told), token)
    viewer = bearer(site.token("ada", Role.VIEWER))

    (agent,) = site.client.get(AGENTS, headers=viewer).json()["items"]

    assert (agent["node"], agent["agent"], agent["version"]) == ("n1", "a-1", "0.1.0")
    assert (agent["offset_s"], agent["buffered_bytes"], agent["gaps"]) == (0.25, 4096, 2)
    assert agent["parcels"] == 3
    assert agent["samples_per_s"] == pytest.approx(1.0)
    assert "run" not in agent  # whoever knows it could speak for the agent


def test_an_agents_token_opens_nothing_else(site: Site) -> None:
    headers = bearer(site.token())

    for path in ("/api/v1/cluster", AGENTS, "/", "/api/v1/decisions"):
        answer = site.client.get(path, headers=headers)
        assert answer.status_code == 403, path
        assert "only sends telemetry" in problem(answer)
    assert site.access.log_in(site.token("more")) is None  # pages are for people
    assert site.client.get(TIME, headers=headers).status_code == 200


def test_people_who_may_only_look_bring_nothing_and_strangers_not_at_all(site: Site) -> None:
    viewer = site.post(parcel(1), site.token("ada", Role.VIEWER))
    stranger = site.client.post(PARCELS, content=parcel(1))
    wrong = site.post(parcel(1), "stw_wrong")

    assert (viewer.status_code, stranger.status_code, wrong.status_code) == (403, 401, 401)
    assert site.times() == []


def test_a_token_that_is_revoked_is_worthless_at_once(site: Site) -> None:
    token = site.token("n1")
    assert site.post(parcel(1), token).status_code == 200

    site.tokens.revoke("n1")

    assert site.post(parcel(2), token).status_code == 401
    assert site.times() == [1]


def test_agents_are_not_counted_like_people(tmp_path: Path) -> None:
    site = Site(tmp_path, per_minute=2)
    token = site.token()

    answers = [site.post(parcel(sequence), token).status_code for sequence in range(1, 8)]

    assert answers == [200] * 7
    site.intake.close()


# -- who may speak of what ---------------------------------------------------------------------


def test_a_token_for_one_node_is_refused_on_another(site: Site) -> None:
    token = site.token("n7", node="n7")

    refused = site.post(parcel(1), token)
    taken = site.post(parcel(1, small(entity="n7/gpu0"), node="n7"), token)

    assert refused.status_code == 403
    assert "is for node 'n7', not for 'n1'" in problem(refused)
    assert taken.status_code == 200


@pytest.mark.parametrize("entity", ["n1", "n1/gpu0", "n1/gpu0/mig0", "n1@812", "job:812"])
def test_an_agent_speaks_of_its_own_node_and_of_jobs(site: Site, entity: str) -> None:
    assert site.post(parcel(1, small(entity=entity)), site.token()).status_code == 200


OTHERS: dict[str, Any] = {
    "sample": small(entity="n2/gpu0"),
    "prefix": small(entity="n10"),
    "span": Observation(spans=(Span(id="s", entity="n2/*", kind="job", name="1", from_s=T0),)),
    "tenants": Observation(tenants=(Tenant(id=TenantId("a"), guaranteed_gpus=8),)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_an_agent_does_not_speak_of_other_nodes_unless_its_token_says_so(
    site: Site, what: str
) -> None:
    refused = site.post(parcel(1, OTHERS[what]), site.token())
    taken = site.post(parcel(1, OTHERS[what]), site.token("controller", node="*"))

    assert refused.status_code == 400
    assert refused.json()["error"]["where"] == "parcel"
    assert "may not report" in problem(refused) or "entitled to" in problem(refused)
    assert taken.status_code == 200


def test_cluster_jobs_and_health_of_another_node_are_refused_too(site: Site) -> None:
    body = pack_parcel(label(node="n2"), full())  # all of it is about n1

    refused = site.post(body, site.token())

    assert refused.status_code == 400
    for part in ("n1/gpu0", "n1/gpu1", "n1/*"):
        assert part in problem(refused)


def test_a_rogue_cannot_use_up_the_numbers_of_another_agent(site: Site) -> None:
    rogue, honest = site.token("n2", node="n1"), site.token("n1", node="n1")
    site.post(parcel(1_000_000), rogue)

    assert site.post(parcel(1), honest).json()["repeated"] is False


def test_an_agent_whose_host_was_renamed_is_known_again(site: Site) -> None:
    token = site.token()
    site.post(parcel(1), token)
    site.post(parcel(1, small(entity="n9"), node="n9", run="r-2"), token)

    events = site.intake.collect(T0).events
    nodes = [
        agent["node"]
        for agent in site.client.get(AGENTS, headers=bearer(site.token("a", Role.VIEWER))).json()[
            "items"
        ]
    ]

    assert [event.kind for event in events] == ["agent.renamed"]
    assert "was on 'n1' is now on 'n9'" in events[0].text
    assert nodes == ["n1", "n9"]


# -- what is wrong -----------------------------------------------------------------------------


def test_rubbish_is_refused_in_words(site: Site) -> None:
    answer = site.post(b"rubbish", site.token())

    assert answer.status_code == 400
    assert answer.json()["error"]["where"] == "parcel"
    assert "no parcel" in problem(answer)


def test_samples_from_the_day_after_tomorrow_are_refused(site: Site) -> None:
    body = parcel(1, small(4_000_000_000.0))

    answer = site.post(body, site.token())

    assert answer.status_code == 400
    assert "ahead of the server's clock" in problem(answer)


def test_a_full_intake_asks_agents_to_come_back(tmp_path: Path) -> None:
    site = Site(tmp_path, max_bytes=2000)
    token = site.token()

    answers = [site.post(parcel(sequence), token) for sequence in range(1, 8)]
    refused = [answer for answer in answers if answer.status_code != 200]

    assert {answer.status_code for answer in refused} == {503}
    assert {answer.headers["retry-after"] for answer in refused} == {"5"}
    assert len(site.times()) == 7 - len(refused) > 0
    site.intake.close()


def test_a_parcel_that_is_too_large_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path, upload=1000)

    assert site.post(b"x" * 2000, site.token()).status_code == 413
    site.intake.close()


def test_the_whole_service_has_these_routes_where_there_is_an_intake(tmp_path: Path) -> None:
    bed = build_bed(tmp_path)
    with closing(bed.loop), closing(Intake(tmp_path / "intake")) as intake:
        app = create_api(bed.live_state, bed.access, bed.lab, intake=intake)
        client = Client(app, "http://localhost:8787")
        agent, viewer = bed.bearer("n1", Role.AGENT), bed.bearer("ada", Role.VIEWER)

        assert client.post(PARCELS, content=parcel(1), headers=agent).status_code == 200
        assert len(client.get(AGENTS, headers=viewer).json()["items"]) == 1
        assert bed.client.get(AGENTS).status_code == 404


def test_prometheus_sees_how_agents_are(tmp_path: Path) -> None:
    bed = build_bed(tmp_path)
    with closing(bed.loop), closing(Intake(tmp_path / "intake")) as intake:
        app = create_api(bed.live_state, bed.access, bed.lab, intake=intake)
        agents = bed.tokens.make("agents", Role.AGENT)
        client = Client(app, "http://localhost:8787", token=agents)
        before = client.get("/metrics").text
        for sequence, told in enumerate(({"offset_s": 0.25, "gaps": 2}, {"node": "n2"}), start=1):
            body = parcel(sequence, small(entity=f"{told.get('node', 'n1')}/gpu0"))
            client.post(PARCELS, content=replace_header(body, replace(read_header(body), **told)))
        seen = client.get("/metrics").text
        wanted = {"Accept": "application/openmetrics-text"}
        other = client.get("/metrics", headers=wanted).text

    assert "\nsteward_agent_" not in before
    assert 'steward_agent_clock_offset_seconds{node="n1"} 0.25' in seen
    assert 'steward_agent_clock_offset_seconds{node="n2"}' not in seen  # it has not asked yet
    assert 'steward_agent_lost_parcels_total{node="n1"} 2.0' in seen
    assert 'steward_agent_waiting_bytes{node="n2"} 0.0' in seen
    (heard,) = re.findall(r'steward_agent_last_heard_seconds\{node="n2"\} (\S+)', seen)
    assert 0.0 <= float(heard) < 60.0
    assert 'steward_agent_lost_parcels_total{node="n1"} 2.0' in other
