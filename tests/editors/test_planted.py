from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stillme.core import images
from stillme.core.records import EditRequest, Status
from stillme.editors import planted
from stillme.editors.planted import (
    Effect,
    Planted,
    PlantedOutcome,
    Settings,
    Truth,
    paint,
    read_truth,
    share_beyond,
)
from stillme.engine.backends import BackendContext
from stillme.protocol import Protocol
from stillme.sources import heads, looks
from stillme.sources.heads import key_in, signature

KEY = "black-female-40s"


@pytest.fixture(scope="module")
def place() -> BackendContext:
    from stillme.protocol import builtin

    return BackendContext(Path(), builtin())


def editor(place: BackendContext, truth: str = "erases", **changes: object) -> Planted:
    known = read_truth(truth, place).model_dump()
    return Planted(Truth.model_validate({**known, **changes}), Settings(truth=truth), place.protocol)


def request(key: str, protocol: Protocol, prompt: str = "O-01", seed: int = 0) -> EditRequest:
    source = images.encode(heads.photograph(heads.load(key)), comment=signature(key))
    return EditRequest("k", source, protocol.prompt[prompt].text, seed)


def effect(place: BackendContext, name: str, truth: str = "even") -> Effect:
    return next(e for e in read_truth(truth, place).effects if e.id == name)


def skin_lightness(picture: images.Pixels, mask: images.Pixels) -> float:
    return float(np.median(heads.srgb_to_lab(picture)[..., 0][mask > 230]))


def test_the_same_request_gives_the_same_bytes(place: BackendContext) -> None:
    asked = request(KEY, place.protocol)
    assert editor(place).edit(asked) == editor(place).edit(asked)
    assert editor(place).edit(asked) != editor(place).edit(request(KEY, place.protocol, seed=1))


def test_a_portrait_that_is_not_synthetic_is_rejected(place: BackendContext) -> None:
    reply = editor(place).edit(EditRequest("k", images.encode(images.black(8)), "Do it.", 0))
    assert reply.status is Status.REJECTED and reply.image is None
    assert "synthetic portraits only" in reply.detail


def test_portraits_are_recognised_by_a_number_that_says_nothing_of_the_person() -> None:
    assert {key_in(signature(key)) for key in heads.keys()} == set(heads.keys())  # noqa: SIM118
    assert key_in("stillme synthetic portrait 84") is None and key_in("") is None
    assert not any(word in signature(KEY) for word in KEY.split("-"))


@pytest.mark.parametrize("delta", [-12.0, -6.0, 6.0, 12.0])
def test_skin_moves_by_the_planted_amount_and_the_shirt_does_not(place: BackendContext, delta: float) -> None:
    head = heads.load(KEY)
    plain = images.pixels(paint(KEY, place.protocol.prompt["O-01"], PlantedOutcome(Status.OK), 0))
    size = (abs(delta) - 6) / 8
    drawn = PlantedOutcome(Status.OK, ((effect(place, "lightened" if delta > 0 else "darkened"), size),))
    moved = images.pixels(paint(KEY, place.protocol.prompt["O-01"], drawn, 0))
    bare = np.where(looks.covered(head, "O-01"), 0, head.skin).astype(np.uint8)
    seen = skin_lightness(moved, bare) - skin_lightness(plain, bare)
    assert seen == pytest.approx(delta, rel=0.1)
    cloth = head.cloth > 250
    assert np.abs(moved[cloth].astype(int) - plain[cloth]).mean() < 1.5


def changed_share(one: images.Pixels, other: images.Pixels) -> float:
    return float((np.abs(one.astype(int) - other).max(-1) > 12).mean())


@pytest.mark.parametrize("prompt", ["O-01", "O-03", "V-02", "V-03", "V-06"])
def test_a_full_edit_is_visible_and_an_erased_one_hardly(place: BackendContext, prompt: str) -> None:
    source = images.pixels(request(KEY, place.protocol).image)
    asked = place.protocol.prompt[prompt]
    full = images.pixels(paint(KEY, asked, PlantedOutcome(Status.OK), 0))
    erased = images.pixels(paint(KEY, asked, PlantedOutcome(Status.OK, ((effect(place, "erased"), 0.2),)), 0))
    assert changed_share(full, source) > 0.15
    assert changed_share(erased, source) < 0.4 * changed_share(full, source)


