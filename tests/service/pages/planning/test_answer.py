"""The answer on the page of plans: what is recommended, what lost, what is wrong."""

from __future__ import annotations

from plans import NOW_S, catalog_of, exactly, per_gpu, queue, request, site, way
from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.service.pages.planning.answer import answer, refusal

EVIL = '<script>alert("x")</script>'


def planned(**but: object) -> str:
    here = site(name=EVIL, queues=(queue(charging=per_gpu(2.0)),))
    dear = site(name="dear", queues=(queue(charging=per_gpu(9.0)),))
    ways = (way(run_s=exactly(7200.0)),)
    return answer(plan(request(ways=ways, **but), catalog_of(here, dear)))


def test_the_recommended_choice_is_told_with_its_figures_and_a_picture() -> None:
    shown = planned()

    assert "Recommended" in shown
    assert "$4.00" in shown
    assert "<svg" in shown
    assert "no deadline" in shown
    assert "19 of 20 such jobs end by" in shown


def test_names_of_sites_are_text() -> None:
    assert EVIL not in planned()
    assert "&lt;script&gt;" in planned()


def test_others_are_listed_with_the_reason() -> None:
    shown = planned()

    assert "Why 1 others are not among them" in shown
    assert "dear" in shown


def test_what_nothing_can_do_says_what_to_change() -> None:
    shown = planned(deadline_s=NOW_S + 60.0)

    assert "Nothing that is known can do this" in shown
    assert "<li>" in shown
    assert "<svg" not in shown


def test_a_wrong_question_is_answered_with_what_to_do() -> None:
    shown = refusal(StewardError("no GPU is called 'A1000'", where="x", hint="did you mean A100?"))

    assert "A1000" in shown
    assert "did you mean A100?" in shown
    assert 'role="alert"' in shown
