"""Takes the pictures in docs/images: starts a demo, waits until it has figures, opens its pages.

Run: python scripts/screenshot.py [--chromium /usr/bin/chromium] [--lab-only | --pages-only]
The picture of the lab needs the Philly trace.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    parser.add_argument("--lab-only", action="store_true", help="only the report of the lab")
    parser.add_argument("--pages-only", action="store_true", help="all but the report of the lab")
    given = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=given.chromium, args=ARGUMENTS)
        if not given.pages_only:
            take(browser, lab_report(Path(folder) / "lab"), Shot(name="lab", path=""))
        if not given.lab_only:
            with demo(Path(folder) / "demo") as client:
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
def demo(folder: Path) -> Iterator[httpx.Client]:
    """Run `steward up --demo` on a free port and give a client of its API."""
    steward = Path(sys.executable).with_name("steward")
    options = ["--speed", SPEED, "--port", "0", "--data", str(folder), "--no-browser", "--json"]
    program = subprocess.Popen([steward, "up", "--demo", *options], stdout=subprocess.PIPE)
    assert program.stdout is not None  # noqa: S101 - it is a pipe
    try:
        said = json.loads(program.stdout.readline())
        headers = {"Authorization": f"Bearer {said['token']}"}
        with httpx.Client(base_url=said["url"], headers=headers) as client:
            yield client
    finally:
        program.terminate()
        program.wait(timeout=60)


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
