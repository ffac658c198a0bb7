"""Records of jobs as pages get them, for tests."""

from __future__ import annotations

from typing import Any

__all__ = ["EVIL", "loan", "record"]

EVIL = '<script>alert("x")</script>'


def record(*spans: tuple[str, float], **given: Any) -> dict[str, Any]:
    """Return what the owner of a job sees of it; `spans` are its states and when they began."""
    spans = spans or (("submitted", 0.0), ("waiting", 0.0), ("running", 60.0))
    state, since_s = spans[-1]
    events = [
        {"t_s": t_s, "state": name, "why": f"why {name}", "decision": None} for name, t_s in spans
    ]
    made = {
        "id": "12",
        "name": "train",
        "user": "ann",
        "tenant": "bio",
        "state": state,
        "why": events[-1]["why"],
        "since_s": since_s,
        "submit_s": spans[0][1],
        "priority": 0,
        "asks_for": 2,
        "gpus": [],
        "exit_code": None,
        "attempts": [],
        "checkpoints": [],
        "events": events,
        "spans": list(spans),
        "ended": state in ("finished", "failed", "cancelled"),
        "on_slots": False,
        "can_save": True,
        "fault": None,
        "log": "/var/log/12",
        "command": ["python3", "train.py"],
        "spec": {
            "folder": "/home/ann",
            "script": "",
            "time_limit_s": 3600.0,
            "dependencies": [],
            "shape": {"memory_bytes": 0, "cpus": 0},
        },
    }
    return {**made, **given}


def loan(**given: Any) -> dict[str, Any]:
    """Return a loan that lasts, as the record of its owner has it."""
    made = {
        "role": "owner",
        "other": "13",
        "gpus": 1,
        "since_s": 70.0,
        "until_s": None,
        "way": "saved",
        "promised_s": 5.0,
        "took_s": None,
    }
    return {**made, **given}
