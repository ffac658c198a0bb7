"""Notices that other requests arrive than before: other classes, models, lengths of prompts."""

from __future__ import annotations

import numpy as np

__all__ = ["Composition"]

_RECENT, _USUAL = 300.0, 3000.0  # arrivals that shares are about
_CHANGED_SHARE = 0.35  # of recent arrivals that are of other kinds: a trace's own drift is below
_KINDS = 512  # at most; more are counted as one


class Composition:
    """Compare of which kinds requests were lately with what is usual."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[int, ...], int] = {}
        self._recent = np.zeros(16)
        self._usual = np.zeros(16)
        self._count = 0  # since the last change

    def has_changed(self, kind: tuple[int, ...]) -> bool:
        """Take in an arrival; return True if what arrives is no longer what it was.

        What arrives now is usual from then on.
        """
        place = self._kinds.setdefault(kind, min(len(self._kinds), _KINDS - 1))
        if place >= len(self._recent):
            more = np.zeros(len(self._recent))
            self._recent = np.concatenate((self._recent, more))
            self._usual = np.concatenate((self._usual, more))
        self._count += 1
        self._recent *= 1.0 - 1.0 / min(self._count, _RECENT)
        self._recent[place] += 1.0 / min(self._count, _RECENT)
        self._usual *= 1.0 - 1.0 / min(self._count, _USUAL)
        self._usual[place] += 1.0 / min(self._count, _USUAL)
        if self._count <= _RECENT:
            return False
        if 0.5 * float(np.abs(self._recent - self._usual).sum()) <= _CHANGED_SHARE:
            return False
        self._usual[:] = self._recent
        self._count = int(_RECENT)
        return True
