"""Finds words for race, ethnicity, gender and age in a feature prompt. Pure; the words are data (words.yaml).

The same word may be one or not: "Black hair" is a colour, "a Black person" is a race; a "French braid" is a
hairstyle, a "French complexion" is an origin. What decides is what stands next to it, a few words away at most, so
that the time that a text takes grows with its length alone. It knows English, and no picture: whether a word is
true is not asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from stillme.core.yaml import StrictModel
from stillme.engine import hosted

WORDS = Path(__file__).with_name("words.yaml")
RACE: Kind = "race"
ETHNICITY: Kind = "ethnicity"
AGE: Kind = "age"
Kind = Literal["race", "ethnicity", "gender", "age"]
Lists = tuple[tuple[str, ...], ...]
PERSON, BODY, THING = "person", "body", "thing"  # what a word may describe
MAX_WORDS_APART = 5  # words: what is further away is not what a word describes
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+(?:['’]?s\b)?")
_ENDS = re.compile(r"[.!?:\n]")
_BREAKS = re.compile(r"[.!?:;,()\n]")
_DECADE = re.compile(r"[1-9]0['’]?s")


class Leak(NamedTuple):
    """A word as it is written, what it is one for, and where it starts."""

    word: str
    kind: Kind
    start: int


class Words(StrictModel):
    """words.yaml."""

    always: dict[Kind, Lists]
    unless_a_thing: dict[Kind, Lists]
    capital_only: dict[Kind, tuple[str, ...]]
    harmless: Lists
    colours: frozenset[str]
    named: frozenset[str]
    between: frozenset[str]
    presenting: frozenset[str]
    of_colour: tuple[str, ...]
    persons: Lists
    subjects: frozenset[str]
    linking: frozenset[str]
    ascribing: frozenset[str]
    skin: frozenset[str]
    body: Lists
    things: Lists
    pigments: Lists
    manners: frozenset[str]
    closing: frozenset[str]
    joining: frozenset[str]
    numbers: Lists
    years: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Token:
    """A word: as written, as it is looked up, and how it stands to what is before it."""

    text: str
    word: str
    start: int
    gap: str
    opens: bool  # a sentence
    breaks: bool  # with the clause before it

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper()


Phrases = Mapping[str, Sequence[tuple[str, ...]]]


class _Lexicon:
    """The lists, made ready to look words up in."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.always = _kinds(words.always)
        self.unless_a_thing = _kinds(words.unless_a_thing)
        self.capital_only = _kinds({kind: (every,) for kind, every in words.capital_only.items()})
        self.harmless = {tuple(phrase.split()) for phrase in chain(*words.harmless)}
        lists = (words.persons, words.body, words.things, words.pigments, words.numbers)
        self.persons, self.body, self.things, self.pigments, self.numbers = (
            frozenset(chain(*every)) for every in lists
        )

    @cached_property
    def phrases(self) -> Phrases:
        """First word -> the phrases that start with it, the longest first."""
        every = {*self.always, *self.unless_a_thing, *self.capital_only, *self.harmless}
        found: dict[str, list[tuple[str, ...]]] = {}
        for phrase in sorted(every, key=len, reverse=True):
            found.setdefault(phrase[0], []).append(phrase)
        return found


def _kinds(lists: Mapping[Kind, Lists]) -> dict[tuple[str, ...], Kind]:
    return {tuple(phrase.split()): kind for kind, every in lists.items() for phrase in chain(*every)}


@cache
def _lexicon() -> _Lexicon:
    return _Lexicon(hosted.table(WORDS, Words))


def leaks(text: str) -> tuple[Leak, ...]:
    """The words for race, ethnicity, gender and age in a text, in their order.

    >>> [leak.word for leak in leaks("Keep her black hair and French braid; a Black person in his 60s.")]
    ['her', 'Black', 'his', '60s']
    """
    return tuple(_Reader(text, _lexicon()).leaks())


