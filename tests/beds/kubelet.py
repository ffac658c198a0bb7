"""A kubelet whose pods are real processes of this machine, with the files of their volumes.

Of volumes, those of the downward API are understood: their files follow the pod's annotations when
`refresh` is called, swapped as a whole behind a link, as kubelets do. What a process prints is the
log of its pod.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beds.kubernetes import KubeDouble

_NOTE = re.compile(r"metadata\.annotations\['([^']+)'\]")


class Kubelet:
    """Runs the command of each pod once. `folder` is the root of all pods."""

    def __init__(self, double: KubeDouble, folder: Path) -> None:
        self._double = double
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._swaps = 0

    def refresh(self) -> None:
        """Start what is new, and bring files and logs up to date."""
        for pod in self._double.all("pods"):
            name = pod["metadata"]["name"]
            if pod["status"]["phase"] != "Running":
                continue
            mounts = self._project(pod)
            if name not in self._processes:
                self._processes[name] = self._start(pod, mounts)
            self._double.logs[name] = (self._folder / name / "log").read_text()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _project(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """Write the volumes; return where each mount of the container is on this machine."""
        (container,) = pod["spec"]["containers"]
        volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
        found = {}
        for mount in container.get("volumeMounts", ()):
            place = self._folder / pod["metadata"]["name"] / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            found[mount["mountPath"]] = str(place)
            notes = pod["metadata"].get("annotations", {})
            items = volumes[mount["name"]].get("downwardAPI", {}).get("items", ())
            self._swap(place, {each["path"]: _value(each, notes) for each in items})
        return found

    def _swap(self, place: Path, files: Mapping[str, str]) -> None:
        now = {name: (place / name).read_text() for name in files if (place / name).exists()}
        if now == files:
            return
        self._swaps += 1
        fresh = place / f"..{self._swaps}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text)
            if not (place / name).is_symlink():
                (place / name).symlink_to(f"..data/{name}")
        (place / "..next").symlink_to(fresh.name)
        (place / "..next").replace(place / "..data")

    def _start(self, pod: Mapping[str, Any], mounts: Mapping[str, str]) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        folder = self._folder / pod["metadata"]["name"]
        folder.mkdir(parents=True, exist_ok=True)
        env = dict(os.environ)
        for each in container.get("env", ()):
            env[each["name"]] = _moved(each.get("value", ""), mounts)
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                container["command"], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
            )


def _value(item: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    found = _NOTE.fullmatch(item["fieldRef"]["fieldPath"])
    return notes.get(found[1], "") if found else ""


def _moved(text: str, mounts: Mapping[str, str]) -> str:
    for inside, outside in mounts.items():
        text = text.replace(inside, outside)
    return text


@contextmanager
def kubelet(double: KubeDouble, folder: Path) -> Iterator[Kubelet]:
    """Run one until the block ends."""
    made = Kubelet(double, folder)
    try:
        yield made
    finally:
        made.end()
