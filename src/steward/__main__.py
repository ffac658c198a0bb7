"""`python -m steward`: the command line, where the `steward` script is not on the path."""

from __future__ import annotations

from steward.cli import main

if __name__ == "__main__":
    main()
