"""`steward report` and `steward findings`: what was noticed, and what it was worth."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import finding, outcome
from steward.cli.views.chart import chart
from steward.documents import Axis
from steward.model.finding import Severity
from steward.store.journal import open_journal
from steward.store.journal_summary import CurvePoint
from told import T_S, steward, told


def test_the_report_has_every_figure_with_its_range(tmp_path: Path) -> None:
    answer = steward("report", "--data", told(tmp_path))

    table = [line.split() for line in answer.out.splitlines()[:5]]
    assert answer.code == 0
    assert table[0] == ["saved", "amount", "from", "to", "unit"]
    assert table[1] == ["GPU", "time", "0.71", "0.702", "0.718", "GPU-hours"]
    assert [row[0] for row in table[1:]] == ["GPU", "money", "energy", "carbon"]
    assert "a GPU-hour costs 2.5 USD" in answer.out
    assert "1 outcomes of 1 decisions" in answer.out
    assert "  1 waiting" in answer.out


def test_the_report_uses_the_sites_own_assumptions(tmp_path: Path) -> None:
    answer = steward(
        "report", "--data", told(tmp_path), "--json", STEWARD_SAVINGS__PRICE_PER_GPU_HOUR="10"
    )

    assert answer.json["cost"]["mid"] == pytest.approx(7.1)
    assert answer.json["assumptions"]["price_per_gpu_hour"] == 10.0


def test_the_report_as_json_has_the_words_of_the_api(tmp_path: Path) -> None:
    found = steward("report", "--data", told(tmp_path), "--json").json

    for name in ("gpu_hours", "cost", "energy_kwh", "co2_kg"):
        assert found[name]["low"] <= found[name]["mid"] <= found[name]["high"]
    assert found["states"]["done"] == 1
    assert found["findings"][0]["id"] == "f-j1"


def test_each_kind_of_decision_has_a_row_and_a_year_is_marked_as_projected(tmp_path: Path) -> None:
    answer = steward("report", "--data", told(tmp_path), "--html", tmp_path / "r.html")
    found = steward("report", "--data", tmp_path, "--json").json

    assert [each["kind"] for each in found["by_kind"]] == ["lend"]
    assert found["by_kind"][0]["gpu_hours"]["mid"] == found["gpu_hours"]["mid"]
    assert found["projection"] is None
    assert "none before 7 whole days were measured" in answer.out
    assert "Projected, not measured" in (tmp_path / "r.html").read_text(encoding="utf-8")


def carbon(folder: Path, *rows: str) -> Path:
    file = folder / "carbon.csv"
    file.write_text("\n".join(["region,hour_utc,grams_per_kwh", *rows]), encoding="utf-8")
    return file


HOURS = [f"1970-01-01 {hour:02}:00:00,100" for hour in range(24)]


def test_carbon_is_that_of_the_hours_of_a_file(tmp_path: Path) -> None:
    file = carbon(tmp_path, *[f"DE,{each}" for each in HOURS])
    store = told(tmp_path)

    plain = steward("report", "--data", store, "--json").json["by_kind"][0]
    hourly = steward("report", "--data", store, "--json", STEWARD_SAVINGS__CARBON=str(file)).json
    text = steward("report", "--data", store, STEWARD_SAVINGS__CARBON=str(file)).out

    found = hourly["by_kind"][0]
    assert found["hourly_share"] == pytest.approx(1.0)
    assert found["co2_kg"]["mid"] == pytest.approx(plain["co2_kg"]["mid"] / 4)
    assert "for 100% of the energy" in text


def test_a_file_of_several_regions_needs_one_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    file = carbon(tmp_path, *[f"{region},{each}" for region in ("DE", "FR") for each in HOURS])
    store, environment = told(tmp_path), {"STEWARD_SAVINGS__CARBON": str(file)}

    none = steward("report", "--data", store, **environment)
    wrong = steward("report", "--data", store, STEWARD_SAVINGS__REGION="DEE", **environment)
    right = steward("report", "--data", store, STEWARD_SAVINGS__REGION="FR", **environment)

    assert (none.code, wrong.code, right.code) == (2, 2, 0)
    assert "set savings.region to one of them: DE, FR" in none.err
    assert "did you mean 'DE'?" in wrong.err


def test_the_report_of_a_demo_is_marked_as_simulated_everywhere(tmp_path: Path) -> None:
    told(tmp_path)
    real = steward("report", "--data", tmp_path, "--html", tmp_path / "real.html")
    (tmp_path / "simulated").write_text("demo")

    demo = steward("report", "--data", tmp_path, "--html", tmp_path / "demo.html")

    assert "simulated" not in real.out
    assert "simulated: figures of a demo, not of a real cluster" in demo.out
    assert "simulated: figures" not in (tmp_path / "real.html").read_text(encoding="utf-8")
    assert "simulated: figures" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    account = steward("report", "--data", tmp_path, "--json").json
    assert (account["simulated"], account["site"]) == (True, "demo")


def test_the_report_lists_faults_before_newer_waste(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    fault = replace(finding("fault"), severity=Severity.FAULT, t_s=1.0)
    journal.append([fault, *(finding(f"j{n}", since_s=float(n)) for n in range(300))])
    journal.close()

    found = steward("report", "--data", tmp_path, "--json").json["findings"]

    assert [each["subject"] for each in found[:3]] == ["fault", "j0", "j1"]


class Page(HTMLParser):
    """Collects what a page shows, and what it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [str(v) for name, v in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_by_itself_and_says_it_all(tmp_path: Path) -> None:
    file = tmp_path / "report.html"

    answer = steward("report", "--data", told(tmp_path), "--html", file)

    page = Page(file.read_text(encoding="utf-8"))
    assert f"the page is in {file}" in answer.out
    assert page.loads == []
    assert "script" not in page.tags
    assert "svg" in page.tags
    for part in (
        "0.71 ",
        "GPU-hours",
        "0.702 to 0.718",
        "2.5 USD",
        "j1 is idle",
        "waiting",
        "150 W",
    ):
        assert part in page.text, part
    assert "prefers-color-scheme: dark" in page.text


def test_the_page_of_a_new_journal_says_that_there_is_nothing_yet(tmp_path: Path) -> None:
    open_journal(f"sqlite:///{tmp_path}/journal.sqlite3").close()
    file = tmp_path / "report.html"

    answer = steward("report", "--data", tmp_path, "--html", file)

    assert answer.code == 0
    assert "There are no outcomes to draw yet." in file.read_text(encoding="utf-8")


def test_text_from_elsewhere_cannot_change_the_page(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([finding("<script>alert(1)</script>")])
    journal.close()
    file = tmp_path / "report.html"

    steward("report", "--data", tmp_path, "--html", file, STEWARD_SITE__NAME="<b>&'\"")

    page = Page(file.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text


def test_a_page_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    answer = steward("report", "--data", told(tmp_path), "--html", tmp_path / "no" / "r.html")

    assert answer.code == 2
    assert "the report cannot be written: no such file or directory" in answer.err
    assert not (tmp_path / "no").exists()


def test_findings_are_listed_newest_first(tmp_path: Path) -> None:
    answer = steward("findings", "list", "--data", told(tmp_path))

    header, line = answer.out.splitlines()
    assert header.split() == ["id", "noticed", "severity", "subject", "title"]
    assert line.startswith("f-j1  20")
    assert line.endswith("ago)  waste     n1/gpu0  j1 is idle")


def test_findings_as_json_have_their_evidence(tmp_path: Path) -> None:
    (found,) = steward("findings", "list", "--data", told(tmp_path), "--json").json

    assert found["t_s"] == T_S
    assert found["evidence"][0]["metric"] == "gpu.busy_share"


def test_control_characters_of_others_do_not_reach_the_terminal(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([finding("job\x1b[31m\nred")])
    journal.close()

    answer = steward("findings", "list", "--data", tmp_path)

    assert "\x1b" not in answer.out
    assert len(answer.out.splitlines()) == 2


def test_outcomes_without_a_known_decision_still_count(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([outcome("d-1", gained=3600.0), outcome("d-1", gained=3600.0, t_s=1700.0)])
    journal.close()

    found = steward("report", "--data", tmp_path, "--json").json

    assert found["gpu_hours"]["mid"] == pytest.approx(2.0)
    assert found["outcomes"] == 2


# -- the chart ---------------------------------------------------------------------------------

FIGURES = st.floats(-1e6, 1e6)


@given(
    points=st.lists(
        st.builds(
            lambda t_s, mid, half: CurvePoint(t_s=t_s, low=mid - half, mid=mid, high=mid + half),
            st.floats(0, 4e9),
            FIGURES,
            st.floats(0, 1e5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_whatever_is_drawn_stays_inside_of_the_picture(points: list[CurvePoint]) -> None:
    points.sort(key=lambda each: each.t_s)

    drawn = chart(points, title="x")

    lines = " ".join(re.findall(r'points="([^"]*)"', drawn))
    pairs = re.findall(r"(-?[\d.]+),(-?[\d.]+)", lines)
    assert len(pairs) == 3 * len(points)
    assert all(0 <= float(x) <= 720 and 0 <= float(y) <= 260 for x, y in pairs)


@given(low=FIGURES, size=st.floats(1e-3, 1e6))
def test_ticks_are_within_the_range_and_not_too_many(low: float, size: float) -> None:
    found = Axis(low=low, high=low + size, from_px=0, to_px=1).ticks()

    assert len(found) <= 6
    assert all(low - 1e-6 <= tick <= low + size + 1e-6 for tick in found)
