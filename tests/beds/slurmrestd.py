"""A real slurmrestd beside a Slurm of `beds.slurm`: on a socket without tokens, or with JWTs."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beds.slurm import SlurmBed, listens
from patience import free_port

DAEMON = "games"  # it refuses to run as root


def jwt_conf(folder: Path) -> str:
    """Make a key in the folder of a bed, and return the lines of slurm.conf that name it."""
    key = folder / "jwt.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(32))
    return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"


@contextmanager
def rest_on_socket(bed: SlurmBed) -> Iterator[str]:
    """Run one on a Unix socket, where whoever connects acts as `DAEMON`; yield its address."""
    folder = bed.folder / "rest"
    folder.mkdir(mode=0o755)
    os.chown(folder, pwd.getpwnam(DAEMON).pw_uid, -1)
    with _running(bed, "rest_auth/local", DAEMON, f"unix:{folder}/socket"):
        bed.wait_for((folder / "socket").exists, why="slurmrestd")
        yield f"unix:{folder}/socket"
    shutil.rmtree(folder)


@contextmanager
def rest_on_port(bed: SlurmBed) -> Iterator[str]:
    """Run one on loopback that wants tokens; yield its address."""
    port = free_port()
    bed.env["SLURM_JWT"] = "daemon"  # it has no identity of its own, then
    try:
        with _running(bed, "rest_auth/jwt", "nobody", f"127.0.0.1:{port}"):
            del bed.env["SLURM_JWT"]
            bed.wait_for(lambda: listens(port), why="slurmrestd")
            yield f"http://127.0.0.1:{port}"
    finally:
        bed.env.pop("SLURM_JWT", None)


def token(bed: SlurmBed, user: str, *, file: Path, lifespan_s: int = 3600) -> Path:
    """Write a token for a user, as an administrator does."""
    file.touch(mode=0o600)
    file.write_text(bed.run("scontrol", "token", f"username={user}", f"lifespan={lifespan_s}"))
    return file


@contextmanager
def _running(bed: SlurmBed, auth: str, user: str, where: str) -> Iterator[None]:
    name = f"slurmrestd-{auth.rpartition('/')[2]}"
    conf = bed.folder / "slurm.conf"
    bed.start(name, "slurmrestd", "-a", auth, "-u", user, "-f", conf, where)
    try:
        yield
    finally:
        bed.stop(name)
