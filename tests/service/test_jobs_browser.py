"""The pages of jobs in a real Chromium, with the real engine behind them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from patience import LONG_S, until
from service.browsing import drawn, new_context, opened, told
from service.running import Running, running, running_jobs
from steward.store.tokens import Role, Tokens

# What compiles may have to be compiled first: minutes on a busy machine.
pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

COMPILES_S = 900.0
SECRET = "s3cret"  # noqa: S105 - what must not be shown
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def viewer(folder: Path) -> str:
    """Return the token of a viewer."""
    return Tokens(folder / "tokens.json").make("vic", Role.VIEWER)


@pytest.fixture(scope="module")
def service(folder: Path, viewer: str) -> Iterator[Running]:
    assert viewer
    with running_jobs(folder) as started:
        compile_(started)
        yield started


def compile_(service: Running) -> None:
    """Run one job to its end: the first decision on a machine takes minutes, not one of these."""
    base = f"{service.address}/api/v1"
    with httpx.Client(base_url=base, headers=service.headers, timeout=LONG_S) as client:
        id_ = submit(client, "true")
        end_s = time.monotonic() + COMPILES_S
        while client.get(f"/jobs/{id_}").raise_for_status().json()["exit_code"] is None:
            assert time.monotonic() < end_s, "the first job was not started"
            time.sleep(0.2)


@pytest.fixture
def api(service: Running) -> Iterator[httpx.Client]:
    """Return a client of the API; at the end it cancels what a test left running."""
    base = f"{service.address}/api/v1"
    with httpx.Client(base_url=base, headers=service.headers, timeout=LONG_S) as client:
        yield client
        left = client.get("/jobs", params={"limit": 10_000}).json()
        for id_ in {each["id"].partition("_")[0] for each in left}:  # an array at once
            client.post(f"/jobs/{id_}/cancel").raise_for_status()
        until(lambda: client.get("/jobs").json() == [], why="all jobs to end")


def submit(api: httpx.Client, *argv: str, **given: Any) -> str:
    made = api.post("/jobs", json={"argv": list(argv), "folder": "/tmp", **given})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def open_form(page: Page, service: Running) -> Locator:
    page.goto(f"{service.address}/jobs")
    form = page.locator("form.st-submit")
    expect(page.locator("details.st-folded")).to_be_visible()
    page.evaluate("document.querySelector('details.st-folded').open = true")
    expect(form).to_be_visible()
    return form


def press(form: Locator, name: str) -> None:
    form.get_by_role("button", name=name, exact=True).click()


def head(page: Page) -> Locator:
    """Return the card with the name, state and buttons of a job."""
    return page.locator(".st-job-head")


def test_a_job_is_submitted_by_the_form_runs_to_its_end_and_its_log_is_read(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    with opened(browser, service) as page:
        form = open_form(page, service)
        form.get_by_label("Command", exact=True).fill("sh -c 'echo six times seven is $((6 * 7))'")
        form.get_by_label("Name").fill("by-form")
        form.get_by_label("Time limit").fill("10")
        press(form, "Submit")

        expect(page).to_have_url(re.compile(r"/jobs/\d+$"))
        expect(head(page)).to_contain_text("by-form")
        expect(head(page)).to_contain_text("finished")
        expect(head(page)).to_contain_text("exit status 0")
        expect(page.get_by_role("log")).to_contain_text("six times seven is 42")
        expect(page.locator("svg.st-life .st-life-start").first).to_be_attached()
        expect(page.locator(".st-timeline")).to_contain_text("Finished")
        expect(page.get_by_role("link", name="Decision").first).to_be_visible()
        assert api.get(f"/jobs/{page.url.rpartition('/')[2]}").json()["state"] == "finished"


def test_a_script_from_a_file_is_shown_checked_and_run(
    browser: Browser, service: Running, api: httpx.Client, tmp_path: Path
) -> None:
    script = tmp_path / "hello.sh"
    script.write_text(
        "#!/bin/sh\r\n#SBATCH --job-name=by-script --time=10 -p long\r\necho hello\r\n"
    )
    before = len(api.get("/jobs", params={"ended": True, "limit": 10_000}).json())
    with opened(browser, service) as page:
        form = open_form(page, service)
        form.get_by_label("A script").check()
        form.get_by_label("Script file").set_input_files(script)
        expect(form.get_by_label("Script", exact=True)).to_have_value(re.compile("echo hello"))
        press(form, "Dry run")

        plan = form.locator(".st-dry")
        expect(plan).to_contain_text("Would run “by-script”")
        expect(plan).to_contain_text("at most 600 s")
        expect(plan).to_contain_text("Without meaning on one machine: p")
        assert len(api.get("/jobs", params={"ended": True, "limit": 10_000}).json()) == before

        press(form, "Submit")
        expect(head(page)).to_contain_text("finished")
        expect(page.get_by_role("log")).to_contain_text("hello")


def test_what_is_wrong_is_said_at_its_field(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    assert api
    context = new_context(browser, service.address, service.token)
    page = context.new_page()  # refusals are errors for a browser's console: `opened` would fail
    form = open_form(page, service)
    press(form, "Submit")
    expect(form.locator("[data-of=command]")).to_contain_text("There is nothing to run")

    form.get_by_label("Command", exact=True).fill("true | false")
    press(form, "Submit")
    expect(form.locator("[data-of=command]")).to_contain_text("'|' is for a shell")

    form.get_by_label("Command", exact=True).fill("true")
    form.get_by_label("CPU slots").fill("4000")
    press(form, "Dry run")
    expect(form.locator("[data-of=gpus], .st-refused").first).to_contain_text("this machine has 4")

    form.get_by_label("CPU slots").fill("")
    form.get_by_label("Memory").fill("lots")
    press(form, "Submit")
    expect(form.locator("[data-of=memory]")).to_contain_text("Write 500M or 16G")
    expect(form.get_by_label("Memory")).to_be_focused()
    expect(form.locator("[data-of=command]")).to_be_hidden()
    context.close()


def test_a_job_is_cancelled_after_a_question(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    id_ = submit(api, "sleep", "3600", name="long")
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs/{id_}")
        expect(head(page).locator(".st-chip")).to_have_text("runs")

        head(page).get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Leave it").click()
        expect(page.get_by_role("button", name="Leave it")).to_be_hidden()
        assert api.get(f"/jobs/{id_}").json()["state"] == "running"

        head(page).get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name=f"Cancel job {id_}").click()
        told(page, "Cancel: asked for.")
        expect(head(page).locator(".st-chip")).to_have_text("cancelled")
        expect(head(page).get_by_role("button")).to_have_count(0)


def test_a_held_job_is_released_and_runs(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    id_ = submit(api, "echo", "free", hold=True)
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs/{id_}")
        expect(page.locator(".st-card", has_text="Why it waits")).to_contain_text("release")
        head(page).get_by_role("button", name="Release").click()
        page.get_by_role("button", name=f"Release job {id_}").click()

        expect(head(page)).to_contain_text("finished")
        expect(page.get_by_role("log")).to_contain_text("free")


def test_a_log_is_followed_while_it_is_written(
    browser: Browser, service: Running, api: httpx.Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wait = f"echo first; while [ ! -e '{go}' ]; do sleep 0.1; done; seq 500; echo second"
    id_ = submit(api, "sh", "-c", wait)
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs/{id_}")
        log = page.get_by_role("log")
        expect(log).to_contain_text("first")
        expect(log).not_to_contain_text("second")

        go.touch()

        expect(log).to_contain_text("second")
        at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 30"
        until(lambda: log.evaluate(at_end), why="the end of the log in sight")


def test_the_list_follows_and_leaves_what_is_being_typed_alone(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs")
        search = page.get_by_label("Search jobs")
        search.fill("appears")
        expect(page).to_have_url(re.compile("text=appears"))

        id_ = submit(api, "sleep", "3600", name="appears-later")
        submit(api, "sleep", "3600", name="another")

        row = page.locator(".st-jobs tr", has_text="appears-later")
        expect(row.locator(".st-chip")).to_have_text("runs")
        expect(page.locator(".st-jobs tr", has_text="another")).to_have_count(0)
        expect(search).to_be_focused()
        expect(search).to_have_value("appears")

        row.get_by_role("link").focus()
        api.post(f"/jobs/{id_}/cancel").raise_for_status()
        expect(row).to_have_count(0)  # it is open no more
        page.get_by_role("button", name=re.compile("^Ended")).click()
        expect(row.locator(".st-chip")).to_have_text("cancelled")
        expect(page).to_have_url(re.compile("show=ended"))


def test_many_jobs_come_page_by_page(browser: Browser, service: Running, api: httpx.Client) -> None:
    submit(api, "true", name="many-of-them", hold=True, indices=list(range(120)))
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs?text=many-of-them")
        expect(page.get_by_text("1 to 50 of 120")).to_be_visible()
        expect(page.locator(".st-jobs tbody tr")).to_have_count(50)
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("101 to 120 of 120")).to_be_visible()
        expect(page).to_have_url(re.compile("page=3"))
        expect(page.locator(".st-jobs tbody tr")).to_have_count(20)


def test_a_hostile_name_is_text_everywhere(
    browser: Browser, service: Running, api: httpx.Client
) -> None:
    id_ = submit(api, "sh", "-c", f"cat <<'END'\n{EVIL}\nEND\nsleep 3600", name=EVIL)
    with opened(browser, service) as page:
        page.goto(f"{service.address}/jobs")
        expect(page.locator(".st-jobs")).to_contain_text("<script>window.hacked")
        page.goto(f"{service.address}/jobs/{id_}")
        expect(head(page)).to_contain_text("<script>window.hacked")
        expect(page.get_by_role("log")).to_contain_text("<script>window.hacked")
        expect(page).to_have_title(re.compile("<script>window.hacked"))
        for path in ("/", "/decisions"):
            page.goto(f"{service.address}{path}")
            drawn(page)

        assert page.evaluate("window.hacked") is None


def test_a_viewer_sees_that_a_job_is_there_and_not_what_it_runs(
    browser: Browser, service: Running, api: httpx.Client, viewer: str
) -> None:
    id_ = submit(api, "sh", "-c", f"echo {SECRET}; sleep 3600", name="theirs")
    until(lambda: SECRET in (api.get(f"/jobs/{id_}/log").json()["text"] or ""), why="its log")
    seen: list[str] = []
    with new_context(browser, service.address, viewer) as context:
        page = context.new_page()
        page.on(
            "websocket", lambda socket: socket.on("framereceived", lambda x: seen.append(str(x)))
        )
        page.goto(f"{service.address}/jobs")
        expect(page.get_by_text("You cannot submit from here")).to_be_visible()
        expect(page.locator("form.st-submit")).to_have_count(0)
        expect(page.locator(".st-jobs")).to_contain_text("theirs")
        seen.append(page.content())

        page.goto(f"{service.address}/jobs/{id_}")
        expect(head(page)).to_contain_text("runs")
        expect(page.get_by_text("are for its owner and operators")).to_be_visible()
        expect(head(page).get_by_role("button")).to_have_count(0)
        expect(page.get_by_role("log")).to_be_hidden()
        seen.append(page.content())

    assert "theirs" in "".join(seen)
    assert SECRET not in "".join(seen)


def test_a_job_that_is_not_there_has_no_page(browser: Browser, service: Running) -> None:
    with opened(browser, service) as page:
        for id_ in ("999999", "..%2fetc", "<script>"):
            page.goto(f"{service.address}/jobs/{id_}")
            expect(page.get_by_role("heading")).to_contain_text("There is no")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_a_phone(
    browser: Browser, service: Running, api: httpx.Client, scheme: str
) -> None:
    long = "x" * 150
    running_ = submit(api, sys.executable, "-c", f"print('{long}'); input()", name=long)
    waits = submit(api, "true", name=long, slots=4, hold=True)
    phone = {"width": 375, "height": 812}
    with opened(browser, service, viewport=phone, color_scheme=scheme) as page:
        open_form(page, service)
        expect(page.locator(".st-jobs tbody tr").first).to_be_visible()
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        for id_ in (running_, waits):
            page.goto(f"{service.address}/jobs/{id_}")
            expect(head(page)).to_contain_text(long)
            drawn(page)
            assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_a_demo_shows_simulated_jobs_and_no_form(browser: Browser, tmp_path: Path) -> None:
    with running(tmp_path) as demo, opened(browser, demo) as page:
        page.goto(f"{demo.address}/jobs")
        expect(page.get_by_text("A demo runs no jobs of yours")).to_be_visible()
        expect(page.locator("form.st-submit")).to_have_count(0)
        expect(page.locator(".st-table tbody tr").first).to_be_visible()
