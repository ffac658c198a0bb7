from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from steward.errors import PermanentError, StewardError
from steward.model.event import Observation
from steward.model.job import JobState

START_S = 1000.0
IDLE = ("idle_allocated", 1e6)
WORK = ("gemm_bound", 10_000.0)  # 99.8 % busy
LIGHT = ("train.mobilenet_small", 10_000.0)  # 31.9 % busy


def busy_of(seen: Observation, entity: str) -> float:
    """Return the busy seconds that the samples of one job's part of a GPU add up to."""
    rows = seen.frame.filter(pl.col("entity") == entity)
    return float(rows["share.busy_share"].sum()) * 10.0


# -- lending -------------------------------------------------------------------------------------


def test_a_borrower_runs_at_once_beside_an_idle_owner(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()
    world.collect(START_S + 600)

    receipt = world.carry_out(stage.lending(owner, waits), START_S + 600)

    world.collect(START_S + 1600)
    assert receipt.result == "done"
    assert stage.state(world, waits).state is JobState.RUNNING
    assert stage.state(world, waits).gpus == stage.state(world, owner).gpus == receipt.gpus
    assert stage.life(world, waits).done_s(START_S + 1600) == pytest.approx(1000.0)
    assert world.truth().gained_gpu_s == pytest.approx(998.0, rel=2e-3)
    assert world.truth().owner_loss_gpu_s == 0.0


def test_the_same_decision_twice_returns_the_same_receipt_and_changes_nothing(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()
    first = world.carry_out(stage.lending(owner, waits), START_S)
    history = stage.state(world, waits).history

    again = world.carry_out(stage.lending(owner, waits), START_S + 5)

    assert again == first
    assert stage.state(world, waits).history == history
    assert world.truth().loans == 1


def test_what_speaks_against_a_loan_is_said_all_at_once(stage: Any) -> None:
    owner, runs = stage.job(IDLE, memory_gib=100), stage.job(IDLE)
    wide = stage.job(WORK, gpus=2, memory_gib=60)
    world = stage.world(gpus=2)

    with pytest.raises(PermanentError) as refused:
        world.carry_out(stage.lending(owner, wide, "n01/gpu1"), START_S)

    assert str(refused.value) == (
        "decision d-1: n01/gpu1 can't be lent: n01/gpu1 is not held by job 1; "
        "job 3 needs 2 GPUs and would get 1; the two jobs need 160 GiB of the 141 GiB of a GPU"
    )
    assert stage.state(world, runs).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("owner", "borrower", "gpu", "why"),
    [
        ("1", "9", "n01/gpu0", "the borrower does not wait"),
        ("9", "3", "n01/gpu0", "the owner does not run"),
        ("x", "3", "n01/gpu0", "the owner does not run"),
        ("1", "2", "n01/gpu0", "the borrower does not wait"),
        ("1", "3", "n99/gpu0", "there is no n99/gpu0"),
    ],
)
def test_a_loan_between_the_wrong_parties_is_refused_for_good(
    stage: Any, owner: str, borrower: str, gpu: str, why: str
) -> None:
    stage.job(IDLE), stage.job(IDLE), stage.job(WORK)
    world = stage.world(gpus=2)

    with pytest.raises(PermanentError, match=why):
        world.carry_out(stage.lending(owner, borrower, gpu), START_S)


def test_a_gpu_is_lent_to_one_borrower_only(stage: Any) -> None:
    owner, first, second = stage.job(IDLE), stage.job(WORK), stage.job(WORK)
    world = stage.world()
    world.carry_out(stage.lending(owner, first), START_S)

    with pytest.raises(PermanentError, match="n01/gpu0 is lent already"):
        world.carry_out(stage.lending(owner, second, name="d-2"), START_S)


def test_samples_of_each_part_add_up_to_what_was_really_done(stage: Any) -> None:
    owner = stage.job(("idle_allocated", 900.0), ("train.vit", 5000.0))
    waits = stage.job(("dataset_load", 33.3), ("train.bert", 5000.0))
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), START_S + 123.4)

    seen = world.collect(START_S + 1500)

    gross = world.truth().gross_gpu_s
    assert busy_of(seen, f"n01/gpu0@{waits}") == pytest.approx(gross, rel=1e-9)
    assert busy_of(seen, f"n01/gpu0@{owner}") == pytest.approx(
        world.truth().busy_gpu_s - gross, rel=1e-9
    )


# -- calling back --------------------------------------------------------------------------------


