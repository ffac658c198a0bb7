"""What `scripts/fuzz_rules.py` feeds to the reader of rule files."""

from __future__ import annotations

from rule_texts import EVERYTHING, must_hold
from steward.store.rules import examine_text
from steward.store.rules.language.fields import MAPPINGS

SUFFIXES = (".yaml", ".yml")
SEEDS = (EVERYTHING.encode(),)
PIECES = (
    *sorted({f"{name}: ".encode() for shape in MAPPINGS.values() for name in shape.fields}),
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"- ",
        b"? ",
        b": ",
        b"\n",
        b"\n  ",
        b"|\n",
    ),
    *(b"---\n", b"!!str ", b"!x ", b"'", b'"', b"~", b"-1s", b"1e999", b"9" * 40, b"\t", b"\0"),
    *(
        b"\xff",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xed\xa0\x80",
        b"\r",
        b"%",
        b"@",
        b"`",
        b"#",
        b"[" * 70,
    ),
)


def one_case(data: bytes) -> None:
    """Read one text both ways; anything but rules or faults is raised."""
    text = data.decode("utf-8", "surrogateescape")
    for lenient in (False, True):
        must_hold(examine_text(text, file="f", lenient=lenient, user=lenient))
