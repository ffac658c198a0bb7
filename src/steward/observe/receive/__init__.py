"""Takes in what other programs push or expose: bytes of a wire format become an observation.

Belongs here: counts per sender, which series are known, rates and sums over samples, tables.
Does not: bytes (`clients/wire`), meaning of names (`observe/translate`), durability (`intake`).
"""

from __future__ import annotations

from steward.observe.receive.converter import ConverterStats, PushedSamples, SampleConverter
from steward.observe.receive.decoders import Decoders, PushedBody, PushedLines, pack_body, warm_up
from steward.observe.receive.tables import Readings, observation_of

__all__ = [
    "ConverterStats",
    "Decoders",
    "PushedBody",
    "PushedLines",
    "PushedSamples",
    "Readings",
    "SampleConverter",
    "observation_of",
    "pack_body",
    "warm_up",
]
