"""What a site may add to its Slurm for the convenience of its users; nothing depends on it."""

from __future__ import annotations

from importlib import resources

__all__ = ["OPTIONAL_LINES", "cli_filter"]

OPTIONAL_LINES = (
    ("CliFilterPlugins=cli_filter/lua", "who submits GPU jobs by sbatch alone is told of saving"),
    ("Prolog=/etc/slurm/prolog.d/*", "with deploy/slurm/prolog.sh: which job holds which GPU"),
    ("Epilog=/etc/slurm/epilog.d/*", "with deploy/slurm/epilog.sh"),
)


def cli_filter() -> str:
    """Return the text of cli_filter.lua: once `CliFilterPlugins` is set, sbatch needs it."""
    return resources.files(__package__).joinpath("cli_filter.lua").read_text()
