"""Finds CUDA and NVTX libraries that programs have mapped, and hangs probes on their functions.

A probe is on the file, so one look finds it for all programs; containers mostly share the host's
file. A process is looked at when it is new and then ever more rarely, since most load what they
need when they start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from steward.clients.bpf.elf import functions_in
from steward.clients.bpf.probes import Probes
from steward.clients.bpf.programs.cuda import Call, calls_of, entry, finish, spellings
from steward.errors import StewardError

__all__ = ["Libraries"]

_USUAL = tuple(
    Path(folder) / name
    for folder in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
    )
    for name in ("libcuda.so.1", "libnvToolsExt.so.1")
)
File = tuple[int, int]  # device and inode: the same file under another name is the same


class Libraries:
    """Probes on libraries, added as they are found. `found` says what became of each file."""

    def __init__(
        self,
        probes: Probes,
        sets: Iterable[str],
        *,
        proc: Path = Path("/proc"),
        usual: Iterable[Path] = _USUAL,
    ) -> None:
        self.found: dict[str, str] = {}
        self.probed = 0  # functions
        self._probes = probes
        self._calls = [call for name in sets for call in calls_of(name)]
        self._proc = proc
        self._usual = tuple(usual)
        self._programs: dict[str, tuple[int, int]] = {}  # entry and end, loaded when first needed
        self._seen: set[File] = set()
        self._looks: dict[str, int] = {}
        self._words = {call.library.encode() for call in self._calls}

    def look(self) -> None:
        """Look for libraries that are not probed yet."""
        if not self._calls:
            return
        for path in self._usual:
            self._add(path, told=str(path))
        for pid in self._due():
            for place in self._mapped(pid):
                self._add(Path(f"{self._proc}/{pid}/root{place}"), told=place)

    def _due(self) -> list[str]:
        here = [each.name for each in self._proc.iterdir() if each.name.isdecimal()]
        self._looks = {pid: self._looks.get(pid, 0) + 1 for pid in here}
        return [pid for pid, looks in self._looks.items() if looks & (looks - 1) == 0]

    def _mapped(self, pid: str) -> set[str]:
        try:
            text = (self._proc / pid / "maps").read_bytes()
        except OSError:  # it has ended
            return set()
        if not any(word in text for word in self._words):
            return set()
        paths = {line.split(maxsplit=5)[-1] for line in text.splitlines() if b"/" in line}
        return {
            path.decode(errors="surrogateescape")
            for path in paths
            if any(path.rpartition(b"/")[2].startswith(word) for word in self._words)
        }

    def _add(self, path: Path, *, told: str) -> None:
        try:
            about = path.stat()
        except OSError:
            return
        file = about.st_dev, about.st_ino
        if file in self._seen:
            return
        self._seen.add(file)
        calls = [call for call in self._calls if Path(told).name.startswith(call.library)]
        try:
            count = sum(self._hang(call, path) for call in calls)
        except StewardError as fault:
            self.found[told] = fault.problem
        else:
            self.probed += count
            self.found[told] = f"{count} functions probed"

    def _hang(self, call: Call, path: Path) -> int:
        wanted = [name for function in call.functions for name in spellings(function)]
        places = set(functions_in(path, wanted).values())  # two names may be one function
        for place in places:
            begin, end = self._loaded(call)
            self._probes.attach_to(begin, str(path), place, returning=False)
            if call.timed:
                self._probes.attach_to(end, str(path), place, returning=True)
        return len(places)

    def _loaded(self, call: Call) -> tuple[int, int]:
        if call.name not in self._programs:
            kit = self._probes.kit
            begin = self._probes.probe(entry(kit, call))
            end = self._probes.probe(finish(kit, call)) if call.timed else -1
            self._programs[call.name] = begin, end
        return self._programs[call.name]
