"""The network ports of this machine, as far as its kernel tells: what a scan starts from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HostPort", "host_ports"]

_SPEED = 1e6 / 8  # bytes a second of a Mbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """One port. What the kernel does not say is NaN or None."""

    name: str
    kind: str  # ethernet, infiniband
    up: bool
    bytes_per_s: float = math.nan
    counters: dict[str, float] | None = None


def host_ports(sys: Path = Path("/sys")) -> tuple[HostPort, ...]:
    """Return ports of adapters: InfiniBand and RoCE ones, and interfaces with hardware.

    Where no interface has hardware (a container), all but loopback are taken.
    """
    found = []
    for adapter in _folders(sys / "class/infiniband"):
        for port in _folders(adapter / "ports"):
            rate = _text(port / "rate").split()  # as in `200 Gb/sec (4X HDR)`
            speed = float(rate[0]) * 1e9 / 8 if rate and _is_number(rate[0]) else math.nan
            found.append(
                HostPort(
                    name=f"{adapter.name}/{port.name}",
                    kind="infiniband",
                    up="ACTIVE" in _text(port / "state"),
                    bytes_per_s=speed,
                    counters=_numbers(port / "counters") | _numbers(port / "hw_counters"),
                )
            )
    cards = [each for each in _folders(sys / "class/net") if each.name != "lo"]
    real = [each for each in cards if (each / "device").exists()]
    for card in real or cards:
        speed_text = _text(card / "speed")
        speed = float(speed_text) * _SPEED if _is_number(speed_text) else math.nan
        found.append(
            HostPort(
                name=card.name,
                kind="ethernet",
                up=_text(card / "operstate") in ("up", "unknown"),
                bytes_per_s=speed if speed > 0 else math.nan,
                counters=_numbers(card / "statistics"),
            )
        )
    return tuple(found)


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _numbers(folder: Path) -> dict[str, float]:
    try:
        files = sorted(each for each in folder.iterdir() if each.is_file())
    except OSError:
        return {}
    return {each.name: float(text) for each in files if _is_number(text := _text(each))}
