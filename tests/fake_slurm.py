"""Slurm's commands as small scripts that print what real ones printed."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


class FakeSlurm:
    """A folder of commands. Each can be made to say something else, to fail, or to hang."""

    def __init__(self, folder: Path, *, version: str = "22.05") -> None:
        self.folder = folder
        self.version = version
        self.squeue_prints(self.recorded("squeue.json"))
        if version == "22.05":
            self.command("scontrol", "echo \"scontrol: unrecognized option '--json'\" >&2; exit 1")
            self.prints("sinfo", self.recorded("sinfo.json"))
            self.prints("sacct", self.recorded("sacct.txt"))
        else:
            self.prints("scontrol", self.recorded("nodes.json"))
            self.command(
                "sacct", "echo 'sacct: error: Slurm accounting storage is disabled' >&2; exit 1"
            )
        self.prints("sacctmgr", b"root||1\nroot|root|1\nbio||30\nvision||10\nbio|ada|1\n")

    def recorded(self, name: str) -> bytes:
        return (DATA / f"slurm-{self.version}" / name).read_bytes()

    def squeue_prints(self, text: bytes) -> None:
        (self.folder / "squeue.txt").write_bytes(text)
        script = (
            f'[ "$1" = --version ] && echo "slurm {self.version}" || cat {self.folder}/squeue.txt'
        )
        self.command("squeue", script)

    def prints(self, program: str, text: bytes) -> None:
        (self.folder / f"{program}.txt").write_bytes(text)
        self.command(program, f"cat {self.folder}/{program}.txt")

    def command(self, program: str, script: str) -> None:
        path = self.folder / program
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
