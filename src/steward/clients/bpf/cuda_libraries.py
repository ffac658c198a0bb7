"""Finds CUDA and NVTX libraries that processes have mapped, and attaches probes to their functions.

A probe is on the file, so it counts for all processes that map it; containers mostly share the
host's file. A process's maps are read when it is new and then ever more rarely, since most load
what they need when they start. A probe costs the process a trap (about a microsecond) per call, so
launches, of which there are tens of thousands a second, are a set of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from steward.clients.bpf.elf import functions_in
from steward.clients.bpf.probes import Probes
from steward.errors import StewardError

__all__ = ["CUDA_CALLS", "CudaCall", "CudaLibraries"]

_USUAL_PATHS = tuple(
    Path(folder) / name
    for folder in (
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
    )
    for name in ("libcuda.so.1", "libnvToolsExt.so.1")
)
_SUFFIXES = ("", "_v2", "_v3", "_ptds", "_ptsz", "_v2_ptds", "_v2_ptsz")  # versions, stream kinds
FileId = tuple[int, int]  # device and inode: the same file under another name is the same


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaCall:
    """One kind of call: the functions that make it, and the program of `cuda.bpf.c` that counts."""

    program: str  # with `_end` added, the one that runs when the function returns
    library: str  # how the name of the file begins
    functions: tuple[str, ...]
    probe_set: str = "cuda"
    timed: bool = False


_CUDA, _NVTX = "libcuda.so", "libnvToolsExt.so"
CUDA_CALLS = (
    CudaCall(
        program="cuda_launches",
        library=_CUDA,
        functions=(
            "cuLaunchKernel",
            "cuLaunchKernelEx",
            "cuLaunchCooperativeKernel",
            "cuGraphLaunch",
        ),
        probe_set="cuda-launch",
    ),
    CudaCall(
        program="cuda_copies_to_device",
        library=_CUDA,
        functions=("cuMemcpyHtoD", "cuMemcpyHtoDAsync"),
    ),
    CudaCall(
        program="cuda_copies_to_host",
        library=_CUDA,
        functions=("cuMemcpyDtoH", "cuMemcpyDtoHAsync"),
    ),
    CudaCall(
        program="cuda_copies_other",
        library=_CUDA,
        functions=("cuMemcpy", "cuMemcpyAsync", "cuMemcpyDtoD", "cuMemcpyDtoDAsync"),
    ),
    CudaCall(
        program="cuda_synchronise",
        library=_CUDA,
        functions=("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"),
        timed=True,
    ),
    CudaCall(
        program="cuda_allocations",
        library=_CUDA,
        functions=("cuMemAlloc", "cuMemAllocAsync", "cuMemAllocManaged"),
    ),
    CudaCall(program="nvtx_pushes", library=_NVTX, functions=("nvtxRangePushA",)),
    CudaCall(program="nvtx_pops", library=_NVTX, functions=("nvtxRangePop",)),
)


class CudaLibraries:
    """Probes on libraries, added as they are found. `results` has the outcome for each file."""

    def __init__(
        self,
        probes: Probes,
        *,
        proc: Path = Path("/proc"),
        usual_paths: Iterable[Path] = _USUAL_PATHS,
    ) -> None:
        self.results: dict[str, str] = {}
        self.probed = 0  # functions
        running = {each.name for each in probes.running}
        self._probes = probes
        self._calls = [call for call in CUDA_CALLS if call.probe_set in running]
        self._proc = proc
        self._usual_paths = tuple(usual_paths)
        self._seen: set[FileId] = set()
        self._scans: dict[str, int] = {}
        self._prefixes = {call.library.encode() for call in self._calls}

    def scan(self) -> None:
        """Look for libraries that are not probed yet."""
        if not self._calls:
            return
        for path in self._usual_paths:
            self._add(path, name=str(path))
        for pid in self._due():
            for mapped in self._mapped(pid):
                self._add(Path(f"{self._proc}/{pid}/root{mapped}"), name=mapped)

    def _due(self) -> list[str]:
        """Return the processes to scan: at their first, second, fourth, eighth ... turn."""
        present = [each.name for each in self._proc.iterdir() if each.name.isdecimal()]
        self._scans = {pid: self._scans.get(pid, 0) + 1 for pid in present}
        return [pid for pid, scans in self._scans.items() if scans & (scans - 1) == 0]

    def _mapped(self, pid: str) -> set[str]:
        try:
            text = (self._proc / pid / "maps").read_bytes()
        except OSError:  # it has ended
            return set()
        if not any(prefix in text for prefix in self._prefixes):
            return set()
        paths = {line.split(maxsplit=5)[-1] for line in text.splitlines() if b"/" in line}
        return {
            path.decode(errors="surrogateescape")
            for path in paths
            if any(path.rpartition(b"/")[2].startswith(prefix) for prefix in self._prefixes)
        }

    def _add(self, path: Path, *, name: str) -> None:
        try:
            about = path.stat()
        except OSError:
            return
        file = about.st_dev, about.st_ino
        if file in self._seen:
            return
        self._seen.add(file)
        calls = [call for call in self._calls if Path(name).name.startswith(call.library)]
        try:
            count = sum(self._attach(call, path) for call in calls)
        except StewardError as fault:
            self.results[name] = fault.problem
        else:
            self.probed += count
            self.results[name] = f"{count} functions probed"

    def _attach(self, call: CudaCall, path: Path) -> int:
        names = [function + suffix for function in call.functions for suffix in _SUFFIXES]
        offsets = set(functions_in(path, names).values())  # two names may be one function
        for offset in offsets:
            self._probes.attach_uprobe(call.program, str(path), offset, at_return=False)
            if call.timed:
                self._probes.attach_uprobe(f"{call.program}_end", str(path), offset, at_return=True)
        return len(offsets)
