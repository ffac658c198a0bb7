"""The part of `/decisions` about standing approvals: those in force, and a form for a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nicegui import ui
from nicegui.element import Element

from steward.errors import StewardError
from steward.model.actions import ACTIONS
from steward.model.decision import StandingApproval
from steward.service.live_state import StateSnapshot
from steward.service.pages.confirmation import toast
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Visit, card
from steward.service.pages.markup import Markup, tag
from steward.service.pages.rows import Html, Rows
from steward.service.pages.wording import duration, plural
from steward.store.choices import ApprovalRequest

__all__ = ["StandingApprovals", "approval_text"]

HOURS, GPUS = 4.0, 32
ABOUT = tag(
    "p",
    "Approve in advance what would otherwise ask each time: one tenant's actions of one type, for "
    "some hours, up to a number of GPUs.",
    class_="st-quiet",
)
NONE = empty("No standing approvals", "Every decision that needs approval asks for it.")
Held = tuple[StandingApproval, int]


class StandingApprovals:
    """The list, and for operators the form and a button to revoke each."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        with card("Standing approvals") as section:
            section.props("id=approvals")
            Html(ABOUT)
            self._none = Html()
            with ui.element("div").classes("st-list") as parent:
                self._rows: Rows[str, Held] = Rows(parent, self._make)
            if visit.user.may_decide:
                self._build_form()

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the list up to date."""
        self._none.show(Markup("") if snapshot.approvals else NONE)
        self._rows.show([(held[0].id, held) for held in snapshot.approvals])

    def _build_form(self) -> None:
        tenants = [each.id for each in self._visit.live_state.snapshot.cluster.tenants]
        with ui.element("div").classes("st-form").props('role=group aria-label="New approval"'):
            self._tenant = ui.input("Tenant", autocomplete=tenants).props("dense")
            self._action = ui.select(sorted(ACTIONS), label="Action", value="lend").props("dense")
            self._hours = ui.number("Hours", value=HOURS, min=0.1, step=1).props("dense")
            self._gpus = ui.number("GPUs", value=GPUS, min=1, step=1, precision=0).props("dense")
            button = ui.button("Approve in advance", color=None, on_click=self._approve)
            button.props("no-caps unelevated dense").classes("st-choice st-choice-approve")

    def _make(self, held: Held) -> tuple[Element, Callable[[Held], None]]:
        id_ = held[0].id
        with ui.element("div").classes("st-split") as row:
            text = Html(tag="span")
            if self._visit.user.may_decide:
                button = ui.button("Revoke", color=None, on_click=lambda: self._revoke(id_))
                button.props("no-caps unelevated dense").classes("st-choice st-choice-reject")
                button.props["aria-label"] = f"Revoke {id_}"

        def show(held: Held) -> None:
            left_s = self._visit.live_state.real_s(held[0].until_s)
            text.show(approval_text(held[0], gpus_left=held[1], left_s=left_s))

        show(held)
        return row, show

    async def _approve(self) -> None:
        tenant, action = str(self._tenant.value or ""), str(self._action.value)
        hours, gpus = float(self._hours.value or 0), int(self._gpus.value or 0)
        user = self._visit.current_user()
        if user is None:
            ui.navigate.to("/login")
            return
        live_state = self._visit.live_state
        asked = ApprovalRequest(tenant=tenant, action=action, hours=hours, gpus=gpus)
        await _report(
            lambda: live_state.approve_in_advance(asked, user=user),
            done=f"'{action}' of {tenant} is approved for {hours:g} h, from the next turn on.",
        )

    async def _revoke(self, approval: str) -> None:
        user = self._visit.current_user()
        if user is None:
            ui.navigate.to("/login")
            return
        live_state = self._visit.live_state
        await _report(
            lambda: live_state.revoke(approval, user=user),
            done=f"{approval} is revoked, from the next turn on.",
        )


def approval_text(approval: StandingApproval, *, gpus_left: int, left_s: float) -> Markup:
    """Write what is approved, for how long, and by whom."""
    return tag(
        "span",
        tag("b", f"'{approval.action}' of {approval.tenant}"),
        f" for {duration(left_s)} more, {plural(gpus_left, 'GPU')} of {approval.gpus:,} left · "
        f"by {approval.user} ",
        tag("code", approval.id),
    )


async def _report(write: Callable[[], object], *, done: str) -> None:
    client = ui.context.client  # the row itself may be gone when the answer is there
    try:
        await asyncio.to_thread(write)
    except StewardError as fault:
        with client:
            toast(f"{fault.problem}. {fault.hint}", "negative")
        return
    with client:
        toast(done, "positive")
