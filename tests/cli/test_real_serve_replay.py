"""`steward serve replay` as a process of its own, at the stand-in server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from patience import LONG_S, until

pytestmark = pytest.mark.real
STEWARD = Path(sys.executable).with_name("steward")
ROWS = "".join(f"{each * 0.1:.1f},{20 + each},{1 + each % 8}\n" for each in range(40))


@pytest.fixture(scope="module")
def stand_in() -> Iterator[str]:
    command = [STEWARD, "serve", "stand-in", "--port", "0", "--exact"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", program.stdout.readline())
        assert found is not None
        yield found[0]
        program.terminate()


def served(url: str) -> int:
    """Return how many answers a stand-in has finished."""
    text = httpx.get(f"{url}/metrics", timeout=LONG_S).text
    counts = re.findall(r"^vllm:request_success_total\{.*\} ([\d.e+]+)$", text, re.MULTILINE)
    return int(sum(map(float, counts)))


def replaying(trace: Path, url: str) -> subprocess.Popen[str]:
    command = [STEWARD, "serve", "replay", trace, "--url", url, "--completions", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_all_answers_of_the_stand_in_are_measured(stand_in: str, tmp_path: Path) -> None:
    trace = tmp_path / "chat.csv"
    trace.write_text(f"t_s,input_tokens,output_tokens\n{ROWS}")

    with replaying(trace, stand_in) as program:
        out, err = program.communicate(timeout=LONG_S)

    found = json.loads(out)
    assert program.returncode == 0, err
    assert found["settled"] == 40
    assert found["errors"] == {}
    assert found["output_token_ratio"] == 1.0
    assert 0.8 <= found["prompt_token_ratio"] <= 1.25


def test_ctrl_c_gives_what_was_measured(stand_in: str, tmp_path: Path) -> None:
    trace = tmp_path / "chat.csv"
    trace.write_text("t_s,input_tokens,output_tokens\n0,20,2\n0.1,20,2\n3600,20,2\n")
    answered = served(stand_in)

    with replaying(trace, stand_in) as program:
        until(lambda: served(stand_in) == answered + 2, why="two answers of the stand-in")
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=LONG_S)

    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["sent"] == 2
    assert found["attainment"]["interactive"] == 1.0
    assert "Traceback" not in err