def test_a_borrower_that_can_save_keeps_its_progress_and_restores_when_it_goes_on(
    stage: Any,
) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)
    world.carry_out(stage.calling_back(lent), START_S + 500)

    world.collect(START_S + 519)
    saving = stage.state(world, waits)
    world.collect(START_S + 521)
    back = stage.state(world, waits)
    gained = world.truth()
    world.carry_out(stage.lending(owner, waits, name="d-2"), START_S + 600)
    world.collect(START_S + 700)

    assert saving.state is JobState.RUNNING
    assert back.state is JobState.QUEUED
    assert back.gpus == ()
    assert (back.history[-1].why, back.history[-1].lost_s) == ("called back", 0.0)
    assert gained.restore_gpu_s == 30.0
    assert gained.redo_gpu_s == 0.0
    # 500 s of work, then 30 s of restoring and 70 s of work
    assert stage.life(world, waits).done_s(START_S + 700) == pytest.approx(570.0)


def test_a_borrower_that_can_not_save_leaves_at_once_and_loses_all(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK, able=False)
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)

    world.carry_out(stage.calling_back(lent), START_S + 500)

    back = stage.state(world, waits)
    assert back.state is JobState.QUEUED
    assert back.history[-1].lost_s == pytest.approx(500.0)
    assert stage.life(world, waits).done_s(START_S + 500) == 0.0
    assert world.truth().redo_gpu_s == pytest.approx(499.0, rel=2e-3)
    assert world.truth().gained_gpu_s == pytest.approx(0.0)
    assert world.gained_by(lent.id) == pytest.approx(0.0)


def test_calling_back_a_loan_that_is_over_is_no_fault(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(("gemm_bound", 50.0))
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)
    world.collect(START_S + 100)

    receipt = world.carry_out(stage.calling_back(lent), START_S + 100)

    assert (receipt.result, receipt.gpus) == ("done", ())
    assert world.truth().completed == 1


def test_calling_back_twice_does_not_save_twice(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)
    world.carry_out(stage.calling_back(lent), START_S + 100)

    world.carry_out(stage.calling_back(lent, name="d-again"), START_S + 110)

    world.collect(START_S + 121)
    assert stage.state(world, waits).state is JobState.QUEUED


def test_a_loan_of_a_world_that_has_ended_is_given_back_at_once(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()

    back = world.carry_out(stage.calling_back(stage.lending(owner, waits)), START_S)

    assert (back.result, back.gpus) == ("done", ())


def test_the_gain_of_an_unknown_loan_is_not_zero_but_unknown(stage: Any) -> None:
    owner, waits = stage.job(IDLE), stage.job(WORK)
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), START_S)

    with pytest.raises(StewardError, match="no loan called 'd-7'; known: d-1"):
        world.gained_by("d-7")


# -- what else ends or hurts a loan --------------------------------------------------------------


def test_two_who_ask_for_more_than_a_gpu_share_it_and_both_slow_down(stage: Any) -> None:
    owner = stage.job(("idle_allocated", 100.0), WORK)
    waits = stage.job(LIGHT)
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), START_S)

    world.collect(START_S + 1100)

    both = 0.998 + 0.319
    owner_s = stage.life(world, owner).done_s(START_S + 1100) - 100.0
    waits_s = stage.life(world, waits).done_s(START_S + 1100) - 100.0
    truth = world.truth()
    assert owner_s == pytest.approx(1000.0 / both, rel=1e-3)
    assert waits_s == pytest.approx(1000.0 / both, rel=1e-3)
    assert truth.busy_gpu_s - 100 * 0.319 == pytest.approx(1000.0, rel=1e-3)
    assert truth.owner_loss_gpu_s == pytest.approx(1000 * 0.998 * (1 - 1 / both), rel=3e-3)
    assert truth.gained_gpu_s == pytest.approx(truth.gross_gpu_s - truth.owner_loss_gpu_s)


def test_two_who_ask_for_less_than_a_gpu_do_not_slow_each_other(stage: Any) -> None:
    owner, waits = stage.job(LIGHT), stage.job(("train.gpt2_tiny", 10_000.0))
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), START_S)

    world.collect(START_S + 1000)

    assert stage.life(world, owner).done_s(START_S + 1000) == pytest.approx(1000.0)
    assert world.truth().owner_loss_gpu_s == 0.0


def test_the_loss_of_an_owner_with_two_borrowers_is_split_by_who_slows_it(stage: Any) -> None:
    owner = stage.job(("train.checkpointed", 10_000.0), gpus=2)  # 69 % busy
    heavy, light = stage.job(WORK), stage.job(("infer.decode_b1", 10_000.0))  # 13 % busy
    world = stage.world(gpus=2)
    world.carry_out(stage.lending(owner, heavy, "n01/gpu0"), START_S)
    world.carry_out(stage.lending(owner, light, "n01/gpu1", name="d-2"), START_S)

    world.collect(START_S + 1000)

    truth = world.truth()
    light_busy = 1000 * 0.127
    assert world.gained_by("d-2") == pytest.approx(light_busy, rel=0.02)  # costs the owner nothing
    assert world.gained_by("d-1") + world.gained_by("d-2") == pytest.approx(truth.gained_gpu_s)
    assert truth.owner_loss_gpu_s > 100


