"""The file in a pod in which a training finds requests to save: a copy of an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.kubernetes.annotations import DOMAIN
from steward.clients.kubernetes.objects import map_in, maps_in
from steward.training.protocol import REQUEST, REQUEST_VARIABLE

__all__ = ["SAVE_REQUESTED", "can_be_asked", "request_file"]

SAVE_REQUESTED = f"{DOMAIN}/save-requested"
_VOLUME = "steward-requests"
_FOLDER = "/var/run/steward-requests"
_FIELD = f"metadata.annotations['{SAVE_REQUESTED}']"


def request_file() -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return the volume, where it is mounted, and the variable that names the file."""
    item = {"path": REQUEST, "fieldRef": {"fieldPath": _FIELD}}
    volume = {"name": _VOLUME, "downwardAPI": {"items": [item]}}
    mount = {"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}
    return volume, mount, {"name": REQUEST_VARIABLE, "value": f"{_FOLDER}/{REQUEST}"}


def can_be_asked(template: Mapping[str, Any]) -> bool:
    """Return whether pods of this spec have the file."""
    paths = {
        map_in(item, "fieldRef").get("fieldPath")
        for volume in maps_in(template, "volumes")
        for item in maps_in(map_in(volume, "downwardAPI"), "items")
    }
    return _FIELD in paths
