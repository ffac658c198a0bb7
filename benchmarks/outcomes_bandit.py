"""What does choosing by outcomes earn, beside the best fixed action and beside an oracle?

A simulated cluster is watched for hours; each of its idle spells is a choice: nothing, lend at
once, or lend later. What every arm would have earned in a spell follows from how long the spell
really lasted, less what a loan costs both jobs, which is planted by tenant: so the regret of any
way of choosing is known exactly. In the second half the costs are reversed. Rewards are noisy.
Beside the bandit are the fixed arms, an epsilon-greedy of the same regression without gate and
evaluation, and river's LinUCB. Nothing was tuned on the seeds that are reported.

Then the whole loop: the same simulated histories with and without the estimator `lending-choice`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import cos, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import bandit as river_bandit
from scipy.stats import t as student

from report import bar, finish, progress, quick
from steward.clock import ManualClock
from steward.config.assemble import assemble
from steward.config.settings import Settings
from steward.learn.outcomes import BanditSettings, OutcomeBandit
from steward.learn.outcomes.thompson import ArmPosterior, rng_of
from steward.model.forecast import UNEXPLAINED_S, About
from steward.sim.scenario import demo
from steward.sim.world import World

Floats = NDArray[np.float64]
ARMS = ("nothing", "lend", "lend-later")
START_S, HOUR_S = 1_800_000_000.0, 3600.0
AFTER_S, LATER_S = 300.0, 900.0
COSTS_S = (60.0, 240.0, 900.0, 2400.0)  # of saving, restoring and moving: by tenant, planted
NOISE = 0.1  # of a measured share
UNSEEN = tuple(range(200, 208))  # seeds; others were looked at while this was written
ROUNDS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """One idle stretch of the simulated cluster: what is known when it is noticed, and its end."""

    t_s: float
    tenant: int
    left_s: float  # from when it could be lent


def watched(seed: int, hours: float) -> list[Spell]:
    """Return the idle spells of a simulated cluster in which nothing is lent."""
    world = World(demo(), seed=seed, start_s=START_S)
    clock, began, found = ManualClock(START_S), dict[int, tuple[float, int]](), list[Spell]()
    with tempfile.TemporaryDirectory() as folder:
        plain = {"loop": {"autonomy": "observe"}, "store": {"folder": folder}}
        settings = Settings.model_validate(plain)
        loop = assemble(settings, clock=clock, collectors=[world], actuator=world)
        while clock.now_s() <= START_S + hours * HOUR_S:
            loop.turn()
            view = loop.view
            column = view.forecast(About.GPUS, UNEXPLAINED_S)
            ages = np.zeros(len(view.gpus)) if column is None else np.nan_to_num(column.mid)
            for row in range(len(view.gpus)):
                if ages[row] >= AFTER_S and row not in began:
                    began[row] = (view.t_s, int(view.gpus.tenant[row]))
                elif ages[row] < AFTER_S and row in began:
                    since_s, tenant = began.pop(row)
                    left_s = view.t_s - since_s
                    found.append(Spell(t_s=since_s, tenant=tenant, left_s=left_s))
            clock.set(clock.now_s() + 30.0)
        loop.close()
    return found


def rewards(spell: Spell, cost_s: float) -> Floats:
    """Return what each arm earns of the spell's idle time, exactly."""
    lent = spell.left_s - cost_s
    later = spell.left_s - LATER_S - cost_s if spell.left_s > LATER_S else 0.0
    return np.clip(np.array([0.0, lent, later]) / max(spell.left_s, 1.0), -1.0, 1.0)


def rounds(seed: int, hours: float, count: int) -> tuple[Floats, Floats, Floats]:
    """Return contexts, exact rewards and times of many choices, drawn from the watched spells.

    What a loan costs depends on the tenant: planted, and reversed in the middle.
    """
    spells = watched(seed, hours)
    random = np.random.default_rng(seed)
    picked = [spells[int(i)] for i in random.integers(len(spells), size=count)]
    tenants = sorted({spell.tenant for spell in spells})
    costs = [COSTS_S[place % len(COSTS_S)] for place in random.permutation(len(tenants))]
    contexts, exact, times = [], [], []
    for number, spell in enumerate(picked):
        order = costs if number < count // 2 else costs[::-1]
        turn = 2 * pi * (spell.t_s % 86400.0) / 86400.0
        places = [float(spell.tenant == each) for each in tenants]
        contexts.append([1.0, sin(turn), cos(turn), *places])
        exact.append(rewards(spell, order[tenants.index(spell.tenant)]))
        times.append(START_S + 600.0 * number)
    return np.array(contexts), np.array(exact), np.array(times)


# -- ways of choosing ----------------------------------------------------------------------------

Way = Callable[[Floats, Floats, Floats, int], tuple[NDArray[np.int64], dict[str, Any]]]


def measured(exact: Floats, arm: int, random: np.random.Generator) -> float:
    """Return what a measurement says that an arm earned; nothing is known to earn nothing."""
    return float(exact[arm] + NOISE * random.standard_normal()) if arm else 0.0


