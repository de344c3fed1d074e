"""The planted treatment: a feature prompt changes how often something happens, any other sentence only redraws."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from stillme.core.errors import ConfigIssuesError
from stillme.editors import planted
from stillme.editors.planted import Planted, Settings
from stillme.engine.backends import BackendContext
from stillme.protocol import Protocol
from stillme.sources import heads
from tests.plan.mitigation.simulated import leads, truth

KEY = "black-female-40s"
DRAWS = 2000


def share(protocol: Protocol, editor: Planted, effect: str, lead: str) -> float:
    """How often an effect befalls one person's edits, over many seeds."""
    prompt = protocol.prompt["O-01"]
    traits = planted.traits_of(prompt, heads.load(KEY).labels)
    drawn = (editor.draw(KEY, prompt, traits, seed, lead) for seed in range(DRAWS))
    return sum(effect in [one.id for one, _ in draw.effects] for draw in drawn) / DRAWS


def test_a_feature_prompt_multiplies_the_rate_and_a_placebo_does_not(protocol: Protocol) -> None:
    known = truth(protocol, persons=0.0, refused={"base": 0}, corrupt={"base": 0})
    editor = Planted(known, Settings(truth=known), protocol)
    said = leads(protocol)
    plain, feature, placebo = (
        share(protocol, editor, "other_race", said[arm][0]) for arm in ("baseline", "feature", "placebo")
    )
    assert plain == pytest.approx(0.36, abs=0.03) and placebo == pytest.approx(0.36, abs=0.03)
    assert feature == pytest.approx(0.36 * 0.25, abs=0.02)
    labels = heads.load(KEY).labels
    effect = planted.expected_effect(known, protocol, "race_changed", "O-01", labels)
    assert effect == pytest.approx(-0.36 * 0.75) and effect == pytest.approx(feature - plain, abs=0.04)


def test_who_is_prone_to_something_stays_so(protocol: Protocol) -> None:
    """A person's own rate is drawn first and multiplied then."""
    known = truth(protocol, persons=0.3)
    for draw in range(2):
        editor = Planted(known, Settings(truth=known, draw=draw), protocol)
        plain, feature = (
            share(protocol, editor, "other_race", leads(protocol)[a][0]) for a in ("baseline", "feature")
        )
        assert feature == pytest.approx(0.25 * plain, abs=0.03)


def test_any_sentence_before_the_prompt_redraws_and_none_leaves_everything_as_it_was(protocol: Protocol) -> None:
    known = truth(protocol)
    editor, prompt = Planted(known, Settings(truth=known), protocol), protocol.prompt["O-01"]
    traits = planted.traits_of(prompt, heads.load(KEY).labels)
    bare = [editor.draw(KEY, prompt, traits, seed) for seed in range(60)]
    assert bare == [editor.draw(KEY, prompt, traits, seed, "") for seed in range(60)]
    assert bare != [editor.draw(KEY, prompt, traits, seed, "A picture is a file.") for seed in range(60)]


def test_a_truth_without_a_treatment_is_spelled_as_it_always_was(protocol: Protocol) -> None:
    assert "kept" not in truth(protocol, "even").spelled_out() and "kept" in truth(protocol).spelled_out()


def test_a_treatment_of_nothing_and_words_that_nobody_knows_are_faults(protocol: Protocol, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="'kept' names teleported, which is no effect"):
        truth(protocol, kept={"teleported": {"base": 0.5}})
    text = (planted.TRUTHS / "keeps.yaml").read_text(encoding="utf-8")
    (tmp_path / "odd.yaml").write_text(text.replace("{white: 2.5}", "{martian: 2.5}"), encoding="utf-8")
    with pytest.raises(ConfigIssuesError, match="is not a known race"):
        planted.read_truth("odd.yaml", BackendContext(tmp_path, protocol))
