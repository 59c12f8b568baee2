"""The most recent durations and their quantiles: `monitoring.samples`."""

from math import isnan

from monitoring.samples import KEPT, Samples


def test_quantiles_are_durations_that_occurred() -> None:
    samples = Samples()
    for value in range(100, 0, -1):
        samples.add(value)
    found = dict(samples.quantiles())
    assert (found["0.50"], found["0.95"], found["0.99"], found["0.999"]) == (51, 96, 100, 100)
    assert (samples.count, samples.largest) == (100, 100)


def test_the_oldest_durations_are_forgotten_but_counted() -> None:
    samples = Samples()
    for _ in range(KEPT):
        samples.add(1000.0)
    for _ in range(KEPT):
        samples.add(1.0)
    assert {value for _, value in samples.quantiles()} == {1.0}
    assert (samples.count, samples.largest) == (2 * KEPT, 1000.0)


def test_without_durations_quantiles_are_not_numbers() -> None:
    assert all(isnan(value) for _, value in Samples().quantiles())
