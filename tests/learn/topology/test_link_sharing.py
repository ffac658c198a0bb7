from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fabric_scenes import GB
from steward.learn.topology.link_sharing import SHARING_SLOWDOWN, LinkSharing
from steward.model.fabric.shapes import leaf_spine
from steward.model.fabric.view import ApplicationColumns, FabricView, LinkColumns, UseColumns
from steward.model.forecast import About, ForecastColumn

TOPOLOGY = leaf_spine(leaves=2, nodes_per_leaf=2, spines=1, bytes_per_s=10 * GB)


def view(*shares: float, slowdown: float = np.nan) -> FabricView:
    """Return jobs that all send over the uplink of leaf 0 for such shares of their time."""
    n = len(shares)
    link = TOPOLOGY.link_row["leaf0>spine0"]
    unknown = np.full(n, np.nan)
    columns = dict.fromkeys(ApplicationColumns.__dataclass_fields__, unknown)
    names = tuple(f"j{i}" for i in range(n))
    texts = {"jobs": names, "applications": names, "tenants": names}
    applications = ApplicationColumns(**{**columns, **texts})  # type: ignore[arg-type]
    capacity = TOPOLOGY.links.bytes_per_s[link]
    known = np.array(shares)
    return FabricView(
        t_s=0.0,
        topology=TOPOLOGY,
        links=LinkColumns.unknown(len(TOPOLOGY.links)),
        applications=replace(
            applications,
            communication_share=known,
            overlap_share=np.zeros(n),
            slowdown=np.full(n, slowdown),
        ),
        use=UseColumns(
            application=np.arange(n), link=np.full(n, link), bytes_per_s=known * capacity
        ),
    )


def column(estimator: LinkSharing, seen: FabricView) -> ForecastColumn:
    (found,) = estimator.predict(seen)
    return found


def test_it_predicts_before_it_has_learned_and_for_an_empty_moment() -> None:
    found = column(LinkSharing(), view(0.5, 0.5))

    assert (found.about, found.quantity) == (About.APPLICATIONS, SHARING_SLOWDOWN)
    assert (found.mid > 1.1).all()
    assert (found.low <= found.mid).all()
    assert len(column(LinkSharing(), view()).mid) == 0
    assert LinkSharing().estimate(None) == ()  # type: ignore[arg-type]


def test_a_job_whose_share_or_paths_are_unknown_gets_no_prediction() -> None:
    seen = view(0.5, np.nan, 0.5)

    assert np.isnan(column(LinkSharing(), seen).mid).tolist() == [False, True, False]


def test_a_job_alone_on_its_links_is_not_slowed() -> None:
    assert column(LinkSharing(), view(0.7)).mid.tolist() == [1.0]


def test_its_interval_comes_from_what_was_measured() -> None:
    estimator = LinkSharing()
    before = column(estimator, view(0.5, 0.5))
    for slowdown in np.linspace(1.0, 2.5, 30):
        estimator.learn(view(0.5, 0.5, slowdown=float(slowdown)), ())

    after = column(estimator, view(0.5, 0.5))

    assert after.high[0] > before.high[0]
    assert "60 measured" in after.basis


def test_its_state_is_the_same_after_saving_and_bounded() -> None:
    estimator = LinkSharing()
    for _ in range(400):
        estimator.learn(view(0.5, 0.5, slowdown=1.5), ())
    state = estimator.save_state()

    other = LinkSharing()
    other.restore_state(state)

    assert other.state_version == 1
    assert len(state["errors"]) == 512
    assert (
        column(other, view(0.4, 0.4)).high.tolist()
        == column(estimator, view(0.4, 0.4)).high.tolist()
    )
    assert column(other, view(0.5)).mid == pytest.approx([1.0])
