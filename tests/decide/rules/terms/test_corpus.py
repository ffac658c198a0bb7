"""All terms of the public corpus on all of its logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from decide.rules.terms.blocks import block, found, one_by_one
from steward.decide.rules.terms import Prefilter
from steward.model.rules import Term

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))


def terms_in(written: Any) -> Iterator[Term]:
    if isinstance(written, list):
        for each in written:
            yield from terms_in(each)
    elif isinstance(written, str):
        yield Term(kind="value", text=written)
    else:
        for kind in ("value", "regex", "jq"):
            if kind in written:
                yield Term(kind=kind, text=written[kind])


def corpus_terms() -> list[Term]:
    terms: dict[Term, None] = {}
    for path in sorted((DATA / "cre").glob("*/*.yaml")):
        rule = yaml.load(path.read_text(), Loader=yaml.BaseLoader)["rules"][0]["rule"]  # noqa: S506
        for node in rule.values():
            for key in ("match", "order", "negate"):
                terms.update(dict.fromkeys(terms_in(node.get(key, []))))
    return list(terms)


@pytest.mark.data
@pytest.mark.parametrize("accelerate", [True, False], ids=["hyperscan", "automaton"])
def test_all_terms_of_the_corpus_are_found_in_all_of_its_logs(*, accelerate: bool) -> None:
    terms = corpus_terms()
    prefilter = Prefilter(terms, accelerate=accelerate)

    logs = sorted((DATA / "cre").glob("*/*.log"))
    hits = 0
    for path in logs:
        within = block(*path.read_bytes().splitlines())
        pairs = found(prefilter, within)
        hits += len(pairs)
        assert pairs == one_by_one(terms, within), path

    assert len(terms) > 250
    assert hits > 500
    assert prefilter.unfiltered == ()
