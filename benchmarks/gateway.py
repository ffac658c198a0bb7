"""What does the gateway add to a request, and what does it hold when 2,000 streams run through it?

Two stand-in servers answer; requests reach them directly, through nginx as a bare reverse proxy,
through LiteLLM's proxy, and through the gateway, in turns within one run. Each proxy has one core
of its own (nginx one worker, LiteLLM one worker); stand-ins and load have the others. Added
latency is the difference of percentiles to the direct way in the same round, of arrivals at random
times; a proxy that cannot keep up is measured at a tenth of the rate.

Other work on the machine delays whatever stands between client and server. The bars of latency are
therefore of what the gateway adds beyond nginx in the same round, which adds 0.1 ms (p50) by
itself; `added_ms` has what it adds to the direct way. CPU time per request is judged as well: that
a core is busy elsewhere does not change it.

LiteLLM comes from PyPI into an environment of its own ($LITELLM names another `litellm`).
$GATEWAY_POLICY names another dispatcher than the default.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil

from report import bar, finish, progress

RATE, SLOW_RATE = 500, 50
STREAMS = 2000
PROMPT = "Tell me about queues, please, in a few words, and be quick about it. " * 4
CHAT = "/v1/chat/completions"
HERE = Path(__file__).parent
STEWARD = [sys.executable, "-m", "steward"]
STREAM_STEP_MS, STREAM_TOKENS = 500, 50  # each stream lasts 25 s


def main() -> None:
    """Measure latency, throughput, and streams."""
    short, alone = _asked()
    with contextlib.suppress(PermissionError):
        os.nice(-10)  # all that is started here, alike: other work on the machine comes after it
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results: dict[str, Any] = {"load_average_before": os.getloadavg(), "nice": os.nice(0)}
        servers = [stack.enter_context(stand_in(folder, step_ms=5)) for _ in range(2)]
        ways = {"direct": (servers, None)}
        proxies = {"nginx": nginx, "litellm": litellm, "gateway": gateway}
        for name, start in proxies.items():
            if alone and name == "litellm":
                continue
            progress(f"starting {name}")
            try:
                url, process = stack.enter_context(start(folder, servers))
                ways[name] = ([url], process)
            except (OSError, RuntimeError, subprocess.SubprocessError) as fault:
                results[f"{name}_missing"] = str(fault)[:300]
        results["latency"] = latency(ways, rounds=2 if short else 5, seconds=3 if short else 6)
        results["throughput"] = throughput(
            ways, rounds=1 if short else 3, seconds=3 if short else 6
        )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results["streams"] = streams(stack, folder, STREAMS // 10 if short else STREAMS)
    results["load_average_after"] = os.getloadavg()
    finish("gateway", results, bars_of(results))


def _asked() -> tuple[bool, bool]:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, same code")
    parser.add_argument("--without-litellm", action="store_true", help="it takes minutes to start")
    given = parser.parse_args()
    return given.quick, given.without_litellm


def bars_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what was promised."""
    seen = results["latency"]["gateway"]
    beyond = "beyond nginx" if "beyond_nginx_ms" in seen else "beyond the direct way"
    added = seen.get("beyond_nginx_ms", seen["added_ms"])
    cpu_ms = results["throughput"]["gateway"]["cpu_ms_per_request"]
    flows = results["streams"]
    bars = [
        bar(f"added latency at {RATE}/s {beyond}, p50, ms", added["p50"], "<", 2.0),
        bar(f"added latency at {RATE}/s {beyond}, p99, ms", added["p99"], "<", 10.0),
        bar("CPU of the gateway per request, ms", cpu_ms, "<", 1.0),
        bar("streams at once, answered in full", flows["answered"], ">=", flows["asked"]),
        bar("memory while all streams run, last to first", flows["held_ratio"], "<", 1.05),
        bar("memory of the second wave to the first", flows["second_wave_ratio"], "<", 1.1),
    ]
    if "litellm" in results["throughput"]:
        ratio = (
            results["throughput"]["gateway"]["per_s"] / results["throughput"]["litellm"]["per_s"]
        )
        bars.append(bar("throughput to LiteLLM's", round(ratio, 3), ">=", 1.0))
    return bars


# -- what is measured --------------------------------------------------------------------------


