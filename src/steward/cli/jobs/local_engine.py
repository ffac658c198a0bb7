"""Jobs of the steward that runs on this machine, through its API."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steward.cli.jobs.asking import NUMBERED, ask_job, service, there
from steward.cli.jobs.engines import SubmitRequest, Submitted, refuse_images
from steward.cli.jobs.submission import body_of
from steward.cli.options import read_settings
from steward.clients.job_logs import JobLog, LogPart
from steward.errors import StewardError

__all__ = ["LocalEngine"]

_SHOWN = (
    "name", "gpus", "slots", "cpus", "memory_bytes", "time_limit_s", "indices",
    "max_slowdown_share", "output",
)  # fmt: skip
_WITHOUT_MEANING = ("partition", "account", "qos", "nodes", "ntasks")


class LocalEngine:
    """The steward of this machine."""

    slowest_poll_s = 2.0  # a person may make 600 requests a minute, with all that they watch
    job_id = NUMBERED

    def __init__(self, config: Path | None, data: Path | None) -> None:
        self._config, self._data = config, data

    def submit(self, request: SubmitRequest, *, dry_run: bool) -> Submitted:
        if request.sbatch or request.as_is or request.inside or "saves" in request.given:
            problem = "--sbatch, --as-is, --inside and --saves are for Slurm"
            raise StewardError(problem, where="--engine local", hint="leave them out")
        refuse_images(request, "local")
        named = {key: x for key, x in request.given.items() if key not in _WITHOUT_MEANING}
        body, options, ignored = body_of(request.command, named, as_command=request.as_command)
        ignored = (*ignored, *(key for key in request.given if key not in named))
        wait = "wait" in options
        if dry_run:
            return Submitted(record=body, lines=_plan_lines(body), ignored=ignored, wait=wait)
        made = self._answer(service(self._config, self._data).post("jobs", body=body))
        return Submitted(record=made, ignored=ignored, wait=wait)

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]:
        query = {"limit": limit, "ended": ended}
        found: list[dict[str, Any]] = self._answer(self._get("jobs", query=query))
        return found

    def show(self, job: str) -> dict[str, Any]:
        return ask_job(job, config=self._config, data=self._data)

    def status(self, job: str) -> int | None:
        code = self.show(job)["exit_code"]
        return None if code is None else int(code)

    def log(self, job: str) -> JobLog:
        return _LocalLog(
            lambda offset: self._answer(self._get("jobs", job, "log", query={"offset": offset})),
            where=f"job {job}",
        )

    def why(self, job: str) -> dict[str, Any]:
        return ask_job(job, "why", config=self._config, data=self._data)

    def cost(self, job: str | None, *, limit: int) -> dict[str, Any]:
        if job is not None:
            return ask_job(job, "cost", config=self._config, data=self._data)
        return dict(self._answer(self._get("jobs", "cost", query={"limit": limit})))

    def change(self, job: str, what: str, body: dict[str, Any]) -> dict[str, Any]:
        _check_possible(what)
        sent = service(self._config, self._data).post("jobs", job, what, body=body)
        return dict(self._answer(sent))

    def planned_change(
        self, job: str, what: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        _check_possible(what)
        socket = read_settings(self._config, self._data).socket_path
        url = f"http://localhost/api/v1/jobs/{job}/{what}"
        sent = json.dumps(body).replace("'", r"'\''")
        kind = "-H 'content-type: application/json'"
        record = {"method": "POST", "socket": str(socket), "url": url, "body": body}
        return record, [f"curl --unix-socket {socket} {kind} -d '{sent}' {url}"]

    def _get(self, *path: str, query: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
        return service(self._config, self._data).get(*path, query=query)

    def _answer(self, answer: Any) -> Any:  # noqa: ANN401 - JSON
        return there(answer, self._config, self._data)


class _LocalLog:
    """The log that steward keeps of a job: one file, to which each run appends."""

    def __init__(self, ask: Callable[[int], dict[str, Any]], *, where: str) -> None:
        self._ask, self._where = ask, where
        self._offset = 0

    def read(self) -> LogPart:
        part = self._ask(self._offset)
        if part["text"] is None:
            problem = f"its output goes to {part['path']}"
            raise StewardError(problem, where=self._where, hint="read it there")
        emptied, self._offset = part["offset"] < self._offset, part["offset"]
        note = f"{part['path']} was emptied: from its new beginning" if emptied else ""
        return LogPart(text=part["text"], over=part["over"], note=note)


def _check_possible(what: str) -> None:
    if what == "extend":
        hint = "submit it again with another --time"
        problem = "the time limit of a job of this machine is fixed when it is submitted"
        raise StewardError(problem, where=f"steward jobs {what}", hint=hint)


def _plan_lines(body: dict[str, Any]) -> list[str]:
    what = shlex.join(body["argv"]) if not body["script"] else f"script {shlex.join(body['argv'])}"
    lines = [f"cd {shlex.quote(body['folder'])}", what]
    return [*lines, *(f"# {key}: {body[key]}" for key in _SHOWN if body[key])]
