"""`steward serve replay`, as a person and a program use it, against a server on a real socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from clients.openai_server import fake_openai, nobody
from told import steward

ROWS = "".join(f"{each * 0.5:.1f},{20 + each},{1 + each % 4}\n" for each in range(12))
FAST = ("--speed", "100")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "chat.csv"
    file.write_text(f"t_s,input_tokens,output_tokens\n{ROWS}")
    return file


def test_a_replay_answers_in_json(trace: Path) -> None:
    with fake_openai() as server:
        options = ("--url", server.url, "--batch-share", "0.5", "--completions", "--json")
        answer = steward("serve", "replay", trace, *FAST, *options)

    assert answer.code == 0
    found = answer.json
    assert found["sent"] == found["settled"] == found["requests"] == 12
    assert found["attainment"] == {"interactive": 1.0, "batch": 1.0}
    assert found["errors"] == {}
    assert found["prompt_token_ratio"] == found["output_token_ratio"] == 1.0
    assert found["client_late_s"]["max"] >= 0
    assert found["url"] == server.url
    assert f"sending 12 requests in 0 s to {server.url}, model m" in answer.err
    assert sorted(set(server.classes)) == ["batch", "interactive"]


def test_only_the_first_requests_are_sent(trace: Path) -> None:
    with fake_openai() as server:
        options = ("--url", server.url, "--requests", "3", "--model", "other", "--json")
        found = steward("serve", "replay", trace, *FAST, *options).json

    assert found["requests"] == 3
    assert {each["model"] for each in server.bodies} == {"other"}


def test_people_get_a_table_with_the_prediction_below(trace: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile.csv"
    rows = "".join(f"m,decode,{n},,100,1,0.01\nm,prefill,{n},100,,,0.01\n" for n in (1, 2, 4))
    profile.write_text(f"model,kind,batch,tokens,context,kv_bytes,s\n{rows}")

    with fake_openai() as server:
        options = ("--url", server.url, "--profile", profile)
        answer = steward("serve", "replay", trace, *FAST, *options)

    assert answer.code == 0
    lines = [line.split()[:4] for line in answer.out.splitlines()]
    assert ["interactive", "12", "100.0%"] in [line[:3] for line in lines]
    assert ["interactive,", "simulated", "12", "100.0%"] in lines


def test_a_prediction_is_set_beside_what_was_measured(trace: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile.csv"
    rows = "".join(f"m,decode,{n},,100,1,9.0\nm,prefill,{n},100,,,9.0\n" for n in (1, 2, 4))
    profile.write_text(f"model,kind,batch,tokens,context,kv_bytes,s\n{rows}")

    with fake_openai() as server:
        options = ("--url", server.url, "--profile", profile, "--instances", "2", "--json")
        found = steward("serve", "replay", trace, *FAST, *options).json

    assert found["predicted"]["instances"] == 2
    assert found["predicted"]["by_class"]["interactive"]["attainment"] < 1.0
    assert 0 < found["measured_over_predicted"]["interactive"]["ttft_s_p50_ratio"] < 1


def test_failed_requests_are_told_and_end_with_1(trace: Path) -> None:
    async def refuse(_request: web.Request, number: int) -> web.Response | None:
        return web.Response(status=503, text="loading") if number == 2 else None

    with fake_openai(refuse) as server:
        answer = steward("serve", "replay", trace, *FAST, "--url", server.url, "--json")

    assert answer.code == 1
    assert answer.json["errors"] == {"status 503": 1}
    assert answer.json["attainment"]["interactive"] == pytest.approx(11 / 12)
    assert "1 requests failed, status 503: loading" in answer.err


def test_a_server_that_is_not_there_is_wrong_use(trace: Path) -> None:
    with nobody() as url:
        answer = steward("serve", "replay", trace, "--url", url)

    assert answer.code == 2
    assert "no server answers" in answer.err


def test_a_server_without_models_wants_one_named(trace: Path) -> None:
    with fake_openai(models={"data": []}) as server:
        answer = steward("serve", "replay", trace, "--url", server.url)

    assert answer.code == 2
    assert "--model NAME" in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--url", "localhost"), "is not an address"),
        (("--url", "http://127.0.0.1:1", "--speed", "0"), "is no speed"),
        (("--url", "http://127.0.0.1:1", "--api-key-env", "NO_SUCH_KEY"), "is not set"),
    ],
)
def test_wrong_use_is_said(options: tuple[str, ...], words: str, trace: Path) -> None:
    answer = steward("serve", "replay", trace, *options)

    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