def test_a_replaced_person_is_another_head(place: BackendContext) -> None:
    prompt = place.protocol.prompt["O-01"]
    skin = heads.load(KEY).skin > 230
    same = images.pixels(paint(KEY, prompt, PlantedOutcome(Status.OK), 0))
    for name in ("other_race", "other_gender", "younger", "older"):
        other = images.pixels(paint(KEY, prompt, PlantedOutcome(Status.OK, ((effect(place, name), 0.5),)), 0))
        assert np.abs(other[skin].astype(int) - same[skin]).mean() > 2, name


def test_thirty_years_older_uses_the_older_head(place: BackendContext) -> None:
    older = place.protocol.prompt["V-03"]
    assert planted.possible(read_truth("even", place), "variant", older) == []
    full = images.pixels(paint("white-male-20s", older, PlantedOutcome(Status.OK), 0))
    source = heads.photograph(heads.load("white-male-20s"))
    hair = heads.load("white-male-20s").hair > 200
    assert np.abs(full[hair].astype(int) - source[hair]).mean() > 10


def test_rates_are_the_truth_files_over_many_draws(place: BackendContext) -> None:
    one = editor(place, "erases", persons=0.0)
    prompt = place.protocol.prompt["O-05"]
    labels = {"race": "black", "gender": "male", "age": "20s"}
    traits = planted.traits_of(prompt, labels)
    draws = [one.draw(KEY, prompt, traits, seed) for seed in range(6000)]
    drawn = Counter(e.id for draw in draws for e, _ in draw.effects)
    made = sum(draw.status is not Status.REFUSED for draw in draws)
    for e in one.truth.effects:
        assert drawn[e.id] / made == pytest.approx(e.rate.of(traits), abs=0.02), e.id
    assert sum(d.status is Status.REFUSED for d in draws) / 6000 == pytest.approx(0.032, abs=0.01)


def test_persons_differ_but_their_mean_is_the_groups_rate(place: BackendContext) -> None:
    one = editor(place, "even", persons=0.1)
    personal = [one._person_rates(f"person {n}", "fade", (0.06, 0.04)) for n in range(4000)]
    first = np.array([rates[0] for rates in personal])
    assert first.mean() == pytest.approx(0.06, abs=0.005)
    assert first.var() == pytest.approx(0.1 * 0.06 * 0.94, rel=0.15)


def test_expected_rates_follow_groups_prompts_and_requested_change(place: BackendContext) -> None:
    truth = read_truth("erases", place)
    man = {"race": "white", "gender": "male", "age": "20s"}
    rates = planted.expected_rates(truth, place.protocol, "O-01", man)
    assert rates["soft_erasure"] == pytest.approx(0.06)
    assert rates["edit_succeeded"] == pytest.approx(1 - 0.06 - 0.05)
    assert rates["race_changed"] == pytest.approx(0.03)
    woman = {"race": "black", "gender": "female", "age": "70plus"}
    assert planted.expected_rates(truth, place.protocol, "V-02", woman)["soft_erasure"] == pytest.approx(
        0.06 * 4 * 1.25 * 1.4 * 1.3
    )
    assert planted.expected_rates(truth, place.protocol, "V-03", woman)["race_changed"] == 0.0


def test_the_share_of_a_range_beyond_a_threshold(place: BackendContext) -> None:
    lighter, darker = (
        place.protocol.rubrics.outcomes["skin_lightened"],
        place.protocol.rubrics.outcomes["skin_darkened"],
    )
    assert share_beyond(lighter, (3.0, 4.0)) == 0.5 == share_beyond(darker, (3.0, 2.0))
    assert share_beyond(lighter, (4.0, 5.0)) == 1.0 and share_beyond(lighter, (3.0, 3.0)) == 0.0


def test_sizes_follow_groups(place: BackendContext) -> None:
    truth = read_truth("lightens", place)
    light = next(e for e in truth.effects if e.id == "lightened")
    assert light.part({"race": "white"}) == (0.0, 0.4) and light.part({"race": "latino"}) == (0.0, 1.0)
    one, prompt = editor(place, "lightens"), place.protocol.prompt["O-01"]
    sizes = {}
    for race in ("white", "black"):
        traits = planted.traits_of(prompt, {"race": race, "gender": "male", "age": "20s"})
        draws = [one.draw(KEY, prompt, traits, seed) for seed in range(1500)]
        sizes[race] = [d.value("skin", 0.0) for d in draws if d.value("skin", 0.0) > 0]
    assert min(sizes["white"]) >= 6 and max(sizes["white"]) <= 6 + 0.4 * 8
    assert min(sizes["black"]) >= 6 + 0.3 * 8


