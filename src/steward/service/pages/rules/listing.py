"""`/rules`: every rule in a line: whether it runs, how often it matched, how far it was right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from nicegui import ui
from nicegui.element import Element

from steward.clients.query_worker import QueryWorker
from steward.model.rules import RuleState
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows, set_prop
from steward.service.pages.rules.drawings import rule_row
from steward.service.rulebook import RuleRow

__all__ = ["changed_note", "kept", "prometheus_note", "rules_page"]

HEADS = ("Rule", "State", "Severity", "Pack", "Last day", "Matches", "Last", "Right so far")
NOTHING = empty("No rules here", "Choose other filters, or see `rules.paths` in the configuration.")
ALL = "All"
SHOWN: dict[str, Callable[[RuleRow], bool]] = {
    ALL: lambda _row: True,
    "Matched": lambda row: row.stats.fired > 0,
    "Never": lambda row: row.stats.fired == 0,
    "Off": lambda row: row.standing.state is RuleState.OFF,
    "Faulty": lambda row: row.standing.state is RuleState.FAULTY,
    "To retire": lambda row: row.stats.retire,
}
MOST_TROUBLES = 3
MOST_FILES = 3
MEANWHILE = "Nodes that steward sees itself are judged as ever; nothing is known of the others."
SEVERITIES = (ALL, "critical", "high", "medium", "low", "info")


def rules_page(visit: Visit, query: Mapping[str, str]) -> Show:
    """Build the page and return what keeps it up to date; `query` are filters of the address."""
    return _List(visit, query).show


def kept(
    rows: Iterable[RuleRow], *, shown: str = ALL, pack: str = ALL, severity: str = ALL
) -> list[RuleRow]:
    """Return the rows that the filters let pass."""
    return [
        row
        for row in rows
        if SHOWN[shown](row)
        and pack in (ALL, row.standing.pack)
        and severity in (ALL, row.severity.word if row.severity is not None else "")
    ]


class _List:
    """The table with its filters."""

    def __init__(self, visit: Visit, query: Mapping[str, str]) -> None:
        self._visit = visit
        packs = sorted({row.standing.pack for row in visit.live_state.snapshot.rules} - {""})
        known = {"shown": tuple(SHOWN), "pack": (ALL, *packs), "severity": SEVERITIES}
        self._chosen = {
            key: query[key] if query.get(key) in values else ALL for key, values in known.items()
        }
        self._buttons: dict[tuple[str, str], ui.button] = {}
        with card("Rules"):
            self._changed = Html()
            self._prometheus = Html()
            self._filters("shown", known["shown"], "Which rules")
            self._filters("pack", known["pack"], "Of which pack")
            self._filters("severity", known["severity"], "How severe")
            self._nothing = Html()
            with (
                ui.element("div").classes("st-scroll"),
                ui.element("table").classes("st-table st-rules"),
            ):
                heads = join(*(tag("th", text, scope="col") for text in HEADS))
                Html(tag("tr", heads), tag="thead")
                self._rows: Rows[str, Markup] = Rows(ui.element("tbody"), _make)

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the table up to date."""
        self._changed.show(changed_note(snapshot.changed_rules))
        self._prometheus.show(prometheus_note(self._visit.live_state.loop.questions))
        chosen = self._chosen
        wanted = kept(
            snapshot.rules,
            shown=chosen["shown"],
            pack=chosen["pack"],
            severity=chosen["severity"],
        )
        now_s = snapshot.cluster.t_s
        self._rows.show(
            [(f"{row.id} {row.standing.place}", rule_row(row, now_s)) for row in wanted]
        )
        self._nothing.show(Markup("") if wanted else NOTHING)
        for (kind, name), button in self._buttons.items():
            count = len(kept(snapshot.rules, **{kind: name}))
            button.set_text(f"{name} {count:,}")
            set_prop(button, "aria-pressed", "true" if chosen[kind] == name else "false")

    def _filters(self, kind: str, names: Iterable[str], label: str) -> None:
        with ui.element("div").classes("st-filters").props(f'role=group aria-label="{label}"'):
            for name in names:
                button = ui.button(name, color=None, on_click=self._choosing(kind, name))
                button.props("flat no-caps dense").classes("st-filter")
                self._buttons[kind, name] = button

    def _choosing(self, kind: str, name: str) -> Callable[[], None]:
        def choose() -> None:
            self._chosen[kind] = name
            keep_in_address("/rules", self._chosen, dict.fromkeys(self._chosen, ALL))
            self.show(self._visit.live_state.snapshot)

        return choose


def changed_note(files: Sequence[str]) -> Markup:
    """List the rule files that changed since they were read."""
    if not files:
        return Markup("")
    named = [item for file in files[:MOST_FILES] for item in (tag("code", file), ", ")][:-1]
    more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    what = "file has" if len(files) == 1 else "files have"
    text = f"{len(files)} rule {what} changed since steward began: "
    see = (f"{more}. Check them with ", tag("code", "steward rules check"), ".")
    then = " They run when steward is started again."
    return tag("p", text, *named, *see, then, class_="st-hint st-above", role="status")


def prometheus_note(questions: QueryWorker | None) -> Markup:
    """Name the Prometheus that is queried as well, and its faults."""
    if questions is None:
        return Markup("")
    if not questions.troubles:
        return tag("p", f"Metric terms also query {questions.where}.", class_="st-quiet st-above")
    what = "; ".join(questions.troubles[:MOST_TROUBLES])
    more = len(questions.troubles) - MOST_TROUBLES
    rest = f" (and {more} more)" if more > 0 else ""
    text = f"Metric terms also query {questions.where}: {what}{rest}. {MEANWHILE}"
    return tag("p", text, class_="st-notice st-above", role="alert")


def _make(markup: Markup) -> tuple[Element, Callable[[Markup], None]]:
    row = Html(markup, tag="tr")
    return row, row.show
