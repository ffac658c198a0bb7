"""Who may come in, and what they may do: tokens, sessions, hosts, origins, rates, sizes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from service.house import LONG_ENOUGH_S, House, MakeHouse
from steward.clock import ManualClock
from steward.service.access_middleware import AccessMiddleware
from steward.service.authentication import SESSION_S, Authenticator
from steward.service.limits import BodyLimit, RateLimit
from steward.service.login import TRIES_PER_MINUTE
from steward.store.tokens import Role, Tokens

OUTSIDE = {"host": "192.0.2.7"}
READING = ["/api/v1/cluster", "/api/v1/journal", "/metrics"]


def log_in(house: House, token: str, *, wanted: str = "") -> int:
    answer = house.client.post("/login", params={"next": wanted}, data={"token": token})
    return answer.status_code


# -- tokens ------------------------------------------------------------------------------------


def test_on_this_machine_nobody_needs_a_token(asking_house: House) -> None:
    assert [asking_house.client.get(path).status_code for path in READING] == [200] * 3


def test_what_came_through_a_proxy_is_not_from_this_machine(asking_house: House) -> None:
    answer = asking_house.client.get("/api/v1/cluster", headers={"X-Forwarded-For": "203.0.113.9"})

    assert answer.status_code == 401


@pytest.mark.parametrize("path", READING)
def test_elsewhere_programs_need_a_bearer_token(make_house: MakeHouse, path: str) -> None:
    house = make_house(**OUTSIDE)
    shown = house.bearer("ci", Role.VIEWER)

    without = house.client.get(path)
    wrong = house.client.get(path, headers={"Authorization": "Bearer stw_wrong"})
    right = house.client.get(path, headers=shown)

    assert [without.status_code, wrong.status_code, right.status_code] == [401, 401, 200]
    assert without.headers["www-authenticate"] == "Bearer"
    assert "steward token new" in without.json()["error"]["hint"]


@pytest.mark.parametrize("given", ["Bearer", "Basic dXNlcjpwYXNz", "stw_x", "Bearer \u00e9"])
def test_a_token_that_is_given_must_be_right_even_where_none_is_needed(
    make_house: MakeHouse, given: str
) -> None:
    house = make_house()
    house.tokens.make("ada", Role.OPERATOR)

    answer = house.client.get("/api/v1/cluster", headers={"Authorization": given.encode("latin-1")})

    assert answer.status_code == 401


def test_supervisors_need_no_token(make_house: MakeHouse) -> None:
    house = make_house(run_s=10, **OUTSIDE)

    assert [house.client.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]


def test_a_viewer_reads_and_an_operator_decides(make_house: MakeHouse) -> None:
    house = make_house(run_s=LONG_ENOUGH_S, **OUTSIDE)
    viewer, operator = house.bearer("vic", Role.VIEWER), house.bearer("olga", Role.OPERATOR)
    path = f"/api/v1/decisions/{house.only_decision()}/approve"

    refused = house.client.post(path, headers=viewer)
    done = house.client.post(path, headers=operator)

    assert refused.status_code == 403
    assert "vic is a viewer" in refused.json()["error"]["problem"]
    assert (done.status_code, done.json()["user"]) == (202, "olga")
    assert len(house.loop.journal.read(kinds=("choice",))) == 1


def test_a_revoked_token_is_worthless_at_once(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)
    shown = house.bearer("ada", Role.VIEWER)
    before = house.client.get("/api/v1/cluster", headers=shown)

    house.tokens.revoke("ada")
    after = house.client.get("/api/v1/cluster", headers=shown)

    assert (before.status_code, after.status_code) == (200, 401)


def test_a_token_file_that_cannot_be_read_is_503_and_lets_nobody_in(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)
    shown = house.bearer("ada", Role.VIEWER)
    Path(house.live_state.settings.store.tokens_file).write_text("not tokens")

    answer = house.client.get("/api/v1/cluster", headers=shown)

    assert answer.status_code == 503
    assert "tokens" in answer.json()["error"]["hint"]


# -- pages -------------------------------------------------------------------------------------


def test_a_page_asks_to_log_in_and_comes_back(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)
    token = house.tokens.make("ada", Role.VIEWER)

    sent_away = house.client.get("/decisions?show=Waiting")
    answer = house.client.post(sent_away.headers["location"], data={"token": token})

    assert sent_away.status_code == 303
    assert sent_away.headers["location"] == "/login?next=%2Fdecisions%3Fshow%3DWaiting"
    assert (answer.status_code, answer.headers["location"]) == (303, "/decisions?show=Waiting")
    assert house.client.get("/api/v1/cluster").status_code == 200


def test_the_session_cookie_is_for_browsers_alone_and_never_holds_the_token(
    make_house: MakeHouse,
) -> None:
    house = make_house(**OUTSIDE)
    token = house.tokens.make("ada", Role.VIEWER)

    cookie = house.client.post("/login", data={"token": token}).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie


def test_a_wrong_token_is_told_so_on_the_page(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)

    answer = house.client.post("/login", data={"token": "stw_wrong"})

    assert answer.status_code == 401
    assert "not a valid token" in answer.text
    assert "set-cookie" not in answer.headers


def test_guessing_tokens_is_slowed_down(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)

    tries = [log_in(house, f"stw_{n}") for n in range(TRIES_PER_MINUTE + 1)]

    assert tries == [401] * TRIES_PER_MINUTE + [429]


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/\n/"]
)
def test_the_login_never_leads_to_another_site(make_house: MakeHouse, wanted: str) -> None:
    house = make_house(**OUTSIDE)
    token = house.tokens.make("ada", Role.VIEWER)

    answer = house.client.post("/login", params={"next": wanted}, data={"token": token})

    assert answer.headers["location"] == "/"


def test_logging_out_ends_the_session(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)
    log_in(house, house.tokens.make("ada", Role.VIEWER))
    kept = {"Cookie": "; ".join(f"{key}={value}" for key, value in house.client.cookies.items())}
    before = house.client.get("/api/v1/cluster", headers=kept)

    house.client.post("/logout")
    after = house.client.get("/api/v1/cluster", headers=kept)

    assert (before.status_code, after.status_code) == (200, 401)


def test_a_session_ends_after_its_time_and_with_its_token(tmp_path: Path) -> None:
    clock, tokens = ManualClock(), Tokens(tmp_path / "tokens.json")
    access = Authenticator(tokens, required=True, cookie="c", now_s=clock.now_s)
    headers = []
    for name in ("ada", "bob"):
        secret = access.log_in(tokens.make(name, Role.VIEWER))
        headers.append(Headers({"cookie": f"c={secret}"}))
    users = [access.user(each) for each in headers]
    assert [user.name for user in users if user] == ["ada", "bob"]

    tokens.revoke("ada")
    assert [access.user(each) is None for each in headers] == [True, False]

    clock.set(SESSION_S)
    assert access.user(headers[1]) is None


def test_an_old_cookie_does_not_lock_out_the_person_at_this_machine(asking_house: House) -> None:
    answer = asking_house.client.get(
        "/api/v1/cluster", headers={"Cookie": "steward_test=from-last-week"}
    )

    assert answer.status_code == 200


# -- hosts and origins -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_name_that_leads_to_this_machine_is_refused(
    asking_house: House, host: str
) -> None:
    answer = asking_house.client.get("/api/v1/cluster", headers={"Host": host})

    assert answer.status_code == 400
    assert answer.json()["error"]["where"] == "Host header"


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:8787", "[::1]:8787"])
def test_every_name_of_this_machine_will_do(asking_house: House, host: str) -> None:
    assert asking_house.client.get("/api/v1/cluster", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://[", "file://"]
)
def test_another_sites_page_cannot_decide(asking_house: House, origin: str) -> None:
    path = f"/api/v1/decisions/{asking_house.only_decision()}/approve"

    answer = asking_house.client.post(path, headers={"Origin": origin})

    assert answer.status_code == 403
    assert asking_house.loop.journal.read(kinds=("choice",)) == []


def test_our_own_page_can_decide(make_house: MakeHouse) -> None:
    house = make_house(run_s=LONG_ENOUGH_S)
    path = f"/api/v1/decisions/{house.only_decision()}/approve"

    answer = house.client.post(path, headers={"Origin": "http://127.0.0.1:8787"})

    assert answer.status_code == 202


def socket_answer(house: House, headers: dict[str, str]) -> list[str]:
    """Ask for the socket that live pages use, and return the kinds of messages that come back."""
    sent: list[str] = []
    scope = {
        "type": "websocket",
        "path": "/_nicegui_ws/socket.io/",
        "query_string": b"EIO=4&transport=websocket",
        "headers": [(key.lower().encode(), value.encode()) for key, value in headers.items()],
    }

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def behind(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    loopback_only = not house.access.required
    door = AccessMiddleware(
        behind,
        access=house.access,
        rate=RateLimit(10),
        body=BodyLimit(10),
        loopback_only=loopback_only,
    )
    asyncio.run(door(scope, receive, send))
    return sent


def test_a_live_socket_opens_for_our_own_pages_alone(make_house: MakeHouse) -> None:
    house = make_house()
    here = {"Host": "localhost:8787"}

    ours = socket_answer(house, {**here, "Origin": "http://localhost:8787"})
    theirs = socket_answer(house, {**here, "Origin": "https://evil.example"})
    rebound = socket_answer(house, {"Host": "evil.example", "Origin": "http://evil.example"})

    assert [ours, theirs, rebound] == [
        ["websocket.accept"],
        ["websocket.close"],
        ["websocket.close"],
    ]


def test_a_live_socket_needs_a_session_where_pages_do(make_house: MakeHouse) -> None:
    house = make_house(**OUTSIDE)
    secret = house.access.log_in(house.tokens.make("ada", Role.VIEWER))

    without = socket_answer(house, {"Host": "gpu.example"})
    within = socket_answer(house, {"Host": "gpu.example", "Cookie": f"steward_test={secret}"})

    assert (without, within) == (["websocket.close"], ["websocket.accept"])


# -- how much ----------------------------------------------------------------------------------


def test_too_many_requests_are_told_when_to_come_back(make_house: MakeHouse) -> None:
    house = make_house(requests_per_minute=3)

    answers = [house.client.get("/api/v1/patterns") for _ in range(4)]
    health = house.client.get("/healthz")

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) == 20
    assert "requests_per_minute" in answers[-1].json()["error"]["hint"]
    assert health.status_code == 200


def test_wrong_tokens_count_together_so_that_guessing_is_slow(make_house: MakeHouse) -> None:
    house = make_house(requests_per_minute=3, **OUTSIDE)

    answers = [
        house.client.get("/api/v1/patterns", headers={"Authorization": f"Bearer stw_{n}"})
        for n in range(4)
    ]
    known = house.client.get("/api/v1/patterns", headers=house.bearer("ada", Role.VIEWER))

    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert known.status_code == 200


def test_a_large_request_is_refused_whether_or_not_it_says_so(make_house: MakeHouse) -> None:
    house = make_house(body_limit_bytes=100)
    path = "/api/v1/decisions/d-1/approve"

    async def pieces() -> object:
        for _ in range(20):
            yield b"x" * 10

    answers = [house.client.post(path, content=b"x" * 101)]
    answers.append(house.client.post(path, content=pieces()))

    assert [answer.status_code for answer in answers] == [413, 413]
    assert "body_limit_bytes" in answers[0].json()["error"]["hint"]


def test_every_answer_tells_browsers_to_take_nothing_from_elsewhere(asking_house: House) -> None:
    for path in ("/api/v1/cluster", "/api/v1/nothing", "/login", "/static/steward.css"):
        headers = asking_house.client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_parameter_that_is_given_twice_is_refused_not_overlooked(make_house: MakeHouse) -> None:
    house = make_house()

    twice = house.client.get("/api/v1/cluster?queue_limit=1&queue_limit=2")
    states = house.client.get("/api/v1/decisions?state=done&state=active")

    assert twice.status_code == 422
    assert twice.json()["error"]["problem"] == "queue_limit is given more than once"
    assert states.status_code == 200
