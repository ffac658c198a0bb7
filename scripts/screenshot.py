"""Takes the pictures in docs/images: starts a demo, waits until it has figures, opens its pages.

Run: python scripts/screenshot.py [--chromium /usr/bin/chromium] [--only pages|lab|job|serving]
The picture of the lab needs the Philly trace. That of a job is of one that runs here for a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SPEED = "120"
COLOURS = 128  # a third of the size, and no difference that is seen
IDLE_RULE = "gpu-idle-while-allocated"
WITHIN_S = 120.0
WORTH_IT = re.compile("(?<!\N{MINUS SIGN})0\\.(0[3-9]|[1-9][0-9]) GPU-h measured")
ENOUGH = 30  # outcomes, for a curve that can be seen
ROOM = "8"  # requests that a stand-in runs at once
SERVED_S = 75.0  # until there are waits, and lines
LOAD = ("--speed", "3", "--batch-share", "0.5", "--class", "interactive", "--model", "llama-8b")
SETTLE_MS = 4000  # charts draw and curves arrive
LENT = "document.querySelectorAll('.st-cells .st-gpu-lent').length >= 3"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One picture. `open_first` opens the newest decision that was measured.

    `{idle}` in a path is a finding about idle GPUs.
    """

    name: str
    path: str
    width: int = 1280
    height: int = 900
    open_first: bool = False


TRAINING = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STEWARD_JOB_FOLDER"])
def put(name, **record):
    (folder / (name + ".tmp")).write_text(json.dumps(record))
    (folder / (name + ".tmp")).rename(folder / name)
put("can_save.json", can=True, seconds=0.4)
at = folder / "state"
step, seen = int(at.read_text()) if at.exists() else 0, ""
if step:
    print(f"resumed at step {step}")
while True:
    step += 1
    time.sleep(0.02)
    if step % 50 == 0:
        print(f"step {step}  loss {2.3 / step ** 0.3:.4f}")
    try:
        request = json.loads((folder / "request.json").read_text())
    except FileNotFoundError:
        continue
    if request["id"] != seen:
        seen = request["id"]
        at.write_text(str(step))
        put("answer.json", id=seen, result="saved", step=step, checkpoint=str(at),
            bytes=268435456, seconds=0.4)
        if request["do"] == "save-and-stop":
            sys.exit(0)
"""


SHOTS = (
    Shot(name="cluster", path="/"),
    Shot(name="decisions", path="/decisions?show=Done", open_first=True),
    Shot(name="node", path="/nodes/n02"),
    Shot(name="gpu", path="/gpus/n02/gpu2"),
    Shot(name="rules", path="/rules"),
    Shot(name="finding", path="/findings/{idle}", height=800),
)


def main() -> None:
    """Start the demo, wait, and take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument(
        "--only", choices=("pages", "lab", "job", "serving"), help="only some of the pictures"
    )
    given = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=ARGUMENTS)
        if given.only in (None, "lab"):
            take(browser, lab_report(Path(folder) / "lab"), Shot(name="lab", path=""))
        if given.only in (None, "job"):
            config = Path(folder) / "jobs.toml"
            me = pwd.getpwuid(os.getuid()).pw_name
            config.write_text(f'[jobs]\nslots = 2\n[jobs.token_accounts]\n"{me}" = "{me}"\n')
            with steward_up(Path(folder) / "jobs", "--config", str(config)) as client:
                shot = Shot(name="job", path=f"/jobs/{run_job(client)}")
                take(browser, str(client.base_url).rstrip("/"), shot, headers=client.headers)
        if given.only in (None, "serving"):
            config = Path(folder) / "serving.toml"
            with serving() as url:
                config.write_text(f'[serving]\nshown = ["{url}"]\n')
                with steward_up(
                    Path(folder) / "serving", "--demo", "--config", str(config)
                ) as client:
                    time.sleep(SERVED_S)
                    shot = Shot(name="serving", path="/serving", height=1180)
                    address = str(client.base_url).rstrip("/")
                    take(browser, address, shot, headers=client.headers)
        if given.only in (None, "pages"):
            with steward_up(Path(folder) / "demo", "--demo", "--speed", SPEED) as client:
                wait_for_figures(client)
                idle = idle_finding(client)
                for shot in SHOTS:
                    shown = replace(shot, path=shot.path.format(idle=idle))
                    take(browser, str(client.base_url).rstrip("/"), shown, headers=client.headers)
        browser.close()


def lab_report(folder: Path) -> str:
    """Compare three policies on a real trace and give the address of the report."""
    steward = Path(sys.executable).with_name("steward")
    asked = ["philly/6c71a0", "--gpus", "64", "--placement", "packed", "--out", str(folder)]
    policies = ["--policies", "fifo,tiresias,commons"]
    subprocess.run([steward, "lab", "compare", *asked, *policies], check=True)
    return f"file://{folder / 'report.html'}"


