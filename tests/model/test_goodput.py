import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.model.goodput import StepModel, alone_s, best_split, fit_steps, goodputs
from tiny_profiles import MODEL, profile, two_types


def measured(model: StepModel, sizes: list[tuple[int, int, int]]) -> np.ndarray:
    """What a job would see if this model were the truth."""
    rows = []
    for nodes, replicas, atomic in sizes:
        grad_s = model.grad_s + model.grad_s_per_sample * atomic
        more = max(replicas - 2, 1e-8)
        inside = model.inside_s + model.inside_s_per_replica * more
        across = model.across_s + model.across_s_per_replica * more
        sync_s = across if nodes > 1 else inside if replicas > 1 else 1e-8
        step_s = (grad_s**model.gamma + sync_s**model.gamma) ** (1 / model.gamma)
        rows.append((nodes, replicas, atomic, grad_s, step_s))
    return np.array(rows, np.float64)


def predicted(model: StepModel, nodes: int, replicas: int, atomic: int) -> float:
    return float(measured(model, [(nodes, replicas, atomic)])[0, 4])


def test_alone_is_progress_over_gain_times_the_step() -> None:
    app = profile()

    span_s = alone_s(app, replicas=2, batch=64)

    gain = app.learning.gain(64, 0)
    assert span_s == pytest.approx(4000.0 / gain * (0.1 + 0.32 + 0.022))


def test_alone_is_shorter_on_a_faster_type_and_longer_across_nodes() -> None:
    app = two_types()

    slow = alone_s(app, replicas=4, batch=128)

    assert alone_s(app, replicas=4, batch=128, gpu_type="a100") < slow
    assert alone_s(app, replicas=4, batch=128, gpus_per_node=2) > slow


def test_goodput_grows_with_gpus_and_is_less_across_nodes() -> None:
    sizes = np.array([1.0, 2.0, 4.0])

    inside, across = (goodputs(MODEL, sizes, across=many) for many in (False, True))

    assert (np.diff(inside) > 0).all()
    assert (across < inside).all()


def test_no_gpus_give_no_goodput() -> None:
    assert goodputs(MODEL, np.array([0.0]), across=False)[0] == 0.0


def test_noisy_gradients_ask_for_larger_batches() -> None:
    calm = best_split(MODEL._replace(grad_var=1.0), 1, 4)
    noisy = best_split(MODEL._replace(grad_var=1e4), 1, 4)

    assert noisy.total(4) > calm.total(4)
    assert noisy.total(4) == 256


@given(replicas=st.integers(1, 16), noise=st.floats(0.0, 1e4))
def test_the_best_split_keeps_the_limits(replicas: int, noise: float) -> None:
    split = best_split(MODEL._replace(grad_var=noise), 1, replicas)

    assert 8 <= split.atomic <= 32
    assert 16 <= split.total(replicas) <= 256 + replicas * split.passes


def test_a_gradient_without_signal_or_noise_makes_every_batch_worth_one() -> None:
    assert goodputs(MODEL._replace(grad_var=0.0, grad_sqr=0.0), np.ones(1), across=False)[0] > 0


def test_a_fit_finds_the_step_times_it_was_shown() -> None:
    truth = StepModel(0.1, 0.01, 0.3, 0.01, 0.05, 0.005, 1.5)
    sizes = [(1, 1, 8), (1, 1, 32), (1, 2, 8), (1, 4, 16), (2, 4, 16), (2, 8, 32), (4, 16, 8)]

    fitted = fit_steps(measured(truth, sizes))

    for size in [*sizes, (1, 3, 24), (3, 12, 16)]:
        assert predicted(fitted, *size) == pytest.approx(predicted(truth, *size), rel=0.1)


def test_before_it_was_seen_more_gpus_are_taken_to_cost_no_syncing() -> None:
    fitted = fit_steps(measured(StepModel(0.1, 0.01, 0.3, 0.0, 0.1, 0.0, 1.0), [(1, 1, 16)]))

    assert fitted.grad_s == pytest.approx(0.13)  # half of the one step that was seen
    assert fitted.inside_s == pytest.approx(1e-8)
    assert predicted(fitted, 1, 4, 16) == pytest.approx(0.26, rel=0.01)


def test_other_nodes_are_never_taken_to_be_faster_than_the_own() -> None:
    truth = StepModel(0.1, 0.01, 0.0, 0.0, 0.2, 0.01, 1.0)

    fitted = fit_steps(measured(truth, [(1, 1, 8), (1, 2, 8), (1, 4, 8), (1, 4, 16)]))

    assert fitted.across_s >= 1.1 * fitted.inside_s
    assert fitted.across_s_per_replica >= 1.1 * fitted.inside_s_per_replica


def test_only_several_nodes_seen_leaves_one_node_free_of_syncing() -> None:
    truth = StepModel(0.1, 0.01, 0.3, 0.01, 0.2, 0.01, 1.0)

    fitted = fit_steps(measured(truth, [(2, 4, 8), (2, 8, 16)]))

    assert fitted.inside_s == pytest.approx(1e-8)
    assert fitted.across_s > 0.1
