from __future__ import annotations

import pytest

from steward.errors import StewardError
from steward.model.hostlist import hosts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(null)", ()),
        ("gpu[17-19]", ("gpu17", "gpu18", "gpu19")),
        ("n[1,,3],login", ("n1", "n3", "login")),
        ("gpu17", ("gpu17",)),
        ("gpu[1-2],", ("gpu1", "gpu2")),  # cut after a comma
    ],
)
def test_lists_of_hosts_are_expanded(text: str, expected: tuple[str, ...]) -> None:
    assert hosts(text) == expected


def test_a_list_of_more_hosts_than_any_site_has_is_refused() -> None:
    with pytest.raises(StewardError, match="more than 100000 hosts"):
        hosts("n[0-999999]")
