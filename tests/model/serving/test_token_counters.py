"""Virtual token counters."""

from __future__ import annotations

from steward.model.serving.token_counters import TokenCounters


def test_output_tokens_count_twice_and_requests_without_tenant_do_not_count() -> None:
    counters = TokenCounters(1, 2)

    counters.arrive(0, 1)
    counters.serve(0, 1, prompt=10, output=5)
    counters.arrive(0, -1)
    counters.serve(0, -1, prompt=10)
    counters.leave(0, -1)

    assert counters.served.tolist() == [[0.0, 20.0]]


def test_a_tenant_that_comes_back_starts_at_the_least_of_those_that_are_there() -> None:
    counters = TokenCounters(1, 3)
    counters.arrive(0, 0)
    counters.arrive(0, 1)
    for tenant, tokens in ((0, 100), (1, 60)):
        counters.serve(0, tenant, prompt=tokens)

    counters.arrive(0, 2)

    assert counters.served.tolist() == [[100.0, 60.0, 60.0]]


def test_a_tenant_is_not_lifted_while_it_has_requests_nor_ever_lowered() -> None:
    counters = TokenCounters(1, 2)
    counters.arrive(0, 0)
    counters.arrive(0, 1)
    counters.serve(0, 0, prompt=50)

    counters.arrive(0, 1)
    counters.leave(0, 0)
    counters.arrive(0, 0)

    assert counters.served.tolist() == [[50.0, 0.0]]


def test_counters_grow_with_classes_and_tenants_and_keep_what_they_have() -> None:
    counters = TokenCounters(1, 1)
    counters.arrive(0, 0)
    counters.serve(0, 0, prompt=7)

    counters.grow(1, 1)
    counters.grow(2, 3)
    counters.arrive(0, 2)

    assert counters.served.tolist() == [[7.0, 0.0, 7.0], [0.0, 0.0, 0.0]]
