"""How a plan's figures read in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from steward.model.planning.plan import Choice, Way

__all__ = ["amount", "dollars", "duration", "gpus_name", "listed", "name_of", "way_name"]


def duration(value_s: float) -> str:
    """Write a length of time.

    >>> duration(90.0), duration(7200.0), duration(40.0), duration(259_200.0)
    ('1.5 min', '2 h', '40 s', '3 d')
    """
    for size, unit in ((2 * 86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(value_s) >= size:
            return f"{value_s / (86400.0 if unit == 'd' else size):.3g} {unit}"
    return f"{value_s:.3g} s"


def dollars(value: float) -> str:
    """Write an amount of money.

    >>> dollars(12.5), dollars(0.004), dollars(12345.0)
    ('$12.50', '$0.004', '$12,345')
    """
    if value >= 1000:
        return f"${value:,.0f}"
    return f"${value:.2f}" if value >= 0.01 or value == 0 else f"${value:.1g}"


def amount(value: float, unit: str) -> str:
    """Write an amount in a unit.

    >>> amount(0.00012, "kg"), amount(12.345, "SU")
    ('0.00012 kg', '12.3 SU')
    """
    return f"{value:.3g} {unit}"


def listed(parts: Sequence[str]) -> str:
    """Write parts as a list.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def gpus_name(gpus: int, gpu_model: str) -> str:
    """Write how many GPUs of which model.

    >>> gpus_name(4, "A100"), gpus_name(0, "")
    ('4 x A100', 'no GPU')
    """
    return f"{gpus} x {gpu_model}" if gpus else "no GPU"


def way_name(way: Way) -> str:
    """Write what a way takes."""
    gpus = gpus_name(way.gpus, way.gpu_model)
    return gpus if way.batch is None else f"{gpus}, batch {way.batch}"


def name_of(choice: Choice, now_s: float) -> str:
    """Write which choice is meant."""
    later = choice.start_s - now_s
    start = f", started {duration(later)} later" if later > 0 else ""
    return f"{choice.site}/{choice.queue} ({way_name(choice.way)}{start})"
