"""Frame of every page: navigation, colour scheme, user, and footer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element

from steward import __version__
from steward.model.decision import DecisionState
from steward.service.authentication import Authenticator, User
from steward.service.live_state import LiveState, StateSnapshot
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, set_prop
from steward.service.pages.wording import clock

__all__ = ["LOOKS", "LOOK_COOKIE", "Show", "Visit", "card", "frame", "keep_in_address"]

TICK_S = 1.0
SIMULATED = "figures of a demo, not of a real cluster"
BEAT_TICKS = 3  # a sign of life is sent so often; liveness.js waits for it
LOOKS: dict[str, bool | None] = {"auto": None, "light": False, "dark": True}
LOOK_COOKIE = "steward_look"
LOOK_FOR = "path=/; max-age=31536000"
PAGES = (
    ("/", "Cluster", "grid_view"),
    ("/jobs", "Jobs", "play_circle"),
    ("/nodes", "Nodes", "dns"),
    ("/health", "Health", "monitor_heart"),
    ("/serving", "Serving", "bolt"),
    ("/fabric", "Fabric", "hub"),
    ("/memory", "Memory", "memory"),
    ("/plan", "Plan", "route"),
    ("/findings", "Findings", "search"),
    ("/rules", "Rules", "fact_check"),
    ("/patterns", "Patterns", "pattern"),
    ("/decisions", "Decisions", "rule"),
    ("/savings", "Savings", "savings"),
    ("/lab", "Lab", "science"),
    ("/ask", "Ask", "forum"),
)

# Which table of a page can be taken along as CSV.
CSV_OF = {
    "/": "gpus",
    "/jobs": "jobs",
    "/nodes": "nodes",
    "/findings": "findings",
    "/rules": "rules",
    "/decisions": "decisions",
    "/savings": "savings",
}

Show = Callable[[StateSnapshot], None]


_SEARCH = tag("a", "Search", href="/search", class_="st-plain-button", accesskey="s")


@dataclass(slots=True, kw_only=True)
class Visit:
    """One open page: who looks at it, and what it looks at."""

    live_state: LiveState
    access: Authenticator
    user: User
    look: str = "auto"

    def current_user(self) -> User | None:
        """Return the user, if they still may be here: sessions end and tokens are revoked."""
        return self.access.still(self.user)


def frame(visit: Visit, *, at: str, title: str, build: Callable[[Visit], Show]) -> None:
    """Draw a page and keep it up to date until it is closed."""
    ui.page_title(f"{title} · steward")
    dark = ui.dark_mode(value=LOOKS[visit.look])
    with ui.element("header").classes("st-top"):
        badge = _navigation(at, "st-nav")
        if visit.live_state.simulated:
            Html(tag("span", "simulated", class_="st-chip", title=SIMULATED), tag="span")
        live = Html(tag="span", classes="st-live").props('role="status"')
        beat = ui.element("i").classes("st-beat").props("hidden")
        Html(_SEARCH, tag="span")
        _light_switch(visit, dark)
        _whoami(visit)
    with ui.element("main").classes("st-main"):
        show = build(visit)
    foot = Html(tag="footer", classes="st-foot")
    tabs_badge = _navigation(at, "st-tabs")
    seen, ticks = -1, 0

    def tick() -> None:
        nonlocal seen, ticks
        ticks += 1
        set_prop(beat, "data-beat", str(ticks // BEAT_TICKS))
        if visit.current_user() is None:
            ui.navigate.to("/login")
            return
        snapshot = visit.live_state.snapshot
        live.show(_live(visit.live_state))
        if snapshot.version != seen:
            seen = snapshot.version
            waiting = _waiting(snapshot)
            badge.show(waiting)
            tabs_badge.show(waiting)
            foot.show(_foot(visit.live_state, snapshot, at))
            show(snapshot)

    tick()
    ui.timer(TICK_S, tick)


def _navigation(at: str, classes: str) -> Html:
    with ui.element("nav").classes(classes).props('aria-label="Pages"'):
        if classes == "st-nav":
            mark = tag("img", src="/static/steward.svg", alt="", width="24", height="24")
            Html(tag("a", mark, tag("b", "steward"), href="/", class_="st-brand"))
        badge = None
        for path, name, icon in PAGES:
            with ui.link(target=path).classes("st-link") as link:
                ui.icon(icon).props("aria-hidden=true")
                ui.label(name)
                if path == "/decisions":
                    badge = Html(tag="span")
            if path == at:
                link.classes("st-here").props('aria-current="page"')
    assert badge is not None  # noqa: S101 - the decisions page is one of PAGES
    return badge


def _waiting(snapshot: StateSnapshot) -> Markup:
    count = snapshot.states[DecisionState.WAITING]
    if not count:
        return Markup("")
    return tag("span", str(count), class_="st-badge", aria_label=f"{count} wait for approval")


def _light_switch(visit: Visit, dark: ui.dark_mode) -> None:
    icons = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}

    def turn() -> None:
        names = list(LOOKS)
        visit.look = names[(names.index(visit.look) + 1) % len(names)]
        dark.set_value(LOOKS[visit.look])
        button.props(f'icon={icons[visit.look]} aria-label="{_look_label(visit.look)}"')
        ui.run_javascript(
            f"document.cookie = '{LOOK_COOKIE}={visit.look}; {LOOK_FOR}; samesite=strict'"
        )

    button = ui.button(color=None, on_click=turn).props(
        f'icon={icons[visit.look]} flat round dense aria-label="{_look_label(visit.look)}"'
    )


def _look_label(look: str) -> str:
    return f"Colours: {look}. Change"


def _whoami(visit: Visit) -> None:
    role = visit.user.role.value
    with ui.element("div").classes("st-who"):
        Html(tag("span", visit.user.name, title=role), tag="span")
        if visit.user.session:
            form = ui.element("form").props('method="post" action="/logout"')
            with form:
                Html(tag("button", "Log out", type="submit", class_="st-plain-button"), tag="span")


def _live(live_state: LiveState) -> Markup:
    well = live_state.alive() and not live_state.silent
    word = "live" if well else "stalled"
    return join(
        tag("i", class_=f"st-pulse st-{word}"),
        tag("span", word, class_="st-live-word"),
        tag("span", "no connection", class_="st-lost-word"),
    )


def _foot(live_state: LiveState, snapshot: StateSnapshot, at: str) -> Markup:
    faster = (
        f", {live_state.speed:g}\N{MULTIPLICATION SIGN} faster" if live_state.speed != 1 else ""
    )
    kind = f" (simulated{faster})" if live_state.simulated else ""
    parts = (
        f"steward {__version__}",
        live_state.settings.site.name,
        f"{clock(snapshot.cluster.t_s)} UTC{kind}",
        f"turn {snapshot.status.turns:,}",
    )
    table = CSV_OF.get(at)
    link = tag("a", f"{table} as CSV", href=f"/api/v1/tables/{table}.csv") if table else None
    return join(*(tag("span", part) for part in parts), link)


def keep_in_address(path: str, chosen: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Write what was chosen into the address, without what is as at first; nothing is loaded."""
    changed = {key: value for key, value in chosen.items() if value != defaults.get(key, "")}
    ui.navigate.history.replace(f"{path}?{urlencode(changed)}" if changed else path)


def card(title: str, *, classes: str = "") -> Element:
    """Open a card with a heading; use it with `with`."""
    section = ui.element("section").classes(f"st-card {classes}")
    with section:
        Html(tag("h2", title))
    return section
