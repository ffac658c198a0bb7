import numpy as np
import pytest

from steward.errors import StewardError
from steward.model.planning.carbon import CarbonSeries, IssuedForecasts


def test_a_series_ends_an_hour_after_its_last_one_began() -> None:
    found = CarbonSeries(region="A", begin_s=7200.0, grams=np.ones(3))

    assert found.end_s == 7200.0 + 3 * 3600.0


@pytest.mark.parametrize("grams", [-1.0, float("nan"), float("inf")])
def test_an_intensity_that_is_none_is_refused(grams: float) -> None:
    with pytest.raises(StewardError, match="negative or no number"):
        CarbonSeries(region="A", begin_s=0.0, grams=np.array([1.0, grams]))


@pytest.mark.parametrize("issued", [[2, 1], [1, 1], [1]])
def test_forecasts_out_of_order_are_refused(issued: list[int]) -> None:
    with pytest.raises(StewardError, match="hours of issue"):
        IssuedForecasts(issued_h=np.array(issued), grams=np.ones((2, 4)))
