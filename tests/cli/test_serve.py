"""`steward serve`, as a person and a program use it."""

from __future__ import annotations

from pathlib import Path

import pytest
