"""Writes deploy/grafana and deploy/prometheus from the table of metrics, roles from that of calls.

    python scripts/make_deploy.py            write the files
    python scripts/make_deploy.py --check    exit 1 and name the files that are out of date

`deploy/prometheus/tests.yml`, which tests the rules, is written by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploying.alerts import rules_file
from deploying.dashboards import dashboards
from deploying.kubernetes import kubernetes_files

FOLDER = Path(__file__).parent.parent / "deploy"
NOTE = "# Written by scripts/make_deploy.py; change the code instead.\n"
SCRAPE = """\
# An example: steward itself, and the rules beside this file. `steward token new prometheus --role
# viewer` makes the token.
global:
  scrape_interval: 15s
  evaluation_interval: 15s

rule_files:
  - steward.rules.yml

scrape_configs:
  - job_name: steward
    # With values of a thousand GPUs, a scrape is some megabytes.
    scrape_timeout: 10s
    authorization:
      credentials_file: /etc/prometheus/steward.token
    static_configs:
      - targets: ["127.0.0.1:8787"]
  # Gateways in front of model servers; `steward serve key` makes the key, if they want one.
  - job_name: steward-gateway
    static_configs:
      - targets: ["127.0.0.1:8788"]
"""


def main(args: Sequence[str]) -> int:
    """Write the files, or say which are stale."""
    parser = argparse.ArgumentParser(description="Write deploy/ from the table of metrics.")
    parser.add_argument("--check", action="store_true", help="only say which files are stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    given = parser.parse_args(args)
    stale = []
    for name, text in files().items():
        file = given.folder / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not given.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    said = "out of date, run `make docs`" if given.check else "written"
    print("\n".join(f"{name}: {said}" for name in stale) or "deploy is up to date")
    return 1 if stale and given.check else 0


def files() -> dict[str, str]:
    """Return every file by its path below deploy/."""
    return {
        **{f"grafana/{name}": text for name, text in dashboards().items()},
        "prometheus/steward.rules.yml": NOTE + rules_file(),
        "prometheus/prometheus.yml": NOTE + SCRAPE,
        **{name: NOTE + text for name, text in kubernetes_files().items()},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
