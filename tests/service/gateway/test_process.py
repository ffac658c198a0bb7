"""The command in a process of its own: it announces itself, reloads, drains, and ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real  # a second or two for each process to start

STEWARD = [sys.executable, "-m", "steward", "serve"]


@pytest.fixture
def server() -> Iterator[str]:
    with stand_in() as url:
        yield url


@contextlib.contextmanager
def stand_in(*more: str) -> Iterator[str]:
    command = [*STEWARD, "stand-in", "--port", "0", "--step-ms", "1", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield next(word for word in line.replace(",", " ").split() if word.startswith("http"))
        process.terminate()


def started(file: Path) -> tuple[subprocess.Popen[str], str]:
    command = [*STEWARD, "gateway", "--config", str(file), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while True:
        text += process.stdout.readline()
        try:
            return process, json.loads(text)["url"]
        except ValueError:
            assert process.poll() is None, text


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def asked(url: str, name: str, tokens: int) -> Any:
    body = {"model": "llama-8b", "messages": [{"role": "user", "content": "hi"}]}
    data = json.dumps({**body, "max_tokens": tokens}).encode()
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{url}/v1/chat/completions", data, headers={"x-steward-class": name}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        return json.load(answer)["usage"]["completion_tokens"]


def test_qlm_answers_chat_and_batch_under_overload_and_none_is_lost(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        more = ["--max-sequences", "4", "--exact"]
        urls = [stack.enter_context(stand_in(*more)) for _ in range(2)]
        file = tmp_path / "steward.toml"
        tables = [f'[upstreams.u{n}]\nurl = "{each}"\n' for n, each in enumerate(urls)]
        head = f'[store]\nfolder = "{tmp_path}"\n[gateway]\npolicy = "qlm"\n'
        file.write_text(head + "".join(tables))
        process, url = started(file)
        stack.callback(process.communicate)
        stack.callback(process.kill)
        many = [("batch", 60)] * 40 + [("interactive", 8)] * 40
        with ThreadPoolExecutor(len(many)) as threads:
            answers = list(threads.map(lambda each: asked(url, *each), many))
        status = ask(f"{url}/steward/v1/status")

    assert len(answers) == len(many)
    assert min(answers) >= 1
    assert status["policy"] == "qlm"  # it raised nothing: else edf would have taken its place
    assert [each["done"] for each in status["classes"]] == [40, 40]
    assert "estimator failed" not in [each["what"] for each in status["events"]]


def test_a_gateway_serves_reloads_and_ends_when_it_is_told_to(server: str, tmp_path: Path) -> None:
    file = tmp_path / "steward.toml"
    store = f'[store]\nfolder = "{tmp_path}"\n'
    upstream = f'[upstreams.a]\nurl = "{server}"\nmodels = ["llama-8b"]\n'
    file.write_text(store + upstream)
    process, url = started(file)
    try:
        chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        answer = ask(f"{url}/v1/chat/completions", {"model": "llama-8b", **chat})
        file.write_text(store + upstream + "[deadline_classes.gold]\nttft_s = 1.0\n")
        process.send_signal(signal.SIGHUP)
        names: list[str] = []
        while "gold" not in names:
            names = [each["name"] for each in ask(f"{url}/steward/v1/status")["classes"]]
        file.write_text("[gateway]\npolcy = 3\n")
        process.send_signal(signal.SIGHUP)
        events: list[str] = []
        while "reload refused" not in events:
            events = [each["what"] for each in ask(f"{url}/steward/v1/status")["events"]]
        still = ask(f"{url}/health")
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    finally:
        process.kill()
        process.communicate()

    assert answer["usage"]["completion_tokens"] >= 1
    assert still["status"] == "ok"
    assert status == 0
    with pytest.raises(urllib.error.URLError):
        ask(f"{url}/health")
