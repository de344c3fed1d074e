"""The sentence before a prompt: a person's feature prompt, or a neutral one of the same length. Pure.

A sentence is the extractor's own where a prompt asks to change nothing of it; else it is made of the texts on
what may be kept. Whether a text names race, gender or age is not known here (linter.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice

from stillme.core.records import Feature
from stillme.protocol.schema import Mitigation, Prompt

SENTENCE = "identity_prompt"
_NOTHING = re.compile(
    r"(?:|-+|none|no|nothing|n/?a|unknown|unclear|absent|(?:none|nothing|not|no|nothing that is)\b.{0,20}\b"
    r"(?:visible|applicable|discernible|notable|noted|apparent|present|distinctive|clear|features?|marks?))",
    re.IGNORECASE,
)
_LEAD = re.compile(r"(?:a|an|the|their|has|have|they have|the person has)\s+", re.IGNORECASE)
# What only adds to a description, so that the noun goes before it: deep brown SKIN TONE with warm undertones.
_ADDED = re.compile(r",?\s(?:with|that|which|featuring|worn|parted|tied|pulled|covered|partially|at|around)\s")


def feature_prompt(feature: Feature, prompt: Prompt, rules: Mitigation) -> str:
    """What of the person is to be kept, without what this prompt asks to change."""
    masked = rules.conflicts.get(prompt.id, ())
    if not masked:
        return _ended(_spaced(feature.features[SENTENCE]))
    phrases = _kept(feature.features, masked, rules)
    if len(phrases) < 3:
        return f"{rules.opening} {' and '.join(phrases)}."
    return f"{rules.opening} {', '.join(phrases[:-1])}, and {phrases[-1]}."


def placebo(sentence: str, rules: Mitigation) -> str:
    """A neutral text of as many words as this one, and as nearly as many characters as its words allow.

    It starts with the protocol's sentence of long words and goes on with that of short ones; where one of them is
    too short, it is repeated.
    """
    parts = [part.split() for part in re.split(r"(?<=\.)\s+", rules.placebo.strip())]
    parts.sort(key=lambda words: sum(map(len, words)) / len(words))
    short, long = parts[0], parts[-1]  # the sentence with the shortest words, and the one with the longest
    count = len(sentence.split())
    most = 0 if short is long else count
    options = (_cut(long, first) + _cut(short, count - first) for first in range(most + 1))
    return min((" ".join(words) for words in options), key=lambda text: abs(len(text) - len(sentence)))


def opens(sentence: str, rules: Mitigation) -> bool:
    """Whether a sentence starts as it was asked to, whichever apostrophe it is written with."""
    return _spaced(sentence).replace("’", "'").lower().startswith(rules.opening.lower())


def can_be_kept(features: Mapping[str, str], rules: Mitigation) -> bool:
    """Whether something is described that every prompt leaves to be kept."""
    masks = [(), *rules.conflicts.values()]
    return all(_kept(features, masked, rules) for masked in masks)


def _kept(features: Mapping[str, str], masked: Sequence[str], rules: Mitigation) -> list[str]:
    """A phrase for each dimension that is described and not masked."""
    texts = {name: _bare(features.get(name, "")) for name in rules.dimensions if name not in masked}
    return [_phrase(text, rules.dimensions[name]) for name, text in texts.items() if text]


def _bare(text: str) -> str:
    """A description that fits into a sentence; empty where it says that there is nothing."""
    inner = _spaced(text).strip(" .;,!?…")
    if _NOTHING.fullmatch(inner):
        return ""
    inner = re.sub(r"[.;!?]+\s", ", ", _LEAD.sub("", inner, count=1) if _LEAD.match(inner) else inner)
    return inner[:1].lower() + inner[1:] if inner[1:2].islower() else inner


def _phrase(text: str, template: str) -> str:
    """The description with its noun, unless it names it already."""
    noun = template.replace("{}", " ").split()
    if {_stem(word) for word in noun} & {_stem(word) for word in re.findall(r"[a-z]+", text.lower())}:
        return text
    added = _ADDED.search(text)
    return (
        template.format(text) if added is None else template.format(text[: added.start()]) + text[added.start() :]
    )


def _stem(word: str) -> str:
    return word.lower().rstrip("s")


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _ended(text: str) -> str:
    """With one full stop."""
    return text.rstrip(" .!?…;,:") + "."


def _cut(words: Sequence[str], count: int) -> list[str]:
    """This many words as a sentence, from the start, again and again."""
    repeated = list(islice(cycle(words), count))
    return [*repeated[:-1], _ended(repeated[-1])] if repeated else []
