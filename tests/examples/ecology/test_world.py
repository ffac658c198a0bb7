"""The world of the example: arrivals, lights, animals, and what a detector makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecology.animals import BLANK, NAMES, NEWCOMER, SPECIES, draw
from ecology.captures import HEADER_BYTES, record, sent_bytes
from ecology.detector import CROP, Sighting, crop_at
from ecology.scenes import SIDE, SITES, Scene, is_night
from ecology.stream import NEWS_WEEK, Frame, Season, animal_rates, frames_of

SMALL = Season(seed=5, weeks=3, frames_per_day=60)


@pytest.fixture(scope="module")
def frames() -> list[Frame]:
    return list(frames_of(SMALL))


def test_seven_in_ten_frames_show_nothing(frames: list[Frame]) -> None:
    blank = np.mean([each.truth == BLANK for each in frames])

    assert blank == pytest.approx(0.7, abs=0.03)


def test_a_new_site_and_a_new_species_come_with_the_third_week(frames: list[Frame]) -> None:
    before = [each for each in frames if each.week < NEWS_WEEK]
    after = [each for each in frames if each.week >= NEWS_WEEK]
    new_sites = {each.site for each in after} - {each.site for each in before}

    assert new_sites == {site.name for site in SITES if site.first_week == NEWS_WEEK}
    assert NEWCOMER not in {each.truth for each in before}
    assert {each.truth for each in after} == {*NAMES, BLANK}


def test_arrivals_of_an_hour_vary_as_poisson_does(frames: list[Frame]) -> None:
    counts = np.zeros((14, 24))
    for each in frames:
        if each.week in (1, 2):
            counts[each.day, each.hour] += 1
    spread = counts.var(axis=0, ddof=1).mean() / counts.mean()

    assert spread == pytest.approx(1.0, abs=0.35)


def test_animals_come_at_their_hours() -> None:
    by_name = {each.name: animal_rates(each) for each in SPECIES}
    night = np.array([is_night(hour) for hour in range(24)])

    assert by_name["badger"][night].mean() > 2 * by_name["badger"][~night].mean()
    assert by_name["hare"][night].mean() < by_name["hare"][~night].mean() / 2


def test_frames_by_night_are_grey(frames: list[Frame]) -> None:
    grey = {bool((each.image == each.image[..., :1]).all()): is_night(each.hour) for each in frames}

    assert grey == {True: True, False: False}


def test_the_same_seed_gives_the_same_bytes(frames: list[Frame]) -> None:
    again = frames_of(SMALL)

    assert all(
        (one.truth, one.hour) == (other.truth, other.hour) and (one.image == other.image).all()
        for one, other in zip(frames[:300], again, strict=False)
    )


def test_another_seed_gives_other_frames(frames: list[Frame]) -> None:
    other = next(frames_of(Season(seed=6, weeks=1, frames_per_day=60)))

    assert (other.image != frames[0].image).any()


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(SPECIES), scale=st.floats(0.6, 1.6))
def test_every_animal_covers_something_and_not_all(seed: int, name: object, scale: float) -> None:
    cover, colour = draw(name, np.random.default_rng(seed), side=44, scale=scale)  # type: ignore[arg-type]

    assert cover.shape == (44, 44)
    assert 0 <= cover.min() <= cover.max() <= 1
    assert 10 < cover.sum() < 0.7 * cover.size
    assert 0 <= colour.min() <= colour.max() <= 255


@given(row=st.integers(0, SIDE - 1), column=st.integers(0, SIDE - 1))
def test_a_crop_lies_within_the_frame_and_holds_its_blob(row: int, column: int) -> None:
    image = np.zeros((SIDE, SIDE, 3), np.uint8)
    image[row, column] = 255

    crop = crop_at(image, Sighting(9.0, row, column, kept=True))

    assert crop.shape == (CROP, CROP, 3)
    assert crop.max() == 255


def test_the_detector_keeps_nearly_all_animals_also_at_the_new_site() -> None:
    captures = record(SMALL)
    animal = captures.truth != BLANK
    later = captures.week > 0
    new = captures.site == SITES[-1].name

    assert captures.kept[animal & later].mean() > 0.95
    assert captures.kept[animal & new].mean() > 0.9
    assert captures.kept[~animal & later].mean() < 0.6


def test_a_message_is_smaller_the_less_it_shows() -> None:
    image = Scene(SITES[0], np.random.default_rng(0)).frame("deer", 12)

    assert HEADER_BYTES < sent_bytes(np.zeros_like(image)) < sent_bytes(image[:32, :32])
    assert sent_bytes(image[:32, :32]) < sent_bytes(image) / 3
