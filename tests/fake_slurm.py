"""Slurm's commands as small scripts that print what real ones printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steward.clients.slurm.program import SEPARATOR

DATA = Path(__file__).parent / "data"
_DELIMITER = "for each; do case $each in --delimiter=*) d=${each#*=};; esac; done;"


def as_asked(text: bytes) -> bytes:
    """Return recorded columns with the separator that steward asks for in this process."""
    return text.replace(b"\x1f", SEPARATOR.encode())


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
        self.accounting(
            "bed|root||||1|||normal",
            "bed|root|root|||1|||normal",
            "bed|bio|||root|30|||normal",
            "bed|vision|||root|10|||normal",
            "bed|bio|ada|||1|||normal",
        )

    def accounting(self, *associations: str, qos: Sequence[str] = ("normal|",)) -> None:
        """Let sacctmgr list these associations and QOS."""
        for name, lines in (("assoc", associations), ("qos", qos)):
            (self.folder / f"sacctmgr-{name}.txt").write_text("\n".join(lines) + "\n")
        self.command("sacctmgr", f'cat {self.folder}/sacctmgr-"$4".txt')

    def recorded(self, name: str) -> bytes:
        return (DATA / f"slurm-{self.version}" / name).read_bytes()

    def squeue_prints(self, text: bytes) -> None:
        (self.folder / "squeue.txt").write_bytes(as_asked(text))
        script = (
            f'[ "$1" = --version ] && echo "slurm {self.version}" || cat {self.folder}/squeue.txt'
        )
        self.command("squeue", script)

    def controller(self, *, columns: bytes | None = None) -> None:
        """Answer as a controller does: a ping, the configuration, jobs in columns; note calls."""
        text = self.recorded("squeue-columns.txt") if columns is None else columns
        (self.folder / "columns.txt").write_bytes(as_asked(text))
        (self.folder / "config.txt").write_bytes(self.recorded("config.txt"))
        here = self.folder
        self.command("squeue", f"cat {here}/columns.txt")
        self.command(
            "scontrol",
            f"""printf '%s\\n' "$*" >> {here}/calls
case "$1 $2" in
ping*) echo 'Slurmctld(primary) at bed is UP';;
--version*) echo 'slurm 22.05.8';;
"show config") cat {here}/config.txt;;
esac""",
        )

    def counts_squeue(self) -> None:
        """Note each call of squeue."""
        self.command("squeue", f"echo >> {self.folder}/looks; cat {self.folder}/columns.txt")

    def looks(self) -> int:
        """Return how often squeue was called."""
        path = self.folder / "looks"
        return path.read_text().count("\n") if path.exists() else 0

    def calls(self) -> list[str]:
        """Return the arguments of scontrol's calls that are no pings."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line not in ("ping", "show config", "--version")]

    def prints(self, program: str, text: bytes) -> None:
        if program == "sacct":  # it is told what separates columns
            (self.folder / "sacct.txt").write_bytes(text)
            print_it = f'sed "s/$(printf "\\037")/$d/g" {self.folder}/sacct.txt'
            self.command("sacct", f'echo "$*" >> {self.folder}/past-looks; {_DELIMITER} {print_it}')
            return
        (self.folder / f"{program}.txt").write_bytes(as_asked(text))
        self.command(program, f"cat {self.folder}/{program}.txt")

    def command(self, program: str, script: str) -> None:
        path = self.folder / program
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