def latency(ways: dict[str, Any], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Return percentiles for each way, and what it adds to the direct one of the same round."""
    seen: dict[str, list[dict[str, Any]]] = {}
    for number in range(rounds):
        for name, (urls, _) in ways.items():
            rate = SLOW_RATE if name == "litellm" else RATE
            progress(f"latency, round {number + 1}: {name}")
            seen.setdefault(name, []).append(load(urls, rate=rate, seconds=seconds, seed=number))
            if name == "litellm":
                slow = load(ways["direct"][0], rate=rate, seconds=seconds, seed=number)
                seen.setdefault("direct_slow", []).append(slow)
    found: dict[str, Any] = {}
    for name, runs in seen.items():
        direct = seen["direct_slow" if name == "litellm" else "direct"]
        found[name] = {
            "rate_per_s": SLOW_RATE if name in ("litellm", "direct_slow") else RATE,
            "whole_ms": {q: _median(each["whole_ms"][q] for each in runs) for q in LEVELS},
            "added_ms": _added(runs, direct),
            "added_p99_by_round_ms": [
                round(each["whole_ms"]["p99"] - other["whole_ms"]["p99"], 3)
                for each, other in zip(runs, direct, strict=True)
            ],
            "requests": sum(each["requests"] for each in runs),
            "failures": sum(sum(each["failures"].values()) for each in runs),
        }
    if "nginx" in seen:
        found["gateway"]["beyond_nginx_ms"] = _added(seen["gateway"], seen["nginx"])
    return found


def _added(runs: list[dict[str, Any]], others: list[dict[str, Any]]) -> dict[str, float]:
    """Return by how much percentiles are above those of another way, round by round."""
    pairs = list(zip(runs, others, strict=True))
    return {q: _median(a["whole_ms"][q] - b["whole_ms"][q] for a, b in pairs) for q in LEVELS}


LEVELS = ("p50", "p90", "p99")


def throughput(ways: dict[str, Any], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Return answers a second with 32 clients that send one request after another."""
    seen: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, (urls, process) in ways.items():
            progress(f"throughput, round {number + 1}: {name}")
            before = _cpu_s(process)
            found = load(urls, clients=32, seconds=seconds)
            seen.setdefault(name, []).append(found["per_s"])
            if process is not None and found["requests"]:
                spent = 1000 * (_cpu_s(process) - before) / found["requests"]
                cpu.setdefault(name, []).append(spent)
    gateway_s = statistics.median(seen["gateway"])
    return {
        name: {
            "per_s": _median(rates),
            "gateway_to_this": round(gateway_s / statistics.median(rates), 3),
            "cpu_ms_per_request": _median(cpu[name]) if name in cpu else None,
        }
        for name, rates in seen.items()
    }


def streams(stack: contextlib.ExitStack, folder: Path, count: int) -> dict[str, Any]:
    """Run two waves of streams through a gateway, and watch its memory."""
    more = ["--max-sequences", "2048", "--kv-tokens", "4000000", "--exact"]
    servers = [
        stack.enter_context(stand_in(folder, step_ms=STREAM_STEP_MS, more=more)) for _ in range(2)
    ]
    url, process = stack.enter_context(gateway(folder, servers, limit=2048, max_waiting=2048))
    before = process.memory_info().rss
    waves = [wave(url, process, count) for _ in range(2)]
    time.sleep(1.0)
    after = process.memory_info().rss
    first, second = waves
    return {
        "asked": 2 * count,
        "answered": first["answered"] + second["answered"],
        "most_at_once": max(first["most_at_once"], second["most_at_once"]),
        "rss_mib": {
            "before": _mib(before),
            "first_wave": [_mib(each) for each in first["held"]],
            "second_wave": [_mib(each) for each in second["held"]],
            "after": _mib(after),
        },
        "kib_per_stream": round((max(first["held"]) - before) / 1024 / count, 1),
        "held_ratio": round(max(_drift(each["held"]) for each in waves), 4),
        "second_wave_ratio": round(max(second["held"]) / max(first["held"]), 4),
        "first_ms": second["first_ms"],
    }


def wave(url: str, process: psutil.Process, count: int) -> dict[str, Any]:
    """Start so many streams, sample memory while all of them run, and wait for their end."""
    body = {**_body(), "stream": True, "max_tokens": STREAM_TOKENS, "ignore_eos": True}
    command = [sys.executable, str(HERE / "http_load.py"), url + CHAT, "--body", json.dumps(body)]
    command += ["--streams", str(count), "--over-s", "8"]
    held, most = [], 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        while client.poll() is None:
            running = sum(each["running"] + each["waiting"] for each in _status(url)["instances"])
            most = max(most, running)
            if running >= 0.99 * count:
                held.append(process.memory_info().rss)
            time.sleep(0.5)
        assert client.stdout is not None
        found = json.loads(client.stdout.read())
    progress(f"  {found['requests']} streams, {found['chunks']} chunks, most at once {most}")
    return {
        "answered": found["requests"],
        "most_at_once": most,
        "held": held or [process.memory_info().rss],
        "first_ms": found["first_ms"],
    }


def load(urls: list[str], **options: float) -> dict[str, Any]:
    """Run the load as a process of its own."""
    command = [sys.executable, str(HERE / "http_load.py"), *(url + CHAT for url in urls)]
    command += ["--body", json.dumps(_body())]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


# -- what is started ---------------------------------------------------------------------------


@contextlib.contextmanager
def stand_in(folder: Path, *, step_ms: float, more: list[str] | None = None) -> Iterator[str]:
    """Run a stand-in server; return its address."""
    port = free_port()
    command = [*STEWARD, "serve", "stand-in", "--port", str(port), "--step-ms", str(step_ms)]
    with process_of([*command, *(more or [])], folder / f"stand-in-{port}.log", core=None):
        url = f"http://127.0.0.1:{port}"
        wait_for(url + "/v1/models")
        yield url


@contextlib.contextmanager
def gateway(
    folder: Path, servers: list[str], *, limit: int = 256, max_waiting: int = 256
) -> Iterator[tuple[str, psutil.Process]]:
    """Run the gateway on one core."""
    port = free_port()
    tables = [
        f'[upstreams.u{n}]\nurl = "{url}"\nlimit = {limit}\nmax_waiting = {max_waiting}\n'
        for n, url in enumerate(servers)
    ]
    file = folder / "steward.toml"
    policy = os.environ.get("GATEWAY_POLICY", "")
    chosen = f'[gateway]\npolicy = "{policy}"\n' if policy else ""
    head = f'[store]\nfolder = "{folder}"\n{chosen}'
    file.write_text(head + "".join(tables), encoding="utf-8")
    command = [*STEWARD, "serve", "gateway", "--config", str(file), "--port", str(port)]
    with process_of(command, folder / "gateway.log") as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(url + "/v1/models", has=b'"id"')
        yield url, process


@contextlib.contextmanager
def nginx(folder: Path, servers: list[str]) -> Iterator[tuple[str, psutil.Process]]:
    """Run nginx as a bare reverse proxy with one worker."""
    binary = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if binary is None:
        raise RuntimeError("there is no nginx; scripts/install-real-parts installs it")
    port = free_port()
    there = "".join(f"server {url.removeprefix('http://')};" for url in servers)
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;"
        "events { worker_connections 8192; } http { access_log off;"
        f"client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;"
        f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;"
        f"upstream there {{ {there} keepalive 128; }}"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://there;"
        'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }',
        encoding="utf-8",
    )
    with process_of([binary, "-c", str(file), "-p", str(folder)], folder / "nginx.log") as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(url + "/v1/models")
        yield url, process