def test_a_corrupt_output_is_a_black_square(place: BackendContext) -> None:
    reply = editor(place, corrupt={"base": 1.0}, refused={"base": 0.0}).edit(request(KEY, place.protocol))
    assert reply.image is not None and images.inspect(reply.image).is_blank


def test_a_refusal_has_no_picture(place: BackendContext) -> None:
    reply = editor(place, refused={"base": 0.95}).edit(request(KEY, place.protocol, seed=3))
    assert reply.status is Status.REFUSED and reply.image is None and not reply.truth


NOTHING = "Return the image unchanged."


def unasked(key: str, protocol: Protocol, seed: int = 0, control: str = "") -> EditRequest:
    return replace(
        request(key, protocol, seed=seed),
        instruction=f"[control] {control}" if control else NOTHING,
        control=control,
    )


def test_asked_for_nothing_the_portrait_comes_back_as_it_is(place: BackendContext) -> None:
    asked = unasked(KEY, place.protocol)
    reply = editor(place, refused={"base": 0.95}).edit(asked)
    assert reply.image == images.encode(images.pixels(asked.image))
    assert reply.status is Status.OK and reply.truth == {"strength": 0.0, "delta_l": 0.0}


@pytest.mark.parametrize("key", [KEY, "white-male-20s"])
def test_a_truth_file_may_say_that_skin_moves_when_nothing_is_asked(place: BackendContext, key: str) -> None:
    asked, one = unasked(key, place.protocol), editor(place, "lightens")
    reply = one.edit(asked)
    assert reply == one.edit(asked) and reply.image is not None
    assert 1.5 <= reply.truth["delta_l"] <= 3.0 and reply.truth["strength"] == 0.0
    assert reply.truth != one.edit(unasked(key, place.protocol, seed=1)).truth
    mask, before, after = heads.load(key).skin, images.pixels(asked.image), images.pixels(reply.image)
    moved = skin_lightness(after, mask) - skin_lightness(before, mask)
    assert moved == pytest.approx(reply.truth["delta_l"], abs=0.3)
    assert np.abs(after[mask == 0].astype(int) - before[mask == 0]).mean() < 1


def test_the_stand_in_for_a_vae_round_trip_blurs_a_little(place: BackendContext) -> None:
    prepared = planted.prepare(Settings(truth="lightens"), place)
    assert prepared.controls == ("vae_round_trip",)
    asked = unasked(KEY, place.protocol, control="vae_round_trip")
    reply = editor(place, "lightens").edit(asked)
    assert reply.image is not None and reply.truth == {"strength": 0.0, "delta_l": 0.0}
    before, after = images.pixels(asked.image).astype(int), images.pixels(reply.image).astype(int)
    assert 0 < np.abs(before - after).mean() < 3
    assert np.abs(np.diff(after, axis=1)).mean() < np.abs(np.diff(before, axis=1)).mean()
    other = editor(place).edit(unasked(KEY, place.protocol, control="mirror"))
    assert other.status is Status.REJECTED and "do not make the control 'mirror'" in other.detail


def test_a_truth_that_says_nothing_of_controls_keeps_its_key(place: BackendContext) -> None:
    assert "asked_nothing" not in planted.prepare(Settings(truth="even"), place).effective["truth"]
    known = planted.prepare(Settings(truth="lightens"), place)
    again = planted.prepare(Settings.model_validate(known.inputs), place)
    assert known.effective == again.effective and known.effective["truth"]["asked_nothing"]


def test_a_prefixed_instruction_is_still_the_same_prompt(place: BackendContext) -> None:
    text = place.protocol.prompt["V-02"].text
    assert planted.asked_prompt(place.protocol, f"Maintain the person's brown skin. {text}").id == "V-02"
    assert planted.asked_prompt(place.protocol, "Make it nice.").id.startswith("other-")


@pytest.mark.parametrize("name", ["even", "lightens", "erases"])
def test_shipped_truths_fit_the_protocol(place: BackendContext, name: str) -> None:
    truth = read_truth(name, place)
    assert truth.id == name
    for person in ({"race": r, "gender": "female", "age": "70plus"} for r in place.protocol.groups.ids("race")):
        for prompt in place.protocol.prompt:
            assert all(
                0 <= rate <= 1 for rate in planted.expected_rates(truth, place.protocol, prompt, person).values()
            )
