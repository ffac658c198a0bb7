"""Keep a classifier of kinds as a file: versioned, checked, with the data it came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.clock import Clock, WallClock
from steward.errors import StewardError
from steward.learn.workloads.classifier import STATE_VERSION, KindClassifier
from steward.store.learned import LearnedState, load_file, save_file

__all__ = ["load_classifier", "save_classifier"]


def save_classifier(
    path: Path,
    classifier: KindClassifier,
    *,
    learnt_from: Mapping[str, Any],
    clock: Clock | None = None,
) -> None:
    """Write a classifier; nothing in the file is ever executed."""
    state = LearnedState(
        name=classifier.name,
        version=STATE_VERSION,
        payload=classifier.save_state(),
        saved_s=(clock or WallClock()).now_s(),
        learnt_from={**learnt_from, "runs": len(classifier.runs), "kinds": list(classifier.kinds)},
    )
    save_file(path, state)


def load_classifier(path: Path) -> tuple[KindClassifier, Mapping[str, Any]]:
    """Return the classifier of a file and what it was learnt from."""
    state = load_file(path, KindClassifier.name, STATE_VERSION)
    try:
        return KindClassifier.of_state(state.payload), state.learnt_from
    except (KeyError, TypeError, ValueError, IndexError) as fault:
        raise StewardError(
            f"it does not fit this version of steward ({fault})",
            where=str(path),
            hint="learn it again with --train and --save",
        ) from fault