@contextlib.contextmanager
def litellm(folder: Path, servers: list[str]) -> Iterator[tuple[str, psutil.Process]]:
    """Run LiteLLM's proxy with one worker."""
    port = free_port()
    entries = [
        {
            "model_name": "llama-8b",
            "litellm_params": {"model": "openai/llama-8b", "api_base": f"{u}/v1", "api_key": "x"},
        }
        for u in servers
    ]
    file = folder / "litellm.yaml"
    key = os.environ["LOAD_KEY"] = f"sk-{secrets.token_hex(24)}"  # it does not start without one
    settings = {"model_list": entries, "general_settings": {"master_key": key}}
    file.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    binary = litellm_binary()
    command = [binary, "--config", str(file), "--port", str(port), "--host", "127.0.0.1"]
    with process_of([*command, "--num_workers", "1"], folder / "litellm.log") as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(url + "/health/liveliness", within_s=180)
        yield url, process


def litellm_binary() -> str:
    """Return the command, installed into an environment of its own if it is not there."""
    if os.environ.get("LITELLM"):
        return os.environ["LITELLM"]
    folder = Path(tempfile.gettempdir()) / "steward-litellm"
    binary = folder / "bin" / "litellm"
    if not binary.exists():
        progress("installing LiteLLM")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [str(folder / "bin" / "pip"), "install", "-q", "litellm[proxy]"]
        subprocess.run(install, check=True, timeout=900)
    return str(binary)


@contextlib.contextmanager
def process_of(command: list[str], out: Path, *, core: int | None = 0) -> Iterator[psutil.Process]:
    """Run a program, on one core or on all others, and end it."""
    cores = sorted(os.sched_getaffinity(0))
    mine = {cores[core]} if core is not None else set(cores[1:]) or set(cores)
    with out.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        watched = psutil.Process(process.pid)
        watched.cpu_affinity(sorted(mine))
        yield watched
    except Exception:
        progress(out.read_text(encoding="utf-8", errors="replace")[-1000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, *, within_s: float = 120, has: bytes = b"") -> None:
    """Return once there is an answer."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            if has in answer.read():
                return
        time.sleep(0.2)
    raise RuntimeError(f"nothing answers at {url} within {within_s:g} s")


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# -- small things ------------------------------------------------------------------------------


def _body() -> dict[str, Any]:
    return {
        "model": "llama-8b",
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 1,
    }


def _status(url: str) -> Any:  # noqa: ANN401 - JSON
    with urllib.request.urlopen(url + "/steward/v1/status", timeout=30) as answer:  # noqa: S310
        return json.load(answer)


def _cpu_s(process: psutil.Process | None) -> float:
    """Return CPU seconds of a process and its children."""
    if process is None:
        return 0.0
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(each.cpu_times()[:2]) for each in family))


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


def _drift(held: list[int]) -> float:
    return held[-1] / held[0]


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


if __name__ == "__main__":
    main()
