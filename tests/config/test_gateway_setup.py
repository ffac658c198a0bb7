"""What the command line and a file make of a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steward.config import read_settings
from steward.config.gateway_setup import GatewayOptions, gateway_setup
from steward.config.settings import Settings
from steward.errors import StewardError

FILE = """
[gateway]
policy = "fcfs"
[upstreams.a]
url = "http://127.0.0.1:8000"
models = ["m"]
role = "batch"
[deadline_classes.chat]
ttft_s = 2.0
"""


def setup(file: str = "", tmp_path: Path | None = None, **options: Any) -> Any:
    settings = Settings()
    if tmp_path is not None:
        path = tmp_path / "steward.toml"
        path.write_text(file)
        settings = read_settings(path, {})
    return gateway_setup(settings, GatewayOptions(**options))


def test_urls_alone_make_a_gateway_with_two_classes() -> None:
    found = setup(upstreams=("http://127.0.0.1:1", "127.0.0.1:2"), limit=7)

    urls = {name: (each.url, each.limit) for name, each in found.upstreams.items()}
    assert urls == {
        "upstream-1": ("http://127.0.0.1:1", 7),
        "upstream-2": ("http://127.0.0.1:2", 7),
    }
    assert [each.name for each in found.classes] == ["interactive", "batch"]


def test_the_command_line_wins_over_the_file_and_adds_to_it(tmp_path: Path) -> None:
    found = setup(
        FILE,
        tmp_path,
        upstreams=("http://127.0.0.1:9",),
        classes=("gold:ttft_s=0.5,rank=-1", "chat:itl_s=0.1"),
        settings={"policy": "edf", "port": None},
    )

    assert found.settings.policy == "edf"
    assert found.settings.port == 8788
    assert list(found.upstreams) == ["a", "upstream-2"]
    promises = {each.name: (each.rank, each.ttft_s, each.itl_s) for each in found.classes}
    assert promises == {"chat": (0, None, 0.1), "gold": (-1, 0.5, None)}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"classes": ("chat:ttft=1",)}, "no promise called 'ttft'"),
        ({"classes": ("chat:ttft_s=soon",)}, "'chat:ttft_s=soon' is not a class"),
        ({"classes": ("chat:ttft_s=-1",)}, "is not a class"),
        ({"classes": (":ttft_s=1",)}, "is not a class"),
        ({"upstreams": ("ftp://x",)}, "'ftp://x' is not an address"),
        ({"upstreams": ("http://10.0.0.1",)}, "plain HTTP to another machine"),
        ({"settings": {"host": "0.0.0.0"}}, "there is no certificate"),  # noqa: S104
        (
            {"settings": {"host": "0.0.0.0", "plain_http": True}},  # noqa: S104
            "there are no API keys",
        ),
        ({"settings": {"default_class": "gold"}}, "no class called 'gold'"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        setup(**options)


def test_mistakes_in_the_tables_are_named_with_their_lines(tmp_path: Path) -> None:
    wrong = FILE.replace('role = "batch"', 'role = "bach"').replace("url =", "ur =")

    with pytest.raises(StewardError) as caught:
        setup(wrong, tmp_path)

    text = str(caught.value)
    assert "[upstreams.a] lacks the key 'url'" in text
    assert "upstreams.a.role is 'bach', not one of any, interactive, batch" in text
    assert "steward.toml:7" in text
