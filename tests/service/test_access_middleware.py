"""Who may do what: tokens, sessions, hosts, origins, rates, sizes, proxies, local accounts."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from service.bed import LONG_ENOUGH_S, MakeBed, ServiceBed
from steward.clients.transport_rule import is_loopback
from steward.clock import ManualClock
from steward.config.settings import AccessSettings
from steward.service.access_middleware import TELEMETRY, AccessMiddleware
from steward.service.authentication import LOGIN_CODE_S, SESSION_S, Authenticator, User
from steward.service.failures import RefusedError
from steward.service.limits import BodyLimit, RateLimit
from steward.service.local_users import LocalUsers, PeerCredentials
from steward.service.login import TRIES_PER_MINUTE
from steward.store.tokens import Role, Tokens

OUTSIDE = {"host": "192.0.2.7"}
READING = ["/api/v1/cluster", "/api/v1/journal", "/metrics"]


def log_in(bed: ServiceBed, token: str, *, wanted: str = "") -> int:
    answer = bed.anonymous.post("/login", params={"next": wanted}, data={"token": token})
    return answer.status_code


# -- tokens ------------------------------------------------------------------------------------


def test_every_path_of_the_api_answers_401_without_a_token_also_on_loopback(
    approval_bed: ServiceBed,
) -> None:
    app: Any = approval_bed.anonymous.app
    paths = [
        (method.upper(), re.sub("{.*?}", "x", path))
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        if path.startswith("/api/")
    ]

    answers = {each: approval_bed.anonymous.request(*each).status_code for each in paths}

    assert len(answers) > 20
    assert set(answers.values()) == {401}
    assert approval_bed.anonymous.get("/api/v1/no-such-thing").status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
@pytest.mark.parametrize("path", READING)
def test_programs_need_a_bearer_token(make_bed: MakeBed, host: str, path: str) -> None:
    bed = make_bed(host=host)
    shown = bed.bearer("ci", Role.VIEWER)

    without = bed.anonymous.get(path)
    wrong = bed.anonymous.get(path, headers={"Authorization": "Bearer stw_wrong"})
    right = bed.anonymous.get(path, headers=shown)

    assert [without.status_code, wrong.status_code, right.status_code] == [401, 401, 200]
    assert without.headers["www-authenticate"] == "Bearer"
    assert "steward token new" in without.json()["error"]["hint"]


def test_metrics_are_for_viewers_and_agents_unless_they_are_opened(make_bed: MakeBed) -> None:
    closed, opened = make_bed(), make_bed(open_metrics=True)

    by_agent = closed.anonymous.get("/metrics", headers=closed.bearer("scraper", Role.AGENT))

    assert closed.anonymous.get("/metrics").status_code == 401
    assert by_agent.status_code == 200
    assert opened.anonymous.get("/metrics").status_code == 200
    assert opened.anonymous.get("/api/v1/cluster").status_code == 401


@pytest.mark.parametrize("path", TELEMETRY)
def test_only_agents_send_telemetry(make_bed: MakeBed, path: str) -> None:
    bed = make_bed()

    answers = [
        bed.anonymous.post(path, headers=bed.bearer(role.value, role))
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    ]

    assert [answer.status_code for answer in answers] == [403] * 3
    assert "--role agent" in answers[0].json()["error"]["hint"]


def test_a_token_ends_when_it_has_expired(tmp_path: Path) -> None:
    clock = ManualClock(1000.0)
    tokens = Tokens(tmp_path / "tokens.json", clock=clock)
    access = Authenticator(tokens, cookie="c", now_s=clock.now_s)
    secret = tokens.make("ada", Role.VIEWER, valid_s=60.0)
    bearer = Headers({"authorization": f"Bearer {secret}"})
    cookie = Headers({"cookie": f"c={access.log_in(secret)}"})

    before = [access.user(each) is not None for each in (bearer, cookie)]
    clock.set(1060.0)
    after = [access.user(each) is not None for each in (bearer, cookie)]

    assert (before, after) == ([True, True], [False, False])


@pytest.mark.parametrize("given", ["Bearer", "Basic dXNlcjpwYXNz", "stw_x", "Bearer \u00e9"])
def test_a_wrong_credential_is_refused_even_beside_a_valid_session(
    make_bed: MakeBed, given: str
) -> None:
    bed = make_bed()
    log_in(bed, bed.tokens.make("ada", Role.OPERATOR))

    answer = bed.anonymous.get(
        "/api/v1/cluster", headers={"Authorization": given.encode("latin-1")}
    )

    assert answer.status_code == 401


def test_supervisors_need_no_token(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=10, **OUTSIDE)

    assert [bed.anonymous.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]


def test_a_viewer_reads_and_an_operator_decides(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S, **OUTSIDE)
    viewer, operator = bed.bearer("vic", Role.VIEWER), bed.bearer("olga", Role.OPERATOR)
    path = f"/api/v1/decisions/{bed.only_decision()}/approve"

    refused = bed.anonymous.post(path, headers=viewer)
    done = bed.anonymous.post(path, headers=operator)

    assert refused.status_code == 403
    assert "vic is a viewer" in refused.json()["error"]["problem"]
    assert (done.status_code, done.json()["user"]) == (202, "olga")
    assert len(bed.loop.journal.read(kinds=("choice",))) == 1


def test_a_revoked_token_is_worthless_at_once(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)
    shown = bed.bearer("ada", Role.VIEWER)
    before = bed.anonymous.get("/api/v1/cluster", headers=shown)

    bed.tokens.revoke("ada")
    after = bed.anonymous.get("/api/v1/cluster", headers=shown)

    assert (before.status_code, after.status_code) == (200, 401)


def test_a_token_file_that_cannot_be_read_is_503_and_lets_nobody_in(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)
    shown = bed.bearer("ada", Role.VIEWER)
    Path(bed.live_state.settings.store.tokens_file).write_text("not tokens")

    answer = bed.anonymous.get("/api/v1/cluster", headers=shown)

    assert answer.status_code == 503
    assert "tokens" in answer.json()["error"]["hint"]


# -- pages -------------------------------------------------------------------------------------


def test_a_page_asks_to_log_in_and_comes_back(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)
    token = bed.tokens.make("ada", Role.VIEWER)

    sent_away = bed.anonymous.get("/decisions?show=Waiting")
    answer = bed.anonymous.post(sent_away.headers["location"], data={"token": token})

    assert sent_away.status_code == 303
    assert sent_away.headers["location"] == "/login?next=%2Fdecisions%3Fshow%3DWaiting"
    assert (answer.status_code, answer.headers["location"]) == (303, "/decisions?show=Waiting")
    assert bed.anonymous.get("/api/v1/cluster").status_code == 200


def test_the_session_cookie_is_for_browsers_alone_and_never_holds_the_token(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(**OUTSIDE)
    token = bed.tokens.make("ada", Role.VIEWER)

    cookie = bed.anonymous.post("/login", data={"token": token}).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie


def test_a_wrong_token_is_told_so_on_the_page(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)

    answer = bed.anonymous.post("/login", data={"token": "stw_wrong"})

    assert answer.status_code == 401
    assert "not a valid token" in answer.text
    assert "set-cookie" not in answer.headers


def test_guessing_tokens_is_slowed_down_and_the_right_one_still_opens(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(**OUTSIDE)

    tries = [log_in(bed, f"stw_{n}") for n in range(TRIES_PER_MINUTE + 1)]
    right = log_in(bed, bed.tokens.make("ada", Role.VIEWER))

    assert tries == [401] * TRIES_PER_MINUTE + [429]
    assert right == 303


def test_a_login_link_opens_a_session_once_and_for_ten_minutes(make_bed: MakeBed) -> None:
    bed = make_bed()
    code = bed.access.issue_login_code("ada", Role.ADMIN)

    first = bed.anonymous.get("/login", params={"code": code})
    inside = bed.anonymous.get("/api/v1/cluster")
    second = bed.anonymous.get("/login", params={"code": code})

    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert code not in first.headers["set-cookie"]
    assert inside.status_code == 200
    assert second.status_code == 401
    assert "has been used or has expired" in second.text


def test_a_login_link_expires(tmp_path: Path) -> None:
    clock = ManualClock()
    access = Authenticator(Tokens(tmp_path / "tokens.json"), cookie="c", now_s=clock.now_s)
    code = access.issue_login_code("ada", Role.ADMIN)

    clock.set(LOGIN_CODE_S)

    assert access.redeem(code) is None


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/\n/"]
)
def test_the_login_never_leads_to_another_site(make_bed: MakeBed, wanted: str) -> None:
    bed = make_bed(**OUTSIDE)
    token = bed.tokens.make("ada", Role.VIEWER)

    answer = bed.anonymous.post("/login", params={"next": wanted}, data={"token": token})

    assert answer.headers["location"] == "/"


def test_logging_out_ends_the_session(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)
    log_in(bed, bed.tokens.make("ada", Role.VIEWER))
    kept = {"Cookie": "; ".join(f"{key}={value}" for key, value in bed.anonymous.cookies.items())}
    before = bed.anonymous.get("/api/v1/cluster", headers=kept)

    bed.anonymous.post("/logout")
    after = bed.anonymous.get("/api/v1/cluster", headers=kept)

    assert (before.status_code, after.status_code) == (200, 401)


def test_a_session_ends_after_its_time_and_with_its_token(tmp_path: Path) -> None:
    clock, tokens = ManualClock(), Tokens(tmp_path / "tokens.json")
    access = Authenticator(tokens, cookie="c", now_s=clock.now_s)
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


# -- hosts and origins -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "[::1].evil.example", ""],
)
def test_a_foreign_name_that_leads_to_this_machine_is_refused(
    approval_bed: ServiceBed, host: str
) -> None:
    answer = approval_bed.client.get("/api/v1/cluster", headers={"Host": host})

    assert answer.status_code == 400
    assert answer.json()["error"]["where"] == "Host header"


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1:8787", "[::1]:8787"])
def test_every_name_of_this_machine_will_do(approval_bed: ServiceBed, host: str) -> None:
    assert approval_bed.client.get("/api/v1/cluster", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://[", "file://"]
)
def test_another_sites_page_cannot_decide(approval_bed: ServiceBed, origin: str) -> None:
    path = f"/api/v1/decisions/{approval_bed.only_decision()}/approve"

    answer = approval_bed.client.post(path, headers={"Origin": origin})

    assert answer.status_code == 403
    assert approval_bed.loop.journal.read(kinds=("choice",)) == []


def test_our_own_page_can_decide(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S)
    path = f"/api/v1/decisions/{bed.only_decision()}/approve"

    answer = bed.client.post(path, headers={"Origin": "http://127.0.0.1:8787"})

    assert answer.status_code == 202


@pytest.mark.parametrize("says", ["No response returned.", "something broke"])
def test_nobody_to_answer_is_no_error_of_ours_but_everything_else_is(
    make_bed: MakeBed, says: str
) -> None:
    bed = make_bed()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def behind(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        raise RuntimeError(says)

    middleware = AccessMiddleware(
        behind, access=bed.access, rate=RateLimit(10), body=BodyLimit(10), check_host=False
    )
    scope = {"type": "http", "method": "GET", "path": "/login", "query_string": b"", "headers": []}
    answer = middleware(scope, receive, send)

    if says == "something broke":
        with pytest.raises(RuntimeError, match=says):
            asyncio.run(answer)
    else:
        asyncio.run(answer)


def socket_answer(bed: ServiceBed, headers: dict[str, str]) -> list[str]:
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

    middleware = AccessMiddleware(
        behind,
        access=bed.access,
        rate=RateLimit(10),
        body=BodyLimit(10),
        check_host=is_loopback(bed.live_state.settings.service.host),
    )
    asyncio.run(middleware(scope, receive, send))
    return sent


def test_a_live_socket_opens_for_our_own_pages_alone(make_bed: MakeBed) -> None:
    bed = make_bed()
    secret = bed.access.log_in(bed.tokens.make("ada", Role.VIEWER))
    here = {"Host": "localhost:8787", "Cookie": f"steward_test={secret}"}

    ours = socket_answer(bed, {**here, "Origin": "http://localhost:8787"})
    theirs = socket_answer(bed, {**here, "Origin": "https://evil.example"})
    rebound = socket_answer(bed, {**here, "Host": "evil.example", "Origin": "http://evil.example"})

    assert [ours, theirs, rebound] == [
        ["websocket.accept"],
        ["websocket.close"],
        ["websocket.close"],
    ]


def test_a_live_socket_needs_a_session_where_pages_do(make_bed: MakeBed) -> None:
    bed = make_bed(**OUTSIDE)
    secret = bed.access.log_in(bed.tokens.make("ada", Role.VIEWER))

    without = socket_answer(bed, {"Host": "gpu.example"})
    within = socket_answer(bed, {"Host": "gpu.example", "Cookie": f"steward_test={secret}"})

    assert (without, within) == (["websocket.close"], ["websocket.accept"])


# -- how much ----------------------------------------------------------------------------------


def test_too_many_requests_are_told_when_to_come_back(make_bed: MakeBed) -> None:
    bed = make_bed(requests_per_minute=3)

    answers = [bed.client.get("/api/v1/patterns") for _ in range(4)]
    health = bed.client.get("/healthz")

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert (
        0 < int(answers[-1].headers["retry-after"]) <= 20
    )  # a minute, for three, less what passed
    assert "requests_per_minute" in answers[-1].json()["error"]["hint"]
    assert health.status_code == 200


def test_wrong_tokens_count_together_so_that_guessing_is_slow(make_bed: MakeBed) -> None:
    bed = make_bed(requests_per_minute=3, **OUTSIDE)

    answers = [
        bed.anonymous.get("/api/v1/patterns", headers={"Authorization": f"Bearer stw_{n}"})
        for n in range(4)
    ]
    known = bed.anonymous.get("/api/v1/patterns", headers=bed.bearer("ada", Role.VIEWER))

    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert known.status_code == 200


def test_a_busy_program_takes_no_request_away_from_a_person_at_the_same_address(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(run_s=LONG_ENOUGH_S, requests_per_minute=3)
    poller, person = bed.bearer("poller", Role.VIEWER), bed.bearer("olga", Role.OPERATOR)
    approve = f"/api/v1/decisions/{bed.only_decision()}/approve"

    polls = [bed.anonymous.get("/api/v1/patterns", headers=poller) for _ in range(5)]
    reads = [bed.anonymous.get("/api/v1/patterns", headers=person) for _ in range(4)]
    choice = bed.anonymous.post(approve, headers=person)

    assert [each.status_code for each in polls] == [200, 200, 200, 429, 429]
    assert [each.status_code for each in reads] == [200, 200, 200, 429]
    assert choice.status_code == 202  # what a person reads does not count against what they choose


def test_a_large_request_is_refused_whether_or_not_it_says_so(make_bed: MakeBed) -> None:
    bed = make_bed(body_limit_bytes=100)
    path = "/api/v1/decisions/d-1/approve"

    async def pieces() -> object:
        for _ in range(20):
            yield b"x" * 10

    answers = [bed.client.post(path, content=b"x" * 101)]
    answers.append(bed.client.post(path, content=pieces()))

    assert [answer.status_code for answer in answers] == [413, 413]
    assert "body_limit_bytes" in answers[0].json()["error"]["hint"]


def test_every_answer_tells_browsers_to_take_nothing_from_elsewhere(
    approval_bed: ServiceBed,
) -> None:
    for path in ("/api/v1/cluster", "/api/v1/nothing", "/login", "/static/steward.css"):
        headers = approval_bed.client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_parameter_that_is_given_twice_is_refused_not_overlooked(make_bed: MakeBed) -> None:
    bed = make_bed()

    twice = bed.client.get("/api/v1/cluster?queue_limit=1&queue_limit=2")
    states = bed.client.get("/api/v1/decisions?state=done&state=active")
    severities = bed.client.get("/api/v1/rules?severity=high&severity=low")

    assert twice.status_code == 422
    assert twice.json()["error"]["problem"] == "queue_limit is given more than once"
    assert (states.status_code, severities.status_code) == (200, 200)


# -- proxies and local people ------------------------------------------------------------------


FORWARDED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "Host": "gpu.example"}


def test_what_a_proxy_says_is_believed_only_where_it_is_trusted(make_bed: MakeBed) -> None:
    trusting = make_bed(trusted_proxies=["127.0.0.1"])
    token = trusting.tokens.make("ada", Role.VIEWER)
    doubting = make_bed(host="192.0.2.7")
    other = doubting.tokens.make("ada", Role.VIEWER)

    secure = trusting.anonymous.post("/login", data={"token": token}, headers=FORWARDED)
    plain = doubting.anonymous.post("/login", data={"token": other}, headers=FORWARDED)

    assert "Secure" in secure.headers["set-cookie"]
    assert "Secure" not in plain.headers["set-cookie"]


def test_wrong_logins_behind_a_proxy_are_counted_by_the_clients_address(
    make_bed: MakeBed,
) -> None:
    bed = make_bed(trusted_proxies=["127.0.0.1"])

    def wrong(address: str) -> int:
        headers = FORWARDED | {"X-Forwarded-For": address}
        return bed.anonymous.post("/login", data={"token": "x"}, headers=headers).status_code

    attacker = [wrong("203.0.113.9") for _ in range(TRIES_PER_MINUTE + 1)]

    assert attacker[-1] == 429
    assert wrong("203.0.113.10") == 401


def local_answer(bed: ServiceBed, uid: int, gid: int, *, token: str = "") -> int:
    """Ask as an account of this machine, through the socket, and return the status."""
    statuses: list[int] = []
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/patterns",
        "raw_path": b"/api/v1/patterns",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "client": None,
        "server": None,
        "headers": [(b"host", b"localhost"), *headers],
        "state": {"peer": PeerCredentials(pid=1, uid=uid, gid=gid)},
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    asyncio.run(bed.client.app(scope, receive, send))
    return statuses[0]


NOBODY = 65534


def test_the_owner_and_root_need_no_token_on_the_socket_and_others_a_role(
    make_bed: MakeBed,
) -> None:
    bed = make_bed()

    answers = [local_answer(bed, uid, NOBODY) for uid in (os.getuid(), 0, 54321)]
    with_token = local_answer(bed, 54321, NOBODY, token=bed.tokens.make("ci", Role.VIEWER))

    assert answers == [200, 200, 403]
    assert with_token == 200


def test_accounts_have_the_role_that_the_configuration_gives_them() -> None:
    name = pwd.getpwuid(NOBODY).pw_name
    group = grp.getgrgid(NOBODY).gr_name
    nobody = PeerCredentials(pid=1, uid=NOBODY, gid=NOBODY)
    by_name = LocalUsers(AccessSettings(users={name: "operator"}))
    by_group = LocalUsers(AccessSettings(group=group))

    assert by_name.user(nobody) == User(name=name, role=Role.OPERATOR)
    assert by_group.user(nobody) == User(name=name, role=Role.VIEWER)
    with pytest.raises(RefusedError, match="has no role here"):
        LocalUsers(AccessSettings()).user(nobody)


# -- tokens over the API -----------------------------------------------------------------------


def test_an_administrator_makes_and_revokes_tokens_and_nobody_else(make_bed: MakeBed) -> None:
    bed = make_bed()
    operator = bed.bearer("olga", Role.OPERATOR)
    wanted = {"name": "ci", "role": "viewer", "days": 1}

    refused = bed.anonymous.post("/api/v1/tokens", json=wanted, headers=operator)
    made = bed.client.post("/api/v1/tokens", json=wanted).json()
    twice = bed.client.post("/api/v1/tokens", json=wanted)
    shown = {"Authorization": f"Bearer {made['token']}"}
    before = bed.anonymous.get("/api/v1/patterns", headers=shown)
    listed = bed.client.get("/api/v1/tokens")
    bed.client.request("DELETE", "/api/v1/tokens/ci")
    after = bed.anonymous.get("/api/v1/patterns", headers=shown)

    assert (refused.status_code, twice.status_code) == (403, 409)
    assert made["expires_s"] == pytest.approx(made["made_s"] + 86400)
    assert [each["name"] for each in listed.json()["items"]] == ["olga", "ci"]
    assert made["token"] not in listed.text
    assert (before.status_code, after.status_code) == (200, 401)


def test_a_viewer_changes_nothing_whatever_the_path(approval_bed: ServiceBed) -> None:
    viewer = approval_bed.bearer("vic", Role.VIEWER)
    app: Any = approval_bed.anonymous.app
    changing = [
        (method.upper(), re.sub("{.*?}", "x", path))
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        # asking changes nothing: viewers may, although a question is posted
        if path.startswith("/api/") and method != "get" and not path.startswith("/api/v1/ask")
    ]

    answers = {
        each: approval_bed.anonymous.request(*each, headers=viewer).status_code for each in changing
    }

    assert len(answers) >= 8
    assert set(answers.values()) == {403}
