"""What is mounted: how full it is, and what travels to and from servers of files."""

from __future__ import annotations

from steward.clients.linux.mounts.space import FileSystems
from steward.clients.linux.mounts.statvfs import BoundedStatvfs
from steward.clients.linux.mounts.table import Mount, mounted
from steward.clients.linux.mounts.traffic import Mounts

__all__ = ["BoundedStatvfs", "FileSystems", "Mount", "Mounts", "mounted"]
