"""What a site has set, and how the parts are put together from it.

Belongs here: reading, checking and showing settings; choosing plugs by name. Does not: what a
plug does with its options.
"""

from __future__ import annotations

from steward.config.mistakes import Mistake, SettingsError
from steward.config.read import Draft, draft_settings, find_file, read_settings
from steward.config.settings import Settings

__all__ = [
    "Draft",
    "Mistake",
    "Settings",
    "SettingsError",
    "draft_settings",
    "find_file",
    "read_settings",
]
