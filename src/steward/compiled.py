"""Compiled inner loops: typed names for what we use of numba, and a cache that is never stale.

Compiled functions take arrays and numbers, change only what their docstring says, and never see
a clock or dice. The first call on a machine compiles (seconds); later processes load the result.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.experimental import structref

__all__ = ["is_compiled", "is_plain", "njit", "reference_to", "stay_plain"]

F = TypeVar("F", bound=Callable[..., object])
_KEPT = 3  # caches of older versions of the code, for those who switch between them


def _cache_folder() -> Path:
    """Return a folder that belongs to exactly this code.

    Numba compiles a function together with those that it calls, but only looks at the age of the
    function's own file: after a change in another file it would go on with the old code.
    """
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        text = file.read_bytes()
        if b"njit" in text:
            digest.update(text)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steward/compiled"
    folder = caches / digest.hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = sorted(caches.iterdir(), key=lambda each: each.stat().st_mtime)
        for each in old[: -_KEPT - 1]:
            if each != folder:
                shutil.rmtree(each, ignore_errors=True)
    except OSError:  # a home that cannot be written to: compile anew in every process
        return Path(tempfile.mkdtemp(prefix="steward-compiled-"))
    return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())


_plain: list[bool] = []


def stay_plain() -> None:
    """Leave functions uncompiled, for input so small that compiling would take far longer.

    Counts for modules that are imported afterwards.
    """
    _plain.append(True)


def is_plain() -> bool:
    """Whether nothing is compiled in this process."""
    return bool(_plain)


def njit(function: F) -> F:
    """Compile a function of arrays and numbers; keep the machine code for the next process."""
    if _plain:
        return function
    return cast("F", numba.njit(cache=True, nogil=True)(function))


class _Reference(types.StructRef):  # type: ignore[misc]  # numba has no types
    def preprocess_fields(self, fields: Any) -> Any:  # noqa: ANN401 - numba's own
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


def reference_to(name: str, fields: Sequence[str], *, module: str) -> tuple[Any, Any]:
    """Make a compiled record that is passed by reference, with the fields of a named tuple.

    Numba passes tuples by value: a tuple of fifty arrays makes every call, and compiling it, slow.
    Returns what builds a record inside compiled code, and its type, which has to be bound in
    `module` as `NAMEType` so that the cache on disk finds it again.
    """
    if _plain:
        return namedtuple(name, list(fields)), None
    kind = type(f"{name}Type", (_Reference,), {"__module__": module})
    structref.register(kind)
    builder = type(name, (structref.StructRefProxy,), {"__module__": module})
    structref.define_constructor(builder, kind, list(fields))
    structref.define_boxing(kind, builder)  # so that Python can keep one between two calls
    return builder, kind


def is_compiled(module: str) -> bool:
    """Whether machine code of a module, by its last name, is kept from an earlier process."""
    return any(Path(numba.config.CACHE_DIR).glob(f"*/{module}.*.nbi"))
