from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fabric_scenes import shared_link
from steward.errors import StewardError
from steward.learn.topology.example_files import read_examples, write_examples
from steward.learn.topology.graph_inputs import inputs_of, joined
from steward.learn.topology.graph_network import GraphNetwork, Hull, shipped_network
from steward.learn.topology.residual_model import SWITCHED_ON, ResidualModel, world_of
from steward.model.fabric.link_signs import no_signs
from steward.sim.fabric.residual_training import TEST_SEED, ResidualRun, make_example
from steward.sim.fabric.scenes import WORLDS, make_scene


def network() -> GraphNetwork:
    found = shipped_network()
    assert found is not None
    return found


def test_the_network_that_comes_with_steward_is_small_and_knows_its_features() -> None:
    assert network().parameters <= 50_000


def test_it_predicts_the_same_for_a_scene_alone_and_among_others() -> None:
    graphs = [make_example(TEST_SEED + i, world="plain").inputs for i in range(5)]

    alone = [network().residuals(each) for each in graphs]
    together = network().residuals(joined(graphs))

    assert np.concatenate(alone) == pytest.approx(together, abs=1e-4)


def test_quantiles_are_in_order_and_slowdowns_at_least_one() -> None:
    for i, world in enumerate(WORLDS):
        graph = make_example(TEST_SEED + 100 + i, world=world).inputs
        low, middle, high = ResidualModel(network=network()).quantiles([graph])[0]
        assert (low <= middle).all()
        assert (middle <= high).all()
        assert (low >= 1.0).all()


def test_a_job_that_meets_nobody_is_as_fast_as_alone() -> None:
    scene = shared_link(0.4)

    assert ResidualModel(network=network())([scene])[0].tolist() == [1.0]
    assert ResidualModel(network=network()).quantiles([]) == []


def test_outside_of_what_it_was_trained_on_it_abstains_and_the_mean_field_stands() -> None:
    graph = make_example(TEST_SEED + 3, world="plain").inputs
    strange = graph._replace(job=graph.job + 100.0)

    assert np.isnan(network().slowdowns(strange)).all()
    _, middle, _ = ResidualModel(network=network()).quantiles([strange])[0]
    assert middle.tolist() == strange.mean_field.tolist()


def test_a_hull_holds_what_it_was_made_of() -> None:
    graphs = [make_example(i, world="plain").inputs for i in range(10)]

    hull = Hull.around(graphs)

    assert np.mean([hull.holds(each).mean() for each in graphs]) > 0.9


def test_it_errs_less_than_the_mean_field_on_scenes_it_has_not_seen() -> None:
    ours, plain = [], []
    for i in range(60):
        example = make_example(TEST_SEED + 5000 + i, world=WORLDS[i % 3])
        contended = example.measured > 1.05
        middle = ResidualModel(network=network()).quantiles([example.inputs])[0][1]
        ours += np.abs(middle / example.measured - 1.0)[contended].tolist()
        plain += np.abs(example.inputs.mean_field / example.measured - 1.0)[contended].tolist()

    assert np.mean(ours) < np.mean(plain)


def test_a_network_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    file = tmp_path / "n.npz"
    file.write_bytes(network().to_bytes())
    graph = make_example(1, world="gray").inputs

    again = GraphNetwork.from_file(file)

    assert again.residuals(graph).tolist() == network().residuals(graph).tolist()


@pytest.mark.parametrize("content", [b"", b"no network", b"PK\x03\x04 cut"])
def test_a_file_that_holds_no_network_is_refused_with_words(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "n.npz"
    file.write_bytes(content)

    with pytest.raises(StewardError, match="holds no network"):
        GraphNetwork.from_file(file)


@pytest.mark.parametrize("change", ["format", "weight/out"])
def test_a_network_of_another_version_is_refused(tmp_path: Path, change: str) -> None:
    file = tmp_path / "n.npz"
    file.write_bytes(network().to_bytes())
    with np.load(file) as arrays:
        content = {name: arrays[name] for name in arrays.files}
    content[change] = np.array([99])
    np.savez(file, **content)

    with pytest.raises(StewardError):
        GraphNetwork.from_file(file)


def test_an_interval_calibrated_on_scenes_holds_as_often_as_it_says() -> None:
    held_out = [make_example(TEST_SEED + 9000 + i, world="plain") for i in range(60)]
    pairs = [(each.inputs, each.measured) for each in held_out]

    calibrated = network().calibrated(pairs)

    inside: list[bool] = []
    for inputs, measured in pairs:
        low, _, high = calibrated.residuals(inputs).T
        target = np.log(measured / inputs.mean_field)
        inside += ((low <= target) & (target <= high))[measured > 1.05].tolist()
    assert np.mean(inside) == pytest.approx(0.8, abs=0.03)
    assert network().calibrated([]).scales["interval"] == network().scales["interval"]


def test_examples_are_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    examples = [make_example(i, world=WORLDS[i % 3]) for i in range(6)]
    file = tmp_path / "scenes.npz"

    write_examples(file, examples)

    for one, other in zip(examples, read_examples(file), strict=True):
        assert one.measured.tolist() == other.measured.tolist()
        assert one.inputs.entry_link.tolist() == other.inputs.entry_link.tolist()
        assert one.inputs.job == pytest.approx(other.inputs.job, rel=1e-5)


def test_a_file_of_scenes_that_is_cut_is_refused_with_words(tmp_path: Path) -> None:
    file = tmp_path / "scenes.npz"
    write_examples(file, [make_example(1, world="plain")])
    file.write_bytes(file.read_bytes()[:100])

    with pytest.raises(StewardError, match="holds no scenes"):
        read_examples(file)


def test_counters_tell_which_world_it_is() -> None:
    plain = no_signs(3)

    assert world_of(plain) == "plain"
    assert world_of(plain._replace(pause_share=0.2)) == "losses"
    assert world_of(plain._replace(counted_share=np.array([1.0, 0.4, np.nan]))) == "gray"
    assert set(SWITCHED_ON) <= set(WORLDS)


def test_inputs_do_not_depend_on_links_where_nobody_meets() -> None:
    scene = make_scene(4)

    graph = inputs_of(scene.seen, scene.signs)

    assert len(graph.link) < len(scene.seen.capacity)
    assert (np.bincount(graph.entry_link, minlength=len(graph.link)) > 1).all()


def test_a_training_without_scenes_or_steps_is_refused() -> None:
    with pytest.raises(StewardError, match="0 scenes"):
        ResidualRun(scenes=0)
