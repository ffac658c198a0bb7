"""A small log is read without compiling, with the same result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from steward.cli.app import app

ASK = """
import sys
sys.argv = ["steward", "rules", "run", *sys.argv[1:], "--json"]
from steward.cli import main
try:
    main()
finally:
    from steward.compiled import is_plain
    print("plain" if is_plain() else "compiled", file=sys.stderr)
"""
RULE = """
rules:
  - metadata: {id: abcdefghijkmn, hash: abcdefghijkmn}
    cre: {id: FIRST-1, severity: 1, title: first}
    rule:
      sequence: {event: {source: cre.log.x}, window: 5s, order: [{regex: "o[nm]e"}, "two"]}
"""
LOG = """2025-06-01T02:00:01.25+02:00 one
2025-06-01T00:00:02Z two
  indented
2025-06-01T00:00:10.5Z one more
2025-06-01T05:30:12.75+05:30 two
"""


def test_a_small_log_is_read_without_compiling_and_with_the_same_findings(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule.yaml").write_text(RULE)
    log = tmp_path / "x.log"
    log.write_text(LOG)
    named = [str(log), "--rules", str(tmp_path / "rules")]

    first = subprocess.run(
        [sys.executable, "-W", "error", "-c", ASK, *named],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "nothing-yet")},
        capture_output=True,
        text=True,
        check=False,
    )
    later = CliRunner().invoke(app, ["rules", "run", *named, "--json"])

    assert first.stderr.split()[-1] == "plain"
    plain, compiled = json.loads(first.stdout), json.loads(later.stdout)
    assert [each["hits"] for each in plain["findings"]] == [2]
    assert plain | {"seconds": 0} == compiled | {"seconds": 0}