def test_a_borrower_holds_the_gpus_when_the_owner_ends(stage: Any) -> None:
    owner, waits, third = stage.job(("idle_allocated", 100.0)), stage.job(WORK), stage.job(WORK)
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)

    world.collect(START_S + 300)

    truth = world.truth()
    assert stage.state(world, waits).gpus == ("n01/gpu0",)
    assert stage.life(world, waits).loan is None
    assert stage.state(world, third).state is JobState.QUEUED
    assert truth.gross_gpu_s == pytest.approx(99.8, rel=1e-3)  # the loan ended with its owner
    assert truth.held_gpu_s == pytest.approx(300.0)
    assert world.gained_by(lent.id) == truth.gained_gpu_s


def test_a_borrower_that_is_saving_goes_on_when_the_owner_ends_meanwhile(stage: Any) -> None:
    owner, waits = stage.job(("idle_allocated", 100.0)), stage.job(WORK)
    world = stage.world()
    lent = stage.lending(owner, waits)
    world.carry_out(lent, START_S)
    world.carry_out(stage.calling_back(lent), START_S + 90)

    world.collect(START_S + 200)

    assert stage.state(world, waits).state is JobState.RUNNING
    # 90 s until the call, 20 s of saving, 90 s since
    assert stage.life(world, waits).done_s(START_S + 200) == pytest.approx(180.0)
    assert stage.life(world, waits).saved_s == pytest.approx(90.0)


def test_from_when_there_is_room_elsewhere_a_loan_gains_nothing(stage: Any) -> None:
    owner, other = stage.job(IDLE), stage.job(("gemm_bound", 400.0))
    waits = stage.job(WORK)
    world = stage.world(gpus=2)
    world.carry_out(stage.lending(owner, waits), START_S)

    world.collect(START_S + 1000)

    assert int(other) not in world._engine.lives
    # free at 400 s, and room for the borrower a minute later
    assert world.truth().gross_gpu_s == pytest.approx(0.998 * 460, rel=2e-3)
    assert world.truth().busy_gpu_s == pytest.approx(399.2 + 998.0, rel=1e-3)


def test_room_for_fewer_gpus_than_the_borrower_needs_is_no_room(stage: Any) -> None:
    owner, _ = stage.job(IDLE, gpus=2), stage.job(("gemm_bound", 400.0))
    waits = stage.job(WORK, gpus=2)
    world = stage.world(gpus=3)
    world.carry_out(stage.lending(owner, waits, "n01/gpu0", "n01/gpu1"), START_S)

    world.collect(START_S + 1000)

    assert world.truth().gross_gpu_s == pytest.approx(2 * 998.0, rel=1e-3)


def test_when_a_lent_gpu_fails_both_jobs_wait_again_and_unsaved_work_is_lost(stage: Any) -> None:
    owner = stage.job(IDLE)
    waits = stage.job(("gemm_bound", 300.0), ("checkpoint", 10.0), WORK)
    world = stage.world()
    world.carry_out(stage.lending(owner, waits), START_S)
    world.collect(START_S + 500)

    _fail(world, row=0)

    seen = world.collect(START_S + 510)
    lost = stage.state(world, waits).history[-1]
    assert stage.state(world, owner).state is stage.state(world, waits).state is JobState.QUEUED
    assert lost.lost_s == pytest.approx(190.0)
    assert world.truth().redo_gpu_s == pytest.approx(190 * 0.998, rel=1e-3)
    assert {event.kind for event in seen.events} == {"gpu.failed"}
    assert world.truth().queued == 2


def test_a_failed_gpu_of_an_owner_leaves_the_borrower_of_another_one_in_place(stage: Any) -> None:
    owner, waits = stage.job(IDLE, gpus=2), stage.job(WORK)
    world = stage.world(gpus=2)
    world.carry_out(stage.lending(owner, waits, "n01/gpu1"), START_S)

    _fail(world, row=0)

    world.collect(START_S + 10)
    assert stage.state(world, owner).state is JobState.QUEUED
    assert stage.state(world, waits).gpus == ("n01/gpu1",)
    assert stage.life(world, waits).loan is None


def _fail(world: Any, *, row: int) -> None:
    """Let a GPU break now, as the engine's own dice would."""
    from steward.sim.engine import _Do, _Event
    from steward.sim.events import Rank

    engine = world._engine
    engine._queue.push(engine.now_s, Rank.FAULT, _Event(_Do.FAULT, row))
    engine.run_until(engine.now_s)
