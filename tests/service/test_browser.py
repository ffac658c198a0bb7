"""Every page in a real Chromium, with the real service and the real loop behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from patience import LONG_S, until
from service.browsing import drawn, new_context, opened, told
from service.running import Running, running
from steward.service.local_users import account_name
from steward.store.tokens import Role, Tokens

pytestmark = pytest.mark.real

PAGES = {
    "/": "GPUs",
    "/nodes": "Nodes",
    "/serving": "No gateway is configured",
    "/memory": "No process is watched",
    "/findings": "Findings",
    "/decisions": "Decisions",
    "/patterns": "Patterns in the newest telemetry",
    "/savings": "rests on",
    "/search": "Search",
    "/lab": "Compare policies",
}
PHONE = {"width": 375, "height": 812}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that tests only look at; it lends by itself."""
    with running(tmp_path_factory.mktemp("auto"), autonomy="auto") as service:
        yield service


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Running]:
    """A service of its own for one test, with a decision that waits for a person."""
    with running(tmp_path) as service:
        yield service


def only_decision(service: Running) -> Any:
    items = get(service, "api/v1/decisions").json()["items"]
    return next(item for item in reversed(items))


def get(service: Running, path: str) -> httpx.Response:
    return httpx.get(f"{service.address}/{path}", headers=service.headers, timeout=LONG_S)


# -- every page --------------------------------------------------------------------------------


IN_MENU = [each for each in PAGES.items() if each[0] != "/search"]  # it is beside the menu


@pytest.mark.parametrize(("path", "heading"), IN_MENU)
def test_a_page_shows_itself_and_marks_where_one_is(
    browser: Browser, watched: Running, path: str, heading: str
) -> None:
    with opened(browser, watched) as page:
        page.goto(watched.address + path)

        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        expect(page.locator(".st-nav [aria-current=page]")).to_have_count(1)
        expect(page.locator(".st-foot")).to_contain_text("simulated, 20× faster")  # noqa: RUF001


def test_the_cluster_shows_lent_gpus_by_use_and_by_owner(
    browser: Browser, watched: Running
) -> None:
    with opened(browser, watched) as page:
        page.goto(watched.address)
        lent = page.get_by_label(re.compile(r"n1/gpu0: lent, a, used by b"))
        expect(lent).to_contain_text("⇄")

        page.get_by_role("button", name="Owner").click()
        expect(page.get_by_label(re.compile("n1/gpu1: .* busy, a"))).to_have_text("A")

        lent.click()
        expect(page.get_by_role("status").last).to_contain_text("lent to job j2")
        page.get_by_role("link", name="the decision").click()
        expect(page.get_by_text("What happened")).to_be_visible()


def test_savings_show_four_figures_and_the_simulators_account(
    browser: Browser, watched: Running
) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/savings")

        expect(page.locator(".st-figure")).to_have_count(4)
        expect(page.get_by_text("The simulator's own account")).to_be_visible()
        expect(page.locator(".st-chart canvas")).to_be_visible()
        expect(page.get_by_text("price_per_gpu_hour")).to_be_visible()


def test_a_finding_shows_its_samples_and_leads_to_its_decision(
    browser: Browser, watched: Running
) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/findings")
        expect(page.locator(".st-spark polyline").first).to_be_attached()

        page.get_by_role("link", name="Decision", exact=True).first.click()

        expect(page.get_by_text("Promised and measured")).to_be_visible()
        expect(page.locator(".st-chart canvas").first).to_be_visible()


