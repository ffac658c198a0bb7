"""Files and batches that clients of the gateway uploaded, and what became of each item.

SQLite for one gateway, PostgreSQL for several: an item is claimed by one of them at a time, and
its answer is written once, whoever sends it.
"""

from __future__ import annotations

from steward.store.batches.batches import BatchStore
from steward.store.batches.claims import Claims
from steward.store.batches.files import FileStore
from steward.store.batches.records import (
    BatchRecord,
    FileRecord,
    Item,
    ItemAnswer,
    LineFault,
    NewItem,
)
from steward.store.batches.tables import BatchDatabase, open_batches

__all__ = [
    "BatchDatabase",
    "BatchRecord",
    "BatchStore",
    "Claims",
    "FileRecord",
    "FileStore",
    "Item",
    "ItemAnswer",
    "LineFault",
    "NewItem",
    "open_batches",
]
