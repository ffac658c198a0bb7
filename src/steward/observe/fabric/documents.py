"""Reading YAML and JSON that others wrote: what is not as expected is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from steward.errors import StewardError

__all__ = ["items", "json_of", "mapping", "yaml_of"]


def yaml_of(text: str, where: str) -> Any:  # noqa: ANN401 - a document
    """Return a YAML document."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise StewardError(f"it is not YAML: {said}", where=where) from None


def json_of(text: str, where: str) -> Any:  # noqa: ANN401 - a document
    """Return a JSON document."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StewardError(f"it is not JSON: {error}", where=where) from None


def mapping(value: Any, what: str, where: str) -> Mapping[str, Any]:  # noqa: ANN401
    """Return a mapping with texts for keys; nothing stands for an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise StewardError(f"{what} is not a mapping", where=where)
    return {str(key): each for key, each in value.items()}


def items(value: Any, what: str, where: str) -> Sequence[Any]:  # noqa: ANN401
    """Return a list; nothing stands for an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise StewardError(f"{what} is not a list", where=where)
    return value