def test_an_address_that_leads_nowhere_says_so(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/nowhere")
        expect(page.get_by_role("heading", name="There is no page here")).to_be_visible()

        page.goto(f"{watched.address}/decisions/d-nothing")
        expect(page.get_by_text("There is no decision d-nothing")).to_be_visible()


def test_an_unknown_id_answers_404(watched: Running) -> None:
    paths = ("decisions/d-x", "findings/f-x", "rules/r-x", "nodes/n-x", "gpus/n-x/gpu0", "nowhere")

    answers = [get(watched, each) for each in paths]

    assert {each.status_code for each in answers} == {404}
    assert "There is no GPU n-x/gpu0" in answers[4].text


def test_a_page_of_one_thing_names_it_in_its_title(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/gpus/n1/gpu0")
        expect(page).to_have_title("n1/gpu0 · GPU · steward")
        page.goto(f"{watched.address}/findings")
        page.locator(".st-finding a").first.click()
        expect(page).to_have_title(re.compile("^job .* idle for .* · Finding · steward$"))


def test_filters_and_ranges_are_in_the_address(browser: Browser, watched: Running) -> None:
    with opened(browser, watched) as page:
        page.goto(f"{watched.address}/findings?severity=waste")
        expect(page.get_by_role("button", name="Waste")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Longest").click()
        expect(page).to_have_url(f"{watched.address}/findings?severity=waste&sort=longest")

        page.goto(f"{watched.address}/nodes/n1")
        page.get_by_role("button", name="10 min").click()
        expect(page).to_have_url(f"{watched.address}/nodes/n1?for=10+min")

        page.goto(f"{watched.address}/decisions")
        page.get_by_role("button", name=re.compile("^In effect")).click()
        expect(page).to_have_url(f"{watched.address}/decisions?show=In+effect")


def test_a_page_shows_that_its_server_has_died(browser: Browser, asking: Running) -> None:
    context = new_context(browser, asking.address, asking.token)
    page = context.new_page()
    page.goto(asking.address)
    expect(page.get_by_text("live", exact=True)).to_be_visible()

    asking.program.kill()

    expect(page.get_by_text("no connection", exact=True)).to_be_visible()
    expect(page.get_by_text("live", exact=True)).to_be_hidden()
    context.close()


# -- deciding ----------------------------------------------------------------------------------


def confirm(page: Page, word: str) -> None:
    """Press the button of the dialog that names the decision."""
    page.locator(".st-confirm").get_by_role("button", name=re.compile(f"^{word} d-")).click()


def test_a_choice_can_be_cancelled_before_it_is_made(browser: Browser, asking: Running) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions?show=Waiting")
        page.get_by_role("button", name=re.compile("^Approve:")).click()
        dialog = page.locator(".st-confirm")
        expect(dialog).to_contain_text("Lend 1 GPU of job j1 to job j2")
        expect(dialog).to_contain_text(only_decision(asking)["decision"]["id"])

        dialog.get_by_role("button", name="Cancel").click()

        expect(dialog).to_be_hidden()
        assert only_decision(asking)["choices"] == []


def test_a_standing_approval_is_given_listed_and_revoked(browser: Browser, asking: Running) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions")
        page.get_by_label("Tenant").fill("a")
        page.get_by_role("button", name="Approve in advance").click()
        row = page.locator("#approvals .st-split")
        expect(row).to_contain_text("'lend' of a")

        row.get_by_role("button", name=re.compile("^Revoke")).click()

        expect(row).to_have_count(0)


def test_a_decision_is_approved_carried_out_and_undone_without_a_reload(
    browser: Browser, asking: Running
) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions")
        page.evaluate("window.sameDocument = true")
        row = page.locator(".st-decision", has_text=only_decision(asking)["decision"]["id"]).last
        expect(page.locator(".st-nav .st-badge")).to_have_text("1")

        row.get_by_role("button", name="Approve: Lend 1 GPU of job j1 to job j2").click()
        confirm(page, "Approve")
        told(page, "Approved. It is carried out")
        expect(row).to_contain_text("in effect")

        row.get_by_role("button", name=re.compile("^in effect")).click()
        expect(row).to_contain_text(f"{account_name(os.getuid())} approved it")

        row.get_by_role("button", name=re.compile("^Undo")).click()
        confirm(page, "Undo")
        expect(row).to_contain_text(f"{account_name(os.getuid())} undid it")
        expect(row.locator(".st-chip").first).to_have_text("undone")
        expect(row.get_by_role("button", name=re.compile("^Undo"))).to_have_count(0)
        assert page.evaluate("window.sameDocument") is True


def test_what_somebody_reads_stays_when_it_no_longer_fits_the_filter(
    browser: Browser, asking: Running
) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions?show=Waiting")
        row = page.locator(".st-decision", has_text=only_decision(asking)["decision"]["id"])
        row.get_by_role("button", name=re.compile("^waits for you")).press("Space")
        expect(row).to_contain_text("What happened")

        row.get_by_role("button", name=re.compile("^Approve")).click()
        confirm(page, "Approve")

        expect(row).to_contain_text("in effect")
        expect(row).to_contain_text(f"{account_name(os.getuid())} approved it")


def test_a_decision_is_rejected(browser: Browser, asking: Running) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions?show=Waiting")
        id_ = only_decision(asking)["decision"]["id"]
        row = page.locator(".st-decision", has_text=id_)

        row.get_by_role("button", name=re.compile("^Reject")).click()
        confirm(page, "Reject")
        told(page, "Rejected.")
        page.get_by_role("button", name=re.compile("^Ended without effect")).click()

        expect(row).to_contain_text("rejected")
        assert only_decision(asking)["choices"][0]["user"] == account_name(os.getuid())


# One after the other with nothing in between: the page must not hear of it before the click.
APPROVE_AND_CLICK = """(button, address) => {
    const request = new XMLHttpRequest();
    request.open("POST", address, false);
    request.send();
    if (!(request.status < 300)) throw new Error(request.responseText);
    button.click();
}"""


def test_what_somebody_else_decided_first_is_explained(browser: Browser, asking: Running) -> None:
    with opened(browser, asking) as page:
        page.goto(f"{asking.address}/decisions?show=Waiting")
        id_ = only_decision(asking)["decision"]["id"]
        page.get_by_role("button", name=re.compile("^Reject")).click()
        reject = page.locator(".st-confirm").get_by_role("button", name=f"Reject {id_}")
        expect(reject).to_be_visible()

        reject.evaluate(APPROVE_AND_CLICK, f"/api/v1/decisions/{id_}/approve")

        told(page, "cannot reject it")


# -- logging in --------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Running, dict[Role, str]]]:
    """A service that other machines could reach, and a token of each role."""
    tokens = Tokens(tmp_path / "tokens.json")
    secrets = {role: tokens.make(role.value, role) for role in Role}
    with running(tmp_path, host="0.0.0.0") as service:  # noqa: S104 - that is what is tested
        yield service, secrets


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_wrong_token_is_refused_and_a_viewer_cannot_decide(
    browser: Browser, guarded: tuple[Running, dict[Role, str]]
) -> None:
    service, secrets = guarded
    with opened(browser, service, logged_in=False) as page:
        page.goto(f"{service.address}/decisions")
        log_in(page, "stw_wrong")
        expect(page.get_by_role("alert")).to_contain_text("not a valid token")

        log_in(page, secrets[Role.VIEWER])
        expect(page.locator(".st-decision").first).to_contain_text("waits for you")
        expect(page.get_by_role("button", name=re.compile("^(Approve|Reject)"))).to_have_count(0)


def test_an_operator_decides_under_their_own_name_and_logs_out(
    browser: Browser, guarded: tuple[Running, dict[Role, str]]
) -> None:
    service, secrets = guarded
    with opened(browser, service, logged_in=False) as page:
        page.goto(f"{service.address}/decisions")
        log_in(page, secrets[Role.OPERATOR])
        page.get_by_role("button", name=re.compile("^Approve:")).click()
        confirm(page, "Approve")
        page.get_by_role("button", name=re.compile("^in effect")).click()
        expect(page.get_by_text("operator approved it")).to_be_visible()

        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(re.compile("/login"))  # or going on would call it off
        page.goto(f"{service.address}/savings")
        expect(page.get_by_label("Access token")).to_be_visible()


def test_an_open_page_is_sent_away_when_its_token_is_revoked(
    browser: Browser, guarded: tuple[Running, dict[Role, str]], tmp_path: Path
) -> None:
    service, secrets = guarded
    with opened(browser, service, logged_in=False) as page:
        page.goto(service.address)
        log_in(page, secrets[Role.VIEWER])
        expect(page.get_by_role("heading", name="GPUs", exact=True)).to_be_visible()

        Tokens(tmp_path / "tokens.json").revoke("viewer")

        expect(page.get_by_label("Access token")).to_be_visible()


def test_the_link_that_is_printed_opens_the_dashboard_once(
    browser: Browser, asking: Running
) -> None:
    with opened(browser, asking, logged_in=False) as page:
        page.goto(asking.login_url)
        expect(page.get_by_role("heading", name="GPUs", exact=True)).to_be_visible()
        assert "code" not in page.url

    with opened(browser, asking, logged_in=False) as page:
        page.goto(asking.login_url)
        expect(page.get_by_role("alert")).to_contain_text("has been used or has expired")


# -- how it looks and feels --------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/login"])
def test_nothing_is_wider_than_a_phone(browser: Browser, watched: Running, path: str) -> None:
    with opened(browser, watched, viewport=PHONE) as page:
        page.goto(watched.address + path)
        drawn(page)

        widths = page.evaluate(
            "[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]"
        )

        assert max(widths[:2]) <= widths[2] == 375


def test_an_open_explanation_fits_a_phone_too(browser: Browser, watched: Running) -> None:
    id_ = only_decision(watched)["decision"]["id"]
    with opened(browser, watched, viewport=PHONE) as page:
        page.goto(f"{watched.address}/decisions/{id_}")
        expect(page.get_by_text("What happened")).to_be_visible()
        drawn(page)

        assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_colours_follow_the_system_until_somebody_chooses(
    browser: Browser, watched: Running
) -> None:
    def ground(page: Page) -> list[int]:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return [int(part) for part in re.findall(r"\d+", colour)[:3]]

    with opened(browser, watched, color_scheme="dark") as page:
        page.goto(watched.address)
        expect(page.locator("body.body--dark")).to_be_attached()
        until(lambda: max(ground(page)) < 60, why="a dark page")

        page.get_by_role("button", name="Colours: auto. Change").click()
        expect(page.get_by_role("button", name="Colours: light. Change")).to_be_visible()
        expect(page.locator("body.body--light")).to_be_attached()
        until(lambda: min(ground(page)) > 200, why="a light page")
        page.wait_for_function("document.cookie.includes('steward_look=light')")

        page.goto(f"{watched.address}/savings")
        expect(page.locator("body.body--light")).to_be_attached()


def test_a_page_lives_without_reload_and_keeps_what_is_open(
    browser: Browser, watched: Running
) -> None:
    # a service that has run for long writes 1,000
    turns = """+document.querySelector(".st-foot").innerText
        .match(/turn ([\\d,]+)/)[1].replaceAll(",", "")"""

    with opened(browser, watched, viewport={"width": 900, "height": 300}) as page:
        page.goto(f"{watched.address}/decisions")
        page.evaluate("window.sameDocument = true")
        page.locator(".st-decision-line").first.click()
        expect(page.get_by_text("What happened")).to_be_visible()
        drawn(page)  # or what comes above moves what is read
        page.evaluate("scrollTo(0, 120)")
        before, scrolled = page.evaluate(f"[{turns}, scrollY]")

        page.wait_for_function(f"n => {turns} > n + 3", arg=before)

        expect(page.get_by_text("What happened")).to_be_visible()
        assert scrolled == 120
        assert page.evaluate("[window.sameDocument, scrollY]") == [True, scrolled]


@pytest.mark.parametrize("path", PAGES)
def test_everything_that_can_be_pressed_has_a_name(
    browser: Browser, watched: Running, path: str
) -> None:
    nameless = """[...document.querySelectorAll('button, [role=button], a')].filter(
        (each) => !(each.ariaLabel || each.innerText.trim())).map((each) => each.outerHTML)"""
    with opened(browser, watched) as page:
        page.goto(watched.address + path)
        drawn(page)

        assert page.evaluate(nameless) == []
