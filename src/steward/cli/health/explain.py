"""`steward health explain`: what a code means, what helps, and what other tools make of it."""

from __future__ import annotations

from typing import Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines
from steward.errors import StewardError
from steward.model.faults import OPINIONS, SXIDS, XIDS

__all__ = ["explain"]

_SOURCE = "after NVIDIA's public Xid catalogue (October 2025)"


def explain(
    code: Annotated[int, typer.Argument(help="Number of an Xid or SXid, such as 79.")],
    *,
    as_json: Json = False,
) -> None:
    """Say what an error code means, what should be done, and how tools disagree about it."""
    if code in XIDS:
        answer = _xid(code)
    elif code in SXIDS:
        answer = {"code": code, "kind": "sxid", "remedy": SXIDS[code].value, "source": _SOURCE}
    else:
        raise StewardError(
            f"there is nothing known of code {code}",
            where="codes of NVIDIA's driver",
            hint=f"{len(XIDS)} Xids ({min(XIDS)} to {max(XIDS)}) and {len(SXIDS)} SXids are known",
        )
    if as_json:
        print_json(answer)
        return
    print_lines(_written(answer))


def _xid(code: int) -> dict[str, object]:
    known = XIDS[code]
    return {
        "code": code,
        "kind": "xid",
        "meaning": known.meaning,
        "part": known.part.value,
        "remedy": known.remedy.value,
        "advice": known.advice,
        "source": _SOURCE,
        "other_tools": dict(OPINIONS.get(code, {})),
    }


def _written(answer: dict[str, object]) -> list[str]:
    others = answer.pop("other_tools", {})
    lines = [f"{str(answer.pop('kind')).capitalize()} {answer.pop('code')}"]
    lines += [f"  {key:8} {value}" for key, value in answer.items()]
    if isinstance(others, dict) and others:
        lines += [
            "What other tools make of it",
            *(f"  {key}: {said}" for key, said in others.items()),
        ]
    return lines