class _Reader:
    """One text, word by word."""

    def __init__(self, text: str, lexicon: _Lexicon) -> None:
        self.text = text
        self.lexicon = lexicon
        self.words = lexicon.words
        self.tokens = list(_tokens(text))

    def leaks(self) -> Iterator[Leak]:
        place = 0
        while place < len(self.tokens):
            length, kind = self._at(place)
            if kind:
                start, end = self.tokens[place].start, self.tokens[place + length - 1].end
                yield Leak(self.text[start:end], kind, start)
            place += length

    def _at(self, place: int) -> tuple[int, Kind | None]:
        """How many words belong together here, and what they are words for."""
        phrase = self._phrase(place)
        if phrase is not None:
            return len(phrase), self._meant(phrase, place)
        # What is a word for race or age only where it stands.
        token, three = self.tokens[place], self.tokens[place : place + 3]
        spelled = " ".join(token.word for token in three[1:])
        if len(three) == 3 and self._is_person(token) and spelled in self.words.of_colour:
            return 3, RACE  # a person of colour
        if length := self._years(place):
            return length, AGE
        if _DECADE.fullmatch(token.text) and not self._is_of_a_thing(place + 1):
            return 1, AGE  # a decade of life, not of a century: in the 60s, but not 60s-style frames
        is_colour = token.word in self.words.colours
        if is_colour and (self._is_of_people(place) or self._is_predicate(place) or self._is_name(place)):
            return 1, RACE
        return 1, None

    def _phrase(self, place: int) -> tuple[str, ...] | None:
        """The longest known phrase that starts here. Its words may be joined by hyphens, never by a full stop."""
        for first in _singulars(self.tokens[place].word):
            for phrase in self.lexicon.phrases.get(first, ()):
                others = self.tokens[place + 1 : place + len(phrase)]
                is_joined = len(others) == len(phrase) - 1 and not any(token.breaks for token in others)
                pairs = zip(phrase[1:], others, strict=False)
                if is_joined and all(word in _singulars(token.word) for word, token in pairs):
                    return phrase
        return None

    def _meant(self, phrase: tuple[str, ...], place: int) -> Kind | None:
        lexicon = self.lexicon
        if phrase in lexicon.harmless:
            return None
        if phrase in lexicon.capital_only:
            return lexicon.capital_only[phrase] if self._is_proper(place) else None
        if phrase in lexicon.always:
            return lexicon.always[phrase]
        return None if self._is_of_a_thing(place + len(phrase)) else lexicon.unless_a_thing[phrase]

    def _is_proper(self, place: int) -> bool:
        """Polish features, but not polish; where a sentence starts, only what follows tells."""
        token, described = self.tokens[place], self._first(self._ahead(place + 1))
        return token.is_capital and (described in (PERSON, BODY) or (not token.opens and described != THING))

    # What a word describes

    def _ahead(self, place: int) -> Iterator[_Token]:
        """The next few words, up to where a clause ends."""
        for token in self.tokens[place : place + MAX_WORDS_APART]:
            if token.breaks:
                return
            yield token

    def _is_of_a_thing(self, place: int) -> bool:
        """Whether what is before this place describes a thing, or names a pigment."""
        if self._word(place) in self.lexicon.pigments:
            return True
        ahead = list(takewhile(lambda token: token.word not in self.words.closing, self._ahead(place)))
        described = self._first(ahead)
        return described == THING or (not described and any(token.word in self.words.manners for token in ahead))

    def _is_person(self, token: _Token) -> bool:
        return token.word in self.lexicon.persons

    def _years(self, place: int) -> int:
        """How many words are a number of years: 45 years, 45-year-old, forty-something; 0 where it is none."""
        token, after, third = self.tokens[place], self._word(place + 1), self._word(place + 2)
        if not (token.text.isdigit() or token.word in self.lexicon.numbers):
            return 0
        if after == "something":
            return 2
        if after in self.words.years and not self._is_of_a_thing(place + 2):
            return 3 if third == "old" else 2
        return 3 if (after, third) == ("y", "o") else 0

    def _is_of_people(self, place: int) -> bool:
        """A black person; Black and Asian features; white-presenting."""
        skipped = self.words.between | self.words.joining | self.words.colours
        for token in self._ahead(place + 1):
            if token.word in self.words.presenting:
                return token.gap == "-"
            if self._is_person(token):
                return True
            is_group = (token.word,) in self.lexicon.always or (token.word,) in self.lexicon.unless_a_thing
            if token.word not in skipped and not is_group:
                return False
        return False

    def _is_predicate(self, place: int) -> bool:
        """The person is black; but not: the person's hair is black."""
        if place < 2 or self.tokens[place].breaks or not self._ends(place + 1):
            return False
        who, is_owner = self.tokens[place - 2].word, not self.tokens[place - 2].text.isalpha()
        is_person = who in self.words.subjects or (who in self.lexicon.persons and not is_owner)
        return is_person and self._word(place - 1) in self.words.linking

    def _ends(self, place: int) -> bool:
        """Whether what comes here belongs to something else."""
        return not self._word(place) or self._word(place) in self.words.closing

    def _is_name(self, place: int) -> bool:
        """Written like a name within a sentence, and of nothing that has a colour; or before skin."""
        token, around = self.tokens[place], self.tokens[place - 1 : place + 2]
        if token.opens or not token.is_capital or token.word not in self.words.named:
            return False
        # Short Black Hair: where the words around it are capitalised, a capital says nothing.
        if all(other.is_capital for other in around) or (around[0].is_capital and not around[0].opens):
            return False
        if not self._ends(place + 1):
            return self._word(place + 1) in self.words.skin
        # What a colour shares with the words that are joined to it: Black and curly hair.
        shared = self._ahead(place + 2) if self._word(place + 1) in self.words.joining else ()
        if self._first(shared) in (BODY, THING):
            return False
        is_ascribed = self.tokens[place - 1].word in self.words.ascribing
        behind = self._first(reversed(self.tokens[max(0, place - MAX_WORDS_APART) : place]))
        return is_ascribed or behind not in (BODY, THING)

    def _first(self, tokens: Iterable[_Token]) -> str:
        """What the first telling word is."""
        for token in tokens:
            if self._is_person(token):
                return PERSON
            if token.word in self.lexicon.body:
                return BODY
            if token.word in self.lexicon.things:
                return THING
        return ""

    def _word(self, place: int) -> str:
        """The word at a place; empty behind the last one and after a break."""
        token = self.tokens[place] if 0 <= place < len(self.tokens) else None
        return token.word if token and not token.breaks else ""


def _tokens(text: str) -> Iterator[_Token]:
    end = 0
    for found in _WORD.finditer(text):
        gap = text[end : found.start()]
        opens, breaks = not found.start() or bool(_ENDS.search(gap)), bool(_BREAKS.search(gap))
        yield _Token(found[0], _plain(found[0]), found.start(), gap, opens, breaks)
        end = found.end()


def _plain(text: str) -> str:
    """Small letters without accents, without what an apostrophe adds: "she'll" is she, "Māori's" is maori."""
    bare = unicodedata.normalize("NFKD", text.replace("’", "'").lower())
    letters = "".join(letter for letter in bare if not unicodedata.combining(letter))
    head, _, tail = letters.partition("'")
    return letters if tail == "am" else head


def _singulars(word: str) -> Iterator[str]:
    """The word and what it may be the plural of."""
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("s"):
        yield word[:-1]
