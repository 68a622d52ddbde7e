"""What tests ask of a strategy: many draws from a fixed seed, and its smallest example."""

from random import Random

from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st


def draws(strategy, count=300):
    """Return what the strategy draws, from one Hypothesis seed. Random bytes beside it keep Hypothesis from avoiding repeats."""
    drawn = []

    @seed(2026)
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.tuples(strategy, st.binary(min_size=8, max_size=8)))
    def collect(pair):
        drawn.append(pair[0])

    collect()
    return drawn


def smallest(strategy, condition=lambda _value: True):
    """Return what a failure that needs `condition` shrinks to."""
    always_the_same = Random(2026)  # noqa: S311 - nothing secret is drawn
    return find(strategy, condition, settings=settings(max_examples=5000, database=None, deadline=None), random=always_the_same)


def unreached(drawn, wanted):
    """Return which of the wanted values, or of the wanted named conditions, no draw meets."""
    if isinstance(wanted, dict):
        return {name for name, condition in wanted.items() if not any(condition(value) for value in drawn)}
    return set(wanted) - set(drawn)