def ours(
    x: Floats, exact: Floats, t_s: Floats, seed: int
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Choose as steward does."""
    random = np.random.default_rng(seed)
    made = OutcomeBandit(arms=ARMS, baseline=1, size=x.shape[1], settings=BanditSettings())
    arms, trusted = [], 0
    for number in range(len(x)):
        chosen = made.choose(x[number], f"{seed}/{number}")
        made.learn(x[number], chosen, measured(exact[number], chosen.arm, random), t_s[number])
        arms.append(chosen.arm)
        trusted += made.trusted
    return np.array(arms), {
        "trusted_share": trusted / len(x),
        "drifts": len(made.drifts_s),
        "gate_closed": made.gated,
    }


def greedy(
    x: Floats, exact: Floats, _: Floats, seed: int
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Choose the best mean of the same regression, and any arm in one of ten cases."""
    random, posteriors = rng_of(f"greedy {seed}"), [ArmPosterior(size=x.shape[1]) for _ in ARMS]
    arms = []
    for number in range(len(x)):
        means = [each.mean(x[number]) for each in posteriors]
        arm = int(random.integers(3)) if random.random() < 0.1 else int(np.argmax(means))
        posteriors[arm].add(x[number], measured(exact[number], arm, random))
        arms.append(arm)
    return np.array(arms), {}


def lin_ucb(
    x: Floats, exact: Floats, _: Floats, seed: int
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Choose as river's LinUCB does."""
    random = np.random.default_rng(seed)
    policy = river_bandit.LinUCBDisjoint(alpha=0.5, seed=seed)
    arms = []
    for number in range(len(x)):
        context = {str(i): float(value) for i, value in enumerate(x[number])}
        arm = int(policy.pull([0, 1, 2], context=context))
        policy.update(arm, context, measured(exact[number], arm, random))
        arms.append(arm)
    return np.array(arms), {}


def one_seed(seed: int, hours: float, count: int, rivals: bool) -> dict[str, Any]:  # noqa: FBT001
    """Return the mean reward of each way of choosing."""
    x, exact, t_s = rounds(seed, hours, count)
    ways: dict[str, Way] = {"ours": ours, "epsilon-greedy": greedy}
    if rivals:
        ways["river LinUCB"] = lin_ucb
    found: dict[str, Any] = {
        f"always {name}": float(exact[:, i].mean()) for i, name in enumerate(ARMS)
    }
    found["oracle"] = float(exact.max(axis=1).mean())
    for name, way in ways.items():
        arms, about = way(x, exact, t_s, seed)
        earned = exact[np.arange(count), arms]
        found[name] = float(earned.mean())
        if name == "ours":
            found["about"] = about
            early = slice(0, count // 10)
            found["early"] = float(earned[early].mean() - exact[early, 1].mean())
    return found


# -- the loop ------------------------------------------------------------------------------------


def live(seed: int, hours: float, *, choosing: bool) -> float:
    """Return the GPU-hours that lending really gained in one simulated history."""
    world = World(demo(), seed=seed, start_s=START_S)
    clock = ManualClock(START_S)
    with tempfile.TemporaryDirectory() as folder:
        given = {"loop": {"autonomy": "auto"}, "store": {"folder": folder}}
        settings = Settings.model_validate(given)
        if choosing:
            names = (*settings.learn.estimators, "lending-choice")
            learn = settings.learn.model_copy(update={"estimators": names})
            settings = settings.model_copy(update={"learn": learn})
        loop = assemble(settings, clock=clock, collectors=[world], actuator=world)
        while clock.now_s() <= START_S + hours * HOUR_S:
            loop.turn()
            clock.set(clock.now_s() + settings.loop.every_s * 1.03)
        loop.close()
    return world.truth().gained_gpu_s / HOUR_S


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return the mean with its 95 % range over seeds."""
    mean = statistics.fmean(values)
    half = float(student.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / sqrt(len(values))
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


def main() -> None:
    """Hold the bars on unseen seeds."""
    short = quick()
    seeds, hours, count = (UNSEEN[:3], 3.0, 1500) if short else (UNSEEN, 6.0, ROUNDS)
    with ProcessPoolExecutor(2) as pool:
        jobs = [pool.submit(one_seed, seed, hours, count, not short) for seed in seeds]
        found = [job.result() for job in jobs]
        progress(str(found[0]))
        loops, loop_hours = seeds[: 2 if short else 4], hours / 2
        with_it = [pool.submit(live, seed, loop_hours, choosing=True) for seed in loops]
        without = [pool.submit(live, seed, loop_hours, choosing=False) for seed in loops]
        shares = [a.result() / b.result() - 1 for a, b in zip(with_it, without, strict=True)]
    names = [name for name in found[0] if name not in ("about", "early")]
    fixed = [max(each[f"always {name}"] for name in ARMS) for each in found]
    gains = [each["ours"] - best for each, best in zip(found, fixed, strict=True)]
    early = [each["early"] for each in found]
    results = {
        "seeds": len(seeds),
        "choices": count,
        "mean_reward": {name: interval([each[name] for each in found]) for name in names},
        "regret_against_best_fixed": interval([-gain for gain in gains]),
        "regret_against_oracle": interval([each["oracle"] - each["ours"] for each in found]),
        "early_loss_against_baseline": interval([-each for each in early]),
        "ours": [each["about"] for each in found],
        "in_the_loop_gpu_hours_more_share": interval(shares),
    }
    progress(str(results))
    finish(
        "outcomes_bandit",
        results,
        [
            bar(
                "regret against the best fixed action, upper end",
                interval([-gain for gain in gains])["high"],
                "<=",
                0.0,
            ),
            bar(
                "loss against the baseline in the first tenth, at most",
                round(max(-each for each in early), 4),
                "<=",
                0.1,
            ),
            bar(
                "GPU-hours gained in the loop, with it less without, as a share",
                interval(shares)["mean"],
                ">=",
                -0.1,
            ),
        ],
    )


if __name__ == "__main__":
    main()
