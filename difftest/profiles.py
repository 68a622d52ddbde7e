"""How much a run does: the number of cases a cell must count, and how large a launch may be."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from difftest.errors import UnknownName, suggestion


@dataclass(frozen=True)
class Profile:
    """One level of effort.

    Attributes:
        name: the word of `--difftest-profile`.
        cases: cases that each cell must count.
        contract_cases: cases from which constructed contract pairs start.
        simulator_elements: largest number of output elements of an explicit case on the simulator; above it the spec's `cut` applies.

    """

    name: str
    cases: int
    contract_cases: int
    simulator_elements: int


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("smoke", cases=10, contract_cases=2, simulator_elements=1 << 20),
        Profile("dev", cases=50, contract_cases=5, simulator_elements=1 << 21),
        Profile("ci", cases=100, contract_cases=10, simulator_elements=1 << 23),
        Profile("nightly", cases=2000, contract_cases=50, simulator_elements=1 << 26),
    )
}


def profile_named(name: str) -> Profile:
    """Return the profile of that name.

    Raises:
        UnknownName: with the closest name.

    """
    if name not in PROFILES:
        raise UnknownName(f"no profile {name!r}{suggestion(name, PROFILES)}")
    return PROFILES[name]


def derived_seed(session_seed: int, *parts: object) -> int:
    """Return the Hypothesis seed of a part of a session: never of the policy or engine, so that all policies meet the same cases."""
    text = ":".join(str(part) for part in (session_seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
