"""The sentence before a prompt: a person's feature prompt, or a neutral one of the same length. Pure."""

from __future__ import annotations

from stillme.protocol.schema import Mitigation, Prompt
from stillme.records import Feature

SENTENCE = "identity_prompt"


def feature_prompt(feature: Feature, prompt: Prompt, rules: Mitigation) -> str:
    """What of the person is to be kept, without what this prompt asks to change."""
    return feature.features[SENTENCE]


def placebo(sentence: str, rules: Mitigation) -> str:
    """A neutral sentence of as many words as this one."""
    words = rules.placebo.split()
    return " ".join(words[: len(sentence.split())])
