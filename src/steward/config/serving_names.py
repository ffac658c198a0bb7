"""Names in the sections of serving that no type can check: dispatcher, estimator, scaler, class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steward.config.locate import KeyPath
from steward.config.mistakes import Mistake, Wrong
from steward.config.read import Draft
from steward.config.settings import Settings
from steward.decide.serving import DISPATCHERS, SCALERS
from steward.errors import did_you_mean
from steward.learn.estimators.serving import SERVING_ESTIMATORS
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.registry import known

__all__ = ["serving_mistakes"]


def serving_mistakes(draft: Draft) -> tuple[Mistake, ...]:
    """Return the names in a file and its sites that serving does not know, each once."""
    drafts = (draft, *(draft.of_site(name) for name in draft.settings.sites))
    found = [each.mistake(wrong) for each in drafts for wrong in _wrong(each.settings)]
    return tuple(dict.fromkeys(found))


def _wrong(settings: Settings) -> Iterator[Wrong]:
    gateway = settings.gateway
    classes = tuple(settings.deadline_classes) or (INTERACTIVE.name, BATCH.name)
    estimators = ("none", *known("serving-estimator", SERVING_ESTIMATORS))
    dispatchers = known("dispatcher", DISPATCHERS)
    scalers = known("scaler", SCALERS)
    yield from _unknown(("gateway", "policy"), "dispatcher", gateway.policy, dispatchers)
    yield from _unknown(("gateway", "estimator"), "estimator", gateway.estimator, estimators)
    yield from _unknown(("serving", "scaler"), "scaler", settings.serving.scaler, scalers)
    if gateway.default_class:
        yield from _unknown(("gateway", "default_class"), "class", gateway.default_class, classes)


def _unknown(path: KeyPath, kind: str, name: str, names: Iterable[str]) -> Iterator[Wrong]:
    possible = sorted(names)
    if name not in possible:
        problem = f"there is no {kind} called '{name}'; known: {', '.join(possible)}"
        yield Wrong(path=path, problem=problem, hint=did_you_mean(name, possible))
