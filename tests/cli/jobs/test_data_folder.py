"""Members of `access.group` may pass the store folder and not read it (mode 0710)."""

from __future__ import annotations

from typing import get_args

from steward.cli.options import Data


def test_a_store_folder_that_can_only_be_passed_may_be_named() -> None:
    _, option = get_args(Data)

    assert not option.readable
