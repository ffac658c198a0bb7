"""The form of the lab as markup. `static/lab.js` sends it to the API, which checks it."""

from __future__ import annotations

from itertools import groupby

from steward.service.lab.comparison_request import (
    DEFAULT_POLICIES,
    EXAMPLE_JOBS,
    MOST_GPUS,
    MOST_POLICIES,
    Offer,
    OfferedPolicy,
)
from steward.service.pages.markup import Markup, tag

__all__ = ["lab_form"]

FAMILIES = {
    "one order": ("One order", "all jobs in one queue, whoever they belong to"),
    "tenants": ("Tenants", "quotas, guarantees and shares"),
    "time shares": ("Time shares", "rounds by linear programs; slow on more than a thousand jobs"),
}
ELASTIC = (
    "Elastic policies (pollux, sia, …) need measured speeds of every application; "
    "steward lab compare --profiles runs them."
)


def lab_form(offer: Offer, *, most_bytes: int) -> Markup:
    """Return the form with all that is offered, the usual choice made."""
    return tag(
        "form",
        _trace(most_bytes),
        _policies(offer),
        _cluster(offer),
        tag(
            "div",
            tag("button", "Run the comparison", type="submit", class_="st-run"),
            tag("span", class_="st-quiet st-sent", role="status"),
            class_="st-line",
        ),
        tag("p", class_="st-notice st-refused", role="alert", hidden=""),
        class_="st-lab",
        novalidate="",
    )


def _trace(most_bytes: int) -> Markup:
    size = f"{most_bytes / 2**20:,.0f} MiB" if most_bytes >= 2**20 else f"{most_bytes:,} bytes"
    return tag(
        "fieldset",
        tag("legend", "Trace"),
        _radio("source", "file", "A file", checked=True),
        tag(
            "div",
            tag(
                "input",
                type="file",
                name="trace",
                aria_label="Trace file",
                data_most=most_bytes,
            ),
            tag(
                "p",
                "CSV or Parquet with ",
                tag("code", "submit_s, duration_s, gpus"),
                " (and ",
                tag("code", "job_id, tenant, user, …"),
                "), an ",
                tag("code", "sacct --parsable2"),
                " dump, SWF or one of the public formats; also gzip. Up to ",
                size,
                ". It is removed once it was read.",
                class_="st-quiet",
            ),
            class_="st-under",
        ),
        _radio("source", "example", "The example"),
        tag(
            "p",
            f"A made-up week of four teams, {EXAMPLE_JOBS:,} jobs. It is synthetic.",
            class_="st-quiet st-under",
        ),
    )


def _policies(offer: Offer) -> Markup:
    families = groupby(offer.policies, key=lambda each: each.family)
    groups = [_family(family, list(members)) for family, members in families]
    hint = tag(
        "p",
        f"Differences are to the first. At most {MOST_POLICIES} at once. {ELASTIC}",
        class_="st-quiet",
    )
    chosen = tag("span", ", ".join(DEFAULT_POLICIES), class_="st-chosen")
    return tag(
        "fieldset",
        tag("legend", "Policies ", chosen),
        tag(
            "div", *groups, class_="st-policies", tabindex="0", role="group", aria_label="Policies"
        ),
        hint,
    )


def _family(family: str, members: list[OfferedPolicy]) -> Markup:
    title, about = FAMILIES.get(family, (family, ""))
    return tag(
        "div",
        tag("h3", title, " ", tag("span", about)),
        *(_policy(each) for each in members),
        class_="st-family",
    )


def _policy(policy: OfferedPolicy) -> Markup:
    knows = tag("em", f"must know {policy.knows}") if policy.knows else None
    box = tag(
        "input",
        type="checkbox",
        name="policies",
        value=policy.name,
        checked="" if policy.name in DEFAULT_POLICIES else None,
    )
    words = tag("span", tag("b", policy.name), " ", knows, tag("span", policy.about))
    return tag("label", box, words, class_="st-policy")


def _cluster(offer: Offer) -> Markup:
    placements = [
        tag("option", f"{name}: {about}" if about else name, value=name)
        for name, about in offer.placements.items()
    ]
    number = {"type": "number", "step": "1", "inputmode": "numeric"}
    return tag(
        "fieldset",
        tag("legend", "Cluster"),
        tag(
            "div",
            _field("GPUs", "gpus", placeholder="fills to 80 %", min="1", max=MOST_GPUS, **number),
            _field("GPUs per node", "gpus_per_node", value="8", min="1", max="1024", **number),
            _field("Seed", "seed", value="0", min="0", max=2**31 - 1, **number),
            tag(
                "label",
                tag("span", "Placement"),
                tag("select", *placements, name="placement"),
                class_="st-field st-wide",
            ),
            class_="st-fields",
        ),
    )


def _field(label: str, name: str, **attributes: str | float) -> Markup:
    box = tag("input", name=name, **attributes)
    return tag("label", tag("span", label), box, class_="st-field")


def _radio(name: str, value: str, label: str, *, checked: bool = False) -> Markup:
    box = tag("input", type="radio", name=name, value=value, checked="" if checked else None)
    return tag("label", box, tag("b", label), class_="st-radio")
