"""Words for race, ethnicity, gender and age in a feature prompt: found where they are meant, and only there."""

from __future__ import annotations

import random

import pytest

from stillme.plan.mitigation.linter import Leak, leaks
from stillme.protocol import Protocol


def phrases(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split(";")]


HARMLESS = phrases("""
    Black hair; black eyes; white beard; Indian-red scarf; fair skin; olive complexion; brown eyes; Roman nose;
    French braid; golden-brown; afro hairstyle; Mandarin collar; grey hair; laugh lines; wrinkles;
    salt-and-pepper; beard; full lips; almond-shaped eyes; 1990s-style frames; '90s-style glasses;
    seventies-style frames; seventies style; an old scar; an aged leather jacket; a five-year-old scar; age
    spots on the cheeks; nail polish; mother-of-pearl earrings; a man bun; white skin; the hair is Black;
    short, Black and curly hair; hair that appears Black; Jet Black hair; Hair: Black. Eyes: Brown.; Short
    Black Hair; Deep Brown Skin Tone; Dark-Brown skin; white roots; a black-haired person; a red-haired
    individual; dressed in Black; wearing black, who smiles; black and white shirt before a white background;
    the person's hair is black; a Hawaiian shirt; the person’s skin is brown; human; manicured nails; heather;
    manual; a German-made watch; Maintain the person's fair, reddish skin tone, short salt-and-pepper wavy
    hair, thin lips, prominent cheekbones, and deep laugh lines around the eyes.; Maintain the person’s deep
    brown skin with warm undertones, round face with full cheeks, broad nose, full lips, and dark micro-braided
    hair partially covered by a colorful headwrap.; lips in Indian red
""")

NAMED = {
    "race": phrases("""
        Black woman; a Black person; a black person; White skin and Caucasian features; mixed-race;
        biracial; person of colour; people of color; Maintain the person's Black identity; half-Black; the
        person is black; identified as Black; Maintain the White skin; someone who is White; black facial
        features; Black and Asian features; white-presenting; African-American; they are Black
    """),
    "ethnicity": phrases("""
        Asian eyes; Indian complexion; African features; Latina; Hispanic; Middle Eastern nose; South
        Asian; ethnic; Asian-looking eyes; Asian-style eyes; Māori features; Polish features; Roman
        complexion; of Korean descent; from India; Latinos; French complexion; Native features
    """),
    "gender": phrases("""
        his; her; he; She; him; she's; feminine; masculine jaw; man; lady; ladies; boyish; women’s; men's;
        GENTLEMAN; his/her; androgynous; male-pattern baldness
    """),
    "age": phrases("""
        elderly; young; youthful; middle-aged; in the 60s; mid-30s; early forties; 30-year-old; aged;
        mature; senior; teenage; grandmotherly; 45 years old; 20–29 years; 45yo; 45 y/o; a 40-something;
        signs of aging; in the person's 60s; dark eyes with mature characteristics
    """),
}


@pytest.mark.parametrize("text", HARMLESS)
def test_a_word_that_says_nothing_of_a_group_is_no_leak(text: str) -> None:
    assert leaks(text) == ()
    assert leaks(f"Maintain the person's round face, thin lips, and {text}.") == () or text[0].isupper()


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in NAMED.items() for text in texts])
def test_a_word_for_a_group_is_found_and_told_by_its_kind(kind: str, text: str) -> None:
    assert kind in {leak.kind for leak in leaks(text)}
    assert kind in {leak.kind for leak in leaks(f"Maintain the person's thin lips; {text}.")}


def test_a_leak_says_which_word_it_is_and_where() -> None:
    text = "Keep the Middle-Eastern nose of a 60-year-old lady."
    assert leaks(text) == (
        Leak("Middle-Eastern", "ethnicity", 9),
        Leak("60-year-old", "age", 34),
        Leak("lady", "gender", 46),
    )


def test_what_the_protocol_itself_says_leaks_nothing(protocol: Protocol) -> None:
    assert protocol.mitigation is not None
    assert leaks(protocol.mitigation.placebo) == ()
    assert leaks(protocol.mitigation.opening) == ()


@pytest.mark.parametrize(
    "scrap", ["black ", "Black and ", "a", "'a", "young-", "1", "year old ", "’", "the person is "]
)
def test_a_long_text_is_read_to_its_end(scrap: str) -> None:
    text = scrap * 2_000
    assert all(leak.word in text for leak in leaks(text))
    assert leaks(f"{text}. Latina")[-1].word == "Latina"


def test_every_leak_of_any_text_is_a_part_of_it() -> None:
    chance = random.Random(0)
    scraps = [
        "Black",
        "white",
        " ",
        "-",
        "’s",
        "person",
        "of",
        "colour",
        "60s",
        "é",
        "\u0300",
        "\ud800",
        ".",
        "is",
        "old",
    ]
    for _ in range(2_000):
        text = "".join(chance.choices(scraps, k=12))
        for leak in leaks(text):
            assert text[leak.start :].startswith(leak.word)
