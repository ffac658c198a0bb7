"""A loader that keeps maps in dictionaries and accepts every object, for tests without root."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from steward.clients.bpf.loader import BpfMap, KernelTypes, ProbeSettings
from steward.errors import StewardError

SHARED_MAPS = ("slots", "free_slots", "rows", "notes", "calls", "tasks")


class FakeMap:
    """Implements `BpfMap`: elements, a stack or memory, whichever is used."""

    def __init__(self) -> None:
        self.elements: dict[bytes, bytes] = {}
        self.stack: list[bytes] = []
        self.shared: bytearray | None = None
        self.is_open = True

    def memory(self, size: int) -> bytearray:
        if self.shared is None:
            self.shared = bytearray(size)
        return self.shared

    def update(self, key: bytes, value: bytes) -> None:
        if key:
            self.elements[key] = value
        else:
            self.stack.append(value)

    def delete(self, key: bytes) -> None:
        self.elements.pop(key, None)

    def items(self, *, key: int, value: int, entries: int) -> dict[bytes, bytes]:
        return dict(self.elements)

    def close(self) -> None:
        assert self.is_open
        self.is_open = False


class FakeObject:
    """Implements `LoadedObject`. Its maps are those that it shares, and new ones for the rest."""

    def __init__(
        self, name: str, shared: Mapping[str, BpfMap], *, kind: type[FakeMap], refuses: bool
    ) -> None:
        self.name = name
        self.maps = {each: shared.get(each) or kind() for each in SHARED_MAPS}
        self.new_maps = [each for key, each in self.maps.items() if key not in shared]
        self.refuses = refuses
        self.attached: list[str] = []
        self.uprobes: list[tuple[str, int, bool]] = []
        self.runs: list[str] = []
        self.is_open = True

    def attach(self, programs: Collection[str]) -> None:
        if self.refuses:
            raise StewardError(f"cannot attach {self.name}: Permission denied")
        self.attached.extend(programs)

    def attach_uprobe(self, program: str, path: str, offset: int, *, at_return: bool) -> None:
        self.uprobes.append((program, offset, at_return))

    def run(self, program: str) -> None:
        assert self.is_open
        self.runs.append(program)

    def costs(self) -> dict[str, tuple[int, int]]:
        return {self.name: (0, 0)}

    def close(self) -> None:
        assert self.is_open
        self.is_open = False


class FakeLoader:
    """Implements `Loader` for a kernel with these tracepoints and cgroup controllers.

    Objects in `refuses` cannot be loaded, those in `refuses_to_attach` cannot be attached.
    """

    def __init__(
        self,
        *,
        tracepoints: Mapping[str, int] | None = None,
        refuses: Collection[str] = (),
        refuses_to_attach: Collection[str] = (),
        problem: StewardError | None = None,
        damaged_types: bool = False,
        shared_maps: type[FakeMap] = FakeMap,
    ) -> None:
        self.tracepoints = {"page_fault_user": 3} if tracepoints is None else tracepoints
        self.refuses = refuses
        self.refuses_to_attach = refuses_to_attach
        self.problem = problem
        self.damaged_types = damaged_types
        self.shared_maps = shared_maps
        self.objects: list[FakeObject] = []
        self.settings: ProbeSettings | None = None

    def obstacle(self) -> StewardError | None:
        return self.problem

    def types(self, tracepoints: Collection[str]) -> KernelTypes:
        if self.damaged_types:
            raise StewardError("cannot read the kernel's types in vmlinux: Invalid argument")
        known = {name: count for name, count in self.tracepoints.items() if name in tracepoints}
        return KernelTypes(arguments=known, controllers={"memory": 4})

    def load(
        self, name: str, code: bytes, *, settings: ProbeSettings, maps: Mapping[str, BpfMap]
    ) -> FakeObject:
        assert code.startswith(b"\x7fELF")
        if name in self.refuses:
            raise StewardError(f"the kernel refuses {name}: Permission denied")
        self.settings = settings
        loaded = FakeObject(
            name, maps, kind=self.shared_maps, refuses=name in self.refuses_to_attach
        )
        self.objects.append(loaded)
        return loaded

    def leftovers(self) -> list[object]:
        """Return what was loaded and not closed."""
        maps = [each for loaded in self.objects for each in loaded.new_maps]
        return [each for each in (*self.objects, *maps) if each.is_open]  # type: ignore[attr-defined]
