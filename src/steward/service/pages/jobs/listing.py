"""`/jobs`: the jobs that steward runs, a form for a new one, and who lent what to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from nicegui import ui
from nicegui.element import Element

from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.jobs.elements import HEADS, Record, cells, loan_table, refusal
from steward.service.pages.jobs.form import submit_form
from steward.service.pages.jobs.job_reader import JobReader, ListedJobs
from steward.service.pages.jobs.simulated import seen_jobs_page
from steward.service.pages.jobs.state_words import GROUPS
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows, set_prop
from steward.store.job_search import JobQuery

__all__ = ["DEFAULTS", "jobs_page", "query_of"]

TICK_S = 1.0
QUIET_TICKS = 5  # where nothing changes, times and estimates are read anew so often
SHOWN = 50
SCRIPT = '<script src="/static/jobs.js" defer></script>'
WORDS = {
    "open": "Open",
    "waiting": "Waiting",
    "running": "Running",
    "ended": "Ended",
    "all": "All",
}
DEFAULTS = {"show": "open", "user": "", "text": "", "page": "1"}
NO_MATCH = empty("No jobs match", "Choose other filters.")
NOTHING = tag(
    "div",
    tag("b", "No jobs yet"),
    tag("p", "The first one is submitted by the form above, or on this machine by"),
    tag("p", tag("code", "steward jobs submit -- echo hello")),
    class_="st-empty",
)
ENDED_ONLY = empty("No job waits or runs", "Those that are over are under Ended.")


def jobs_page(visit: Visit, reader: JobReader | None, query: Mapping[str, str]) -> Show:
    """Build the page and return what keeps it up to date; `query` are filters of the address."""
    if reader is None:
        return seen_jobs_page(visit)
    ui.add_body_html(SCRIPT)
    with card("New job", classes="st-new-job"):
        fault = reader.refusal(visit.user)
        account = reader.asker(visit.user).account
        if fault is not None or account is None:
            Html(refusal(fault) if fault else Markup(""))
        else:
            opened = not reader.runner.store.states()
            Html(submit_form(reader.runner.devices, account, opened=opened))
    jobs = _List(visit, reader, query)
    ui.timer(TICK_S, jobs.tick)

    def show(_snapshot: StateSnapshot) -> None:
        """Jobs change between turns as well: the list has a rhythm of its own."""

    return show


def query_of(chosen: Mapping[str, str], *, page: int, uid: int | None) -> JobQuery:
    """Return the query of filters that were chosen."""
    return JobQuery(
        states=GROUPS[chosen["show"]],
        user=chosen["user"],
        text=chosen["text"],
        first_uid=uid,
        offset=SHOWN * (page - 1),
        limit=SHOWN,
    )


class _List:
    """Jobs with filters and pages, all of which are in the address."""

    def __init__(self, visit: Visit, reader: JobReader, query: Mapping[str, str]) -> None:
        self._visit, self._reader = visit, reader
        self._chosen = {key: query.get(key, value)[:200] for key, value in DEFAULTS.items()}
        if self._chosen["show"] not in GROUPS:
            self._chosen["show"] = DEFAULTS["show"]
        page = self._chosen.pop("page")
        self._page = int(page) if page.isdecimal() and 0 < len(page) < 6 else 1
        self._account = reader.asker(visit.user).account
        self._users: list[str] = []
        self._seen: tuple[JobQuery, int] | None = None  # what was read last, and up to which change
        self._quiet = 0  # ticks since then without a change
        with card("Jobs"):
            self._build_filters()
            self._nothing = Html()
            with ui.element("div").classes("st-scroll") as self._table:
                self._rows = self._build_table()
            with ui.element("div").classes("st-pager"):
                self._before = self._turn("Previous", -1)
                self._count = Html(tag="span", classes="st-quiet st-number").props("role=status")
                self._after = self._turn("Next", 1)
        with card("Who lent what to whom"):
            self._loans = Html()

    def _build_filters(self) -> None:
        with ui.element("div").classes("st-filters").props('role=group aria-label="Show"'):
            self._buttons = {key: self._button(key) for key in WORDS}
        with ui.element("div").classes("st-form"):
            search = ui.input("Search", value=self._chosen["text"], on_change=self._search)
            search.props('dense clearable debounce=300 type=search aria-label="Search jobs"')
            self._user = ui.select(
                {"": "everybody", self._chosen["user"]: self._chosen["user"] or "everybody"},
                label="User",
                value=self._chosen["user"],
                on_change=lambda event: self._choose("user", str(event.value or "")),
            )
            self._user.props("dense").style("min-width: 160px")

    def _build_table(self) -> Rows[str, tuple[Record, float]]:
        with ui.element("table").classes("st-table st-jobs"):
            heads = (tag("th", text, scope="col") for text in HEADS)
            Html(tag("tr", *heads), tag="thead")
            return Rows(ui.element("tbody"), _make)

    async def tick(self) -> None:
        """Read the page of the list anew, and show what changed."""
        user = self._visit.current_user()
        if user is None:
            return  # the frame goes to the login
        uid = self._account.pw_uid if self._account else None
        query = query_of(self._chosen, page=self._page, uid=uid)
        seen = (query, self._reader.runner.store.mark)
        self._quiet = self._quiet + 1 if seen == self._seen else 0
        if self._quiet % QUIET_TICKS:
            return
        self._seen = seen
        listed = await asyncio.to_thread(self._reader.page, query, user)
        loans = await asyncio.to_thread(self._reader.loans, user)
        stale = query != query_of(self._chosen, page=self._page, uid=uid)
        if stale or self._nothing.is_deleted:
            return  # other filters were chosen meanwhile: their own answer comes
        if not listed.records and listed.total:
            self._page = -(-listed.total // SHOWN)
            return
        self._show(listed)
        self._loans.show(loan_table(loans, listed.now_s))

    def _show(self, listed: ListedJobs) -> None:
        first, count = SHOWN * (self._page - 1), len(listed.records)
        self._rows.show([(each["id"], (each, listed.now_s)) for each in listed.records])
        self._table.set_visibility(bool(count))
        self._nothing.show(Markup("") if count else self._why_empty(listed))
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(first + count < listed.total)
        text = f"{first + 1:,} to {first + count:,} of {listed.total:,}" if count else "none"
        self._count.show(join(text))
        for key, button in self._buttons.items():
            of_group = GROUPS[key] or tuple(listed.states)
            button.set_text(f"{WORDS[key]} {sum(listed.states.get(x, 0) for x in of_group):,}")
            set_prop(button, "aria-pressed", "true" if key == self._chosen["show"] else "false")
        if listed.users != self._users:
            self._users = listed.users
            names = dict.fromkeys((*listed.users, *filter(None, [self._chosen["user"]])))
            self._user.set_options({"": "everybody", **{each: each for each in names}})

    def _why_empty(self, listed: ListedJobs) -> Markup:
        if not listed.states:
            return NOTHING
        filtered = self._chosen["user"] or self._chosen["text"] or self._chosen["show"] != "open"
        return NO_MATCH if filtered else ENDED_ONLY

    def _search(self, event: object) -> None:
        self._choose("text", str(getattr(event, "value", None) or "")[:200])

    def _button(self, key: str) -> ui.button:
        button = ui.button(WORDS[key], color=None, on_click=partial(self._choose, "show", key))
        return button.props("flat no-caps dense").classes("st-filter")

    def _turn(self, name: str, by: int) -> ui.button:
        async def turn() -> None:
            self._page = max(1, self._page + by)
            await self._again()

        button = ui.button(name, color=None, on_click=turn)
        return button.props("flat no-caps dense").classes("st-filter")

    def _choose(self, key: str, value: str) -> None:
        self._chosen[key], self._page = value, 1
        ui.timer(0, self._again, once=True)

    async def _again(self) -> None:
        keep_in_address("/jobs", {**self._chosen, "page": str(self._page)}, DEFAULTS)
        await self.tick()


def _make(
    value: tuple[Record, float],
) -> tuple[Element, Callable[[tuple[Record, float]], None]]:
    """Build a row; its link is never made anew, so that it keeps the focus."""
    record = value[0]
    with ui.element("tr") as row:
        name = tag("span", record["name"], class_="st-quiet")
        link = tag("a", tag("b", record["id"]), name, href=f"/jobs/{record['id']}")
        Html(link, tag="td")
        parts = [Html(tag="td", classes=f"st-job-{head.lower()}") for head in HEADS[1:]]

    def show(value: tuple[Record, float]) -> None:
        for part, cell in zip(parts, cells(*value), strict=True):
            part.show(cell)

    show(value)
    return row, show
