"""Every parser of outside bytes, with a few damaged inputs each; a long run is `python -m tests.fuzz`."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import tried
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SLOW = ("protocol files", "rows of a ledger", "pages of a ledger")
FEW, SOME = 6, 24


def test_the_targets_have_names_of_their_own() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names) and sum(target.tries for target in TARGETS) > 120_000


# Starlette leaves the part that a form breaks off in to the collector
@pytest.mark.filterwarnings("ignore:Unclosed file <tempfile.SpooledTemporaryFile:ResourceWarning")
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_damage_makes_it_crash(target: Target, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(
        max_examples=FEW if target.name in SLOW else SOME,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(st.randoms(use_true_random=False))
    def ends_well(chance: random.Random) -> None:
        feed(made(chance))

    with target.opened(tmp_path_factory.mktemp("fuzz")) as (made, feed):
        ends_well()


def test_a_crash_is_counted_and_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The long run itself: distinct inputs are counted once, and what crashes is not lost."""

    def crashes(content: bytes) -> None:
        if content == b"3":
            raise ZeroDivisionError("a bug")

    target = Target("one", lambda folder, stack: (lambda chance: b"%d" % chance.randrange(5), crashes), 100)
    told = tried(target, 100, "0", tmp_path_factory.mktemp("long"))
    assert told.inputs == 5
    assert told.crashes == {"in the test ZeroDivisionError": ("a bug", b"3")}
