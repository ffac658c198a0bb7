"""What was learnt from outcomes, as a record and as lines for people."""

from __future__ import annotations

from collections.abc import Mapping

from steward.learn.estimators.lending_choice import ARMS, FEATURES, LendingChoice
from steward.learn.outcomes import Comparison

__all__ = ["lines_of", "record_of"]

_SHOWN = 3
_SMALL = 0.01


def record_of(choice: LendingChoice) -> dict[str, object]:
    """Return everything that `steward decisions learned` knows, as values."""
    bandit, settings = choice.bandit, choice.bandit.settings
    comparison = bandit.evaluate() if len(bandit.log()) else None
    return {
        "name": choice.name,
        "state": "trusted" if bandit.trusted else "exploring",
        "baseline": ARMS[bandit.baseline],
        "choices": len(bandit.log()),
        "arms": [
            {
                "arm": name,
                "effective_rewards": weight,
                "mean_reward": mean,
                "effects": dict(zip(FEATURES, effects.tolist(), strict=True)),
            }
            for name, weight, mean, effects in bandit.arm_means()
        ],
        "comparison": comparison,
        "needed_effective_choices": settings.least_effective,
        "gate": {
            "exploring_cost": bandit.spent,
            "allowed": settings.allowance + settings.loss_share * bandit.earned,
            "closed_times": bandit.gated,
        },
        "protected_choices": bandit.protected,
        "unmeasured_spells": choice.unmeasured,
        "drifts_s": bandit.drifts_s,
    }


def lines_of(choice: LendingChoice, record: Mapping[str, object]) -> list[str]:
    """Return the same as lines."""
    bandit = choice.bandit
    head = f"{choice.name}: {record['state']}, from {record['choices']} idle spells"
    lines = [
        f"{head}; what is done without it: {record['baseline']}",
        "",
        "arms: what they earned of the idle GPU time, and what makes it more or less",
    ]
    for name, weight, mean, effects in bandit.arm_means():
        strongest = sorted(zip(FEATURES[1:], effects[1:], strict=True), key=lambda e: -abs(e[1]))
        named = [f"{what} {by:+.2f}" for what, by in strongest[:_SHOWN] if abs(by) >= _SMALL]
        why = ": " + ", ".join(named) if named else ""
        lines.append(f"  {name:12} {mean:+.3f} over {weight:.0f} spells (older ones faded){why}")
    found = record["comparison"]
    lines += ["", "evidence for choosing by it (doubly robust, on logged choices)"]
    if isinstance(found, Comparison):
        lines.append(
            f"  {found.new:+.3f} against {found.old:+.3f} of the baseline: "
            f"{found.new - found.old:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
        )
        lines.append(
            f"  rests on {found.effective:.0f} effective choices; "
            f"{bandit.settings.least_effective:.0f} and a lower end above 0 are needed"
        )
        lines.append("  " + ", ".join(f"{e.method} {e.mean:+.3f}" for e in found.estimates))
    else:
        lines.append("  none yet")
    allowed = bandit.settings.allowance + bandit.settings.loss_share * bandit.earned
    cost = f"{bandit.spent:.2f} of {allowed:.2f} allowed"
    lines += [
        "",
        f"gate: exploring has cost {cost}; closed {bandit.gated} times",
        f"protected: {bandit.protected} spells of jobs that are held or have a deadline",
        f"drift: {len(bandit.drifts_s)} times, older evidence then counts a tenth",
    ]
    if choice.unmeasured:
        lines.append(f"not measured: {choice.unmeasured} spells, left out")
    return lines