@contextmanager
def steward_up(folder: Path, *more: str) -> Iterator[httpx.Client]:
    """Run `steward up` on a free port and give a client of its API."""
    steward = Path(sys.executable).with_name("steward")
    options = [*more, "--port", "0", "--data", str(folder), "--no-browser", "--json"]
    program = subprocess.Popen([steward, "up", *options], stdout=subprocess.PIPE)
    assert program.stdout is not None  # noqa: S101 - it is a pipe
    try:
        said = json.loads(program.stdout.readline())
        headers = {"Authorization": f"Bearer {said['token']}"}
        with httpx.Client(base_url=said["url"], headers=headers) as client:
            yield client
    finally:
        program.terminate()
        program.wait(timeout=60)


@contextmanager
def serving() -> Iterator[str]:
    """Run a gateway in front of two stand-in servers, under more than they can do."""
    steward = Path(sys.executable).with_name("steward")
    with ExitStack() as stack:

        def start(*arguments: str) -> str:
            command = [str(steward), "serve", *arguments, "--port", "0"]
            program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(program.wait, timeout=60)
            stack.callback(program.terminate)
            assert program.stdout is not None  # noqa: S101 - it is a pipe
            found = re.search(r"http://[\d.]+:\d+", program.stdout.readline())
            return found[0] if found else sys.exit(f"{arguments[0]} did not start")

        small = ("stand-in", "--max-sequences", ROOM, "--exact")
        servers = [start(*small), start(*small)]
        gateway = start("gateway", "--limit", ROOM, *(f"--upstream={each}" for each in servers))
        load = ("replay", "azure_llm_2023_conv", "--url", gateway, *LOAD)
        program = subprocess.Popen([steward, "serve", *load], stdout=subprocess.DEVNULL)
        stack.callback(program.wait, timeout=60)
        stack.callback(program.terminate)
        yield gateway


def run_job(client: httpx.Client) -> str:
    """Submit a training that saves, let others disturb it, and return its id once it runs again."""

    def post(path: str, **body: object) -> str:
        answer = client.post(f"/api/v1/jobs{path}", json=body, timeout=60)
        return str(answer.raise_for_status().json()["id"])

    def is_(state: str) -> bool:
        found: str = client.get(f"/api/v1/jobs/{id_}", timeout=60).json()["state"]
        return found == state

    def wait(state: str) -> None:
        end_s = time.monotonic() + WITHIN_S
        while not is_(state):
            if time.monotonic() > end_s:
                sys.exit(f"the job was not {state} within {WITHIN_S:.0f} s")
            time.sleep(0.5)

    id_ = post("", argv=[sys.executable, "-u", "-c", TRAINING], folder="/", name="train-resnet",
               time_limit_s=3600.0)  # fmt: skip
    wait("running")
    for _ in range(2):
        time.sleep(8)
        post(f"/{id_}/save")
        wait("running")
    time.sleep(6)
    post(f"/{id_}/preempt")
    wait("resumed")
    time.sleep(8)
    return id_


def wait_for_figures(client: httpx.Client) -> None:
    """Wait until there are findings, decisions in effect and savings for sure."""
    end_s = time.monotonic() + WITHIN_S
    while time.monotonic() < end_s:
        try:
            found = client.get("/api/v1/findings").json()["items"]
            decided = client.get("/api/v1/decisions?state=active").json()["items"]
            savings = client.get("/api/v1/savings").json()
        except httpx.TransportError:
            found, decided, savings = [], [], {"outcomes": 0}
        if found and decided and savings["outcomes"] >= ENOUGH and savings["gpu_hours"]["low"] > 0:
            return
        time.sleep(1)
    sys.exit(f"the demo at {client.base_url} showed no savings within {WITHIN_S:.0f} s")


def idle_finding(client: httpx.Client) -> str:
    """Return the oldest of the last findings on idle GPUs: what came after it is seen, too."""
    found = client.get("/api/v1/findings?limit=100").json()["items"]
    return str([each["id"] for each in found if each["rule"] == IDLE_RULE][-1])


def take(
    browser: Browser, address: str, shot: Shot, *, headers: Mapping[str, str] | None = None
) -> None:
    """Open a page and write its picture."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
    )
    if headers:
        token = headers["Authorization"].partition(" ")[2]
        context.request.post(f"{address}/login", form={"token": token})
    page = context.new_page()
    page.goto(address + shot.path)
    page.wait_for_timeout(SETTLE_MS)
    if shot.open_first:
        open_measured(page)
    if shot.path == "/":
        page.wait_for_function(LENT, timeout=60_000)
        page.wait_for_timeout(500)
    file = IMAGES / f"{shot.name}.png"
    page.screenshot(path=file)
    context.close()
    picture = Image.open(file).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(file)


def open_measured(page: Page) -> None:
    """Open the newest decision that was measured, and bring it to the top."""
    more = page.get_by_role("button", name="Show more")
    for _ in range(3):
        if more.is_visible():
            more.click()
            page.wait_for_timeout(500)
    measured = page.locator(".st-decision", has_text=WORTH_IT)
    name = measured.first.locator("code").inner_text()
    row = page.locator(".st-decision", has=page.get_by_text(name, exact=True))
    row.locator(".st-decision-line").click()
    page.wait_for_timeout(SETTLE_MS)
    row.evaluate("row => scrollTo(0, scrollY + row.getBoundingClientRect().top - 180)")
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
