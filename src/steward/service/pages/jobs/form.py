"""The form by which a job is submitted. `static/jobs.js` sends it to the API, which checks it."""

from __future__ import annotations

import pwd

from steward.clients.local_jobs.devices import JobDevices
from steward.service.pages.markup import Markup, join, tag

__all__ = ["submit_form"]

EXAMPLE = "#!/bin/bash\n"


def submit_form(devices: JobDevices, account: pwd.struct_passwd, *, opened: bool) -> Markup:
    """Return the form, folded unless it is `opened`."""
    form = tag(
        "form",
        _what(),
        _needs(devices),
        _when(account),
        tag(
            "div",
            tag("button", "Submit", type="submit", class_="st-run"),
            tag("button", "Dry run", type="submit", value="dry", class_="st-plain-button"),
            tag("span", class_="st-quiet st-sent", role="status"),
            class_="st-line",
        ),
        tag("p", class_="st-quiet st-expected", role="status", hidden=""),
        tag("div", class_="st-notice st-refused", role="alert", hidden=""),
        tag("div", class_="st-hint st-dry", role="status", hidden=""),
        class_="st-submit",
        novalidate="",
    )
    return tag(
        "details",
        tag("summary", "Submit a job"),
        form,
        class_="st-folded",
        open="" if opened else None,
    )


def _what() -> Markup:
    return tag(
        "fieldset",
        tag("legend", "What runs"),
        _radio("command", "A command", checked=True),
        _field(
            "Command",
            "command",
            "Program and arguments, without a shell.",
            placeholder="python3 train.py --epochs 3",
            autocapitalize="off",
            spellcheck="false",
            wide=True,
        ),
        _radio("script", "A script"),
        tag(
            "div",
            tag(
                "div",
                tag("label", "Script file", for_="st-new-file"),
                tag("input", type="file", name="file", id="st-new-file"),
                class_="st-field",
            ),
            tag(
                "div",
                *_labelled(
                    "Script",
                    "script",
                    "Its #SBATCH lines hold where a field is empty.",
                    tag("textarea", EXAMPLE, rows=7, spellcheck="false", **_named("script")),
                ),
                class_="st-field",
            ),
            class_="st-script",
        ),
    )


def _needs(devices: JobDevices) -> Markup:
    gpus = len(devices.uuids)
    slots = len(devices.slots)
    return tag(
        "fieldset",
        tag("legend", "What it needs"),
        tag(
            "div",
            _field("GPUs", "gpus", f"This machine has {gpus}.", inputmode="numeric")
            if gpus
            else None,
            _field("CPU slots", "slots", f"This machine has {slots}.", inputmode="numeric")
            if slots
            else None,
            _field("Time limit", "time", "2:00:00, 90 minutes as 90, or 90s."),
            _field("Memory", "memory", "As 16G; empty is no limit."),
            _field("CPUs", "cpus", "Cores; empty is no limit.", inputmode="numeric"),
            class_="st-fields",
        ),
    )


def _when(account: pwd.struct_passwd) -> Markup:
    return tag(
        "fieldset",
        tag("legend", "Name and order"),
        tag(
            "div",
            _field("Name", "name", "Everybody sees it."),
            _field(
                "Folder", "folder", f"Where it runs, as {account.pw_name}.", value=account.pw_dir
            ),
            _field("Array", "array", "One task per index: 0-9."),
            _field("After", "dependency", "afterok:12 waits for job 12."),
            _field("Priority", "priority", "Higher starts first.", placeholder="0"),
            class_="st-fields",
        ),
        tag(
            "div",
            _check("hold", "Hold it until it is released"),
            _check("requeue", "Start anew if it is lost"),
            class_="st-line",
        ),
    )


def _field(label: str, name: str, about: str, *, wide: bool = False, **more: str) -> Markup:
    box = tag("input", autocomplete="off", **_named(name), **more)
    return tag(
        "div",
        *_labelled(label, name, about, box),
        class_="st-field st-wide" if wide else "st-field",
    )


def _labelled(label: str, name: str, about: str, box: Markup) -> tuple[Markup, ...]:
    words = tag("label", label, for_=f"st-new-{name}")
    return words, box, tag("small", about, id=f"st-about-{name}", class_="st-quiet"), _fault(name)


def _named(name: str) -> dict[str, str]:
    described = f"st-about-{name} st-why-{name}"
    return {"name": name, "id": f"st-new-{name}", "aria-describedby": described}


def _fault(name: str) -> Markup:
    return tag("em", id=f"st-why-{name}", data_of=name, class_="st-wrong", role="alert", hidden="")


def _radio(value: str, label: str, *, checked: bool = False) -> Markup:
    box = tag("input", type="radio", name="kind", value=value, checked="" if checked else None)
    return tag("label", box, tag("b", label), class_="st-radio")


def _check(name: str, label: str) -> Markup:
    return tag("label", tag("input", type="checkbox", name=name), join(label), class_="st-radio")
