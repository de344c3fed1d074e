"""From a run to a bundle: what is shown to whom, how even it is, and that nothing says what raters must not know."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stillme.core import images
from stillme.core.colour import srgb_to_lab
from stillme.core.errors import InputError
from stillme.core.records import Portrait
from stillme.ledger import Run
from stillme.plan.design import load_design
from stillme.protocol import Protocol
from stillme.sources import heads
from stillme.study import bundle as bundles
from stillme.study.builder import Wanted, build, evenness
from stillme.study.builder import key as keys
from stillme.study.builder.cases import Case
from stillme.study.builder.key import Key
from stillme.study.bundle import Bundle
from tests.studies import EDITORS, built

PRESETS = ("paper", "exp1", "exp2-pairwise", "exp2-independent", "exp3")


pytestmark = pytest.mark.usefixtures("tutorials_drawn_once")


@pytest.fixture(scope="module")
def run(studied: Path) -> Path:
    return studied


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run: Path, tutorials_drawn_once: None) -> Path:
    """A bundle of every preset; tests only read them."""
    path = tmp_path_factory.mktemp("bundles")
    for preset in PRESETS:
        built(run, path / preset, preset)
    return path


def read(folder: Path, preset: str) -> tuple[Bundle, Key]:
    return bundles.read(folder / preset), keys.read(keys.path_of(folder / preset))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_built_and_its_key_says_what_it_shows(
    folder: Path, protocol: Protocol, preset: str
) -> None:
    bundle, key = read(folder, preset)
    assert key.bundle == bundle.hash and set(key.items) == set(bundle.item)
    experiment, arms = {"exp1": ("diagnose", ("baseline",)), "exp3": ("stereotype", ("published",))}.get(
        preset, ("mitigate", ("baseline", "feature"))
    )
    for item in bundle.items:
        outputs = [key.outputs[output.id] for output in item.outputs]
        assert sorted(output.arm for output in outputs) == sorted(arms)
        assert {output.experiment for output in outputs} == {experiment}
        told = {(output.portrait, output.prompt, output.editor) for output in outputs}
        assert told == {(key.items[item.id].portrait, key.items[item.id].prompt, key.items[item.id].editor)}
        if preset != "exp3":
            assert item.prompt == protocol.prompt[key.items[item.id].prompt].text, (
                "the prompt, and no sentence before"
            )
    assert 3 <= len(bundle.tutorial) <= 5 and sum(example.understanding for example in bundle.tutorial) == 1
    both = [example.second is not None for example in bundle.tutorial]
    assert all(both) if preset == "exp2-pairwise" else not any(both)


def test_every_task_is_rated_by_three_and_every_item_stands_in_one(folder: Path) -> None:
    bundle, _ = read(folder, "paper")
    assert Counter(item for task in bundle.tasks for item in task.items) == dict.fromkeys(bundle.item, 1)
    assert {task.seats for task in bundle.tasks} == {3}


def test_questions_are_the_questionnaires_own(folder: Path, run: Path, tmp_path: Path) -> None:
    pair, _ = read(folder, "exp1")
    offered = {question.id: question.cannot_determine for question in pair.questions}
    assert offered.pop("edit_success") is False and all(offered.values()) and len(offered) == 4
    choice, _ = read(folder, "exp2-pairwise")
    assert [option.value for option in choice.question["identity"].options] == [
        "left",
        "right",
        "both_equally",
        "neither",
    ], "what cannot be determined is no option among others"
    assert all(question.cannot_determine for question in choice.questions)
    occupation, _ = read(folder, "exp3")
    assert "expected" in occupation.question["typicality"].text
    direct = built(run, tmp_path / "direct", "exp3", version="A").bundle.question["typicality"]
    assert "stereotypes" in direct.text and "contradicts" in direct.options[0].label
    assert "society" in direct.guidelines[0]
    with pytest.raises(InputError, match="has one wording only"):
        built(run, tmp_path / "none", "exp1", version="A")


def test_an_occupation_is_shown_and_the_sentence_is_not(folder: Path, protocol: Protocol) -> None:
    bundle, key = read(folder, "exp3")
    for item in bundle.items:
        pair = protocol.pair[key.items[item.id].prompt]
        assert item.occupation == pair.target and pair.target in item.prompt
        assert pair.other not in item.prompt and "because" not in item.prompt


# Blindness


def values(found: Any) -> Iterator[str]:
    """Every word of a JSON document that is a value by itself."""
    if isinstance(found, dict):
        for part in found.values():
            yield from values(part)
    elif isinstance(found, list):
        for part in found:
            yield from values(part)
    else:
        yield str(found)


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_in_a_bundle_says_what_raters_must_not_know(
    run: Path, folder: Path, protocol: Protocol, preset: str
) -> None:
    files = sorted(path for path in (folder / preset).rglob("*") if path.is_file())
    content = b"\n".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)
    with Run.open_readonly(run) as seen:
        design = load_design(seen)
        secret = {word for t in design.trials for word in (t.key, t.edit, t.portrait, t.image, t.settings)}
        secret |= {word for p in design.portraits for word in (p.source_id, p.image)}
        secret |= {sha256 for (sha256,) in seen.query("SELECT sha256 FROM object")}
        secret |= {seen.id, protocol.hash, *EDITORS, protocol.mitigation.opening if protocol.mitigation else ""}
    _, key = read(folder, preset)
    assert not [word for word in {*secret, key.secret} if word.encode() in content]
    told = set(values(json.loads((folder / preset / bundles.FILE).read_text(encoding="utf-8"))))
    groups = {word for d in protocol.groups.dimensions.values() for g in d for word in (g.id, g.label)}
    arms = {arm.id for arm in protocol.manifest.arms} | {"published", "mitigate", "diagnose", "stereotype"}
    assert not told & (groups | arms | set(protocol.prompt) | set(protocol.pair))


def test_neither_order_nor_times_of_files_tell_anything(folder: Path) -> None:
    bundle, key = read(folder, "paper")
    assert [item.id for item in bundle.items] == sorted(bundle.item)
    first = [key.outputs[item.outputs[0].id].arm for item in bundle.items]
    assert all([o.id for o in item.outputs] == sorted(o.id for o in item.outputs) for item in bundle.items)
    assert len(set(first)) == 2, "no arm is always the first"
    times = {path.stat().st_mtime for path in (folder / "paper" / bundles.IMAGES).iterdir()}
    assert len(times) == 1
    for path in (folder / "paper" / bundles.IMAGES).iterdir():
        with Image.open(path) as image:
            assert not image.getexif() and not {"icc_profile", "exif"} & set(image.info)
            assert not image.info.get("comment")


def test_the_key_is_for_its_owner_alone(folder: Path) -> None:
    path = keys.path_of(folder / "paper")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent != folder / "paper"


def test_the_same_seed_and_secret_give_the_same_bundle(run: Path, folder: Path, tmp_path: Path) -> None:
    before, _ = read(folder, "exp2-pairwise")
    assert built(run, tmp_path / "again", "exp2-pairwise").bundle.hash == before.hash
    others = [built(run, tmp_path / f"{n}", "exp2-pairwise", secret="").bundle for n in range(2)]
    ids = [set(one.item) for one in (before, *others)]
    assert not ids[0] & ids[1] and not ids[1] & ids[2], "by default the secret is new every time"


# Pictures


def test_pictures_keep_their_shape_and_skin_its_tone(folder: Path) -> None:
    tall = np.zeros((900, 600, 3), np.uint8)
    assert images.fit_longer_side(images.lossless(tall), 512).shape[:2] == (512, 341)
    small = images.fit_longer_side(images.lossless(tall[:300, :200]), 512)
    assert small.shape[:2] == (512, 341), "smaller ones become as large as the others"
    for name in heads.keys()[::12]:
        head = heads.load(name)
        picture = heads.photograph(head)
        shown = np.asarray(
            Image.open(io.BytesIO(images.encode(images.fit_longer_side(images.lossless(picture), heads.SIZE), 95)))
        )
        apart = np.linalg.norm(srgb_to_lab(shown) - srgb_to_lab(picture), axis=-1)[head.skin > 250]
        mean = srgb_to_lab(shown)[head.skin > 250].mean(0) - srgb_to_lab(picture)[head.skin > 250].mean(0)
        assert np.median(apart) < 1 and np.linalg.norm(mean) < 0.3


def test_all_pictures_are_of_one_size_and_each_is_stored_once(folder: Path) -> None:
    bundle, _ = read(folder, "paper")
    assert {max(picture.width, picture.height) for picture in bundle.pictures.values()} == {heads.SIZE}
    assert {path.name for path in (folder / "paper" / bundles.IMAGES).iterdir()} == set(bundle.pictures)
    sources = {item.source.sha256 for item in bundle.items}
    assert len(sources) <= 4 < len(bundle.items)


# Evenness


def grid(protocol: Protocol, missing: int = 0) -> list[Case]:
    """The whole design: 84 people × 20 prompts × 3 editors; every `missing`-th case cannot be shown."""
    groups = protocol.groups
    people = [
        Portrait.of("s", f"{r}-{g}-{a}", "0" * 64, {"race": r, "gender": g, "age": a})
        for r in groups.ids("race")
        for g in groups.ids("gender")
        for a in groups.ids("age")
    ]
    made = [
        Case(
            person,
            prompt.id,
            editor,
            prompt.category,
            prompt.text,
            "",
            (_trial(person, prompt.id, editor),),
            ("",),
        )
        for person in people
        for prompt in protocol.prompts.prompts
        for editor in ("a", "b", "c")
    ]
    return [case for place, case in enumerate(made) if not missing or place % missing]


class _Named:
    def __init__(self, key: str) -> None:
        self.key = key


def _trial(person: Portrait, prompt: str, editor: str) -> Any:
    return _Named(f"{person.key}{prompt}{editor}")


def test_a_sample_is_even_in_every_margin_and_so_are_its_tasks(protocol: Protocol) -> None:
    dimensions = list(protocol.groups.dimensions)
    for missing in (0, 7):
        drawn = evenness.sample(grid(protocol, missing), 500, 1, protocol)
        assert len({case.key for case in drawn}) == 500
        counts = evenness.margins(drawn, dimensions)
        most = 2 if missing else 1
        assert all(max(c.values()) - min(c.values()) <= most for c in counts.values()), counts
        dealt = evenness.deal(drawn, [1] * 500, 10, 1, dimensions)
        assert {len(cases) for cases in dealt} == {50}
        assert max(evenness.widest(dealt, dimensions).values()) <= 2


def test_the_same_seed_draws_the_same_and_another_does_not(protocol: Protocol) -> None:
    some = grid(protocol)[::9]

    def drawn(cases: list[Case], seed: int) -> list[str]:
        return [case.key for case in evenness.sample(cases, 60, seed, protocol)]

    assert drawn(some, 1) == drawn(some, 1) != drawn(some, 2)


def test_a_fifth_is_rated_by_three_and_nobody_meets_an_item_twice(run: Path, tmp_path: Path) -> None:
    made = built(run, tmp_path / "overlap", "exp1", overlap=0.2, tasks=4).bundle
    times = Counter(item for task in made.tasks for item in task.items)
    assert {task.seats for task in made.tasks} == {1} and set(times) == set(made.item)
    assert Counter(times.values()) == {
        3: round(0.2 * len(made.items)),
        1: len(made.items) - round(0.2 * len(made.items)),
    }
    sizes = [len(task.items) for task in made.tasks]
    assert max(sizes) - min(sizes) <= 1
    with pytest.raises(InputError, match="2 tasks are too few"):
        built(run, tmp_path / "few", "exp1", overlap=0.2, tasks=2)
    with pytest.raises(InputError, match="every task has one rater"):
        built(run, tmp_path / "both", "exp1", overlap=0.2, raters=3)


# What is said, and what is refused


def test_what_was_built_is_told(run: Path, tmp_path: Path) -> None:
    made = built(
        run, tmp_path / "told", "paper", contact="ada@example.org", ethics="Approved by the board, no. 7."
    )
    said = made.words()
    assert "below the floor of 12.00" in said and "500 items were wanted" in said and str(made.key) in said
    assert "even in" in said and "No ethics" not in said
    consent = made.bundle.texts.consent.model_dump_json()
    assert "ada@example.org" in consent and "board, no. 7" in consent and "at least 18 years" in consent
    assert not re.search(r"\{[a-z_]+\}", made.bundle.texts.model_dump_json(exclude={"check"}))
    assert "ada@example.org" in made.bundle.texts.debrief[-1].model_dump_json()
    other = built(run, tmp_path / "other", "paper", contact="bob@example.org").bundle.texts.consent
    assert other.version != made.bundle.texts.consent.version, "another wording is another version"
    assert "not below the floor" in built(run, tmp_path / "fair", "exp1").words()
    assert "not below the floor" in built(run, tmp_path / "paid", "paper", reward=7.5).words()


def test_own_texts_may_be_given(run: Path, tmp_path: Path) -> None:
    page = "[{title: Page, paragraphs: ['About {minutes} minutes.']}]"
    own = f"contact: us\nquestions: Asked\nguide: {page}\nconsent: {page}\nstatements: [Yes]\ndebrief: {page}\n"
    (tmp_path / "own.yaml").write_text(own, encoding="utf-8")
    made = built(run, tmp_path / "own", "exp1", texts=tmp_path / "own.yaml").bundle
    assert made.texts.guide[0].title == "Page" and "minutes." in made.texts.guide[0].paragraphs[0]
    (tmp_path / "odd.yaml").write_text(own.replace("{minutes}", "{hours}"), encoding="utf-8")
    with pytest.raises(InputError, match=r"\{hours\} is not filled in"):
        built(run, tmp_path / "odd", "exp1", texts=tmp_path / "odd.yaml")


def test_what_cannot_be_is_refused_and_leaves_nothing(run: Path, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no experiment 'mitigate'.*Add 'mitigate'"):
        build(finished / "run", tmp_path / "a", Wanted("paper"))
    with pytest.raises(InputError, match="study preset"):
        build(run, tmp_path / "a", Wanted("exp9"))
    with pytest.raises(InputError, match="never says how the person"):
        build(run, tmp_path / "a", Wanted("paper", disclose=True))
    with pytest.raises(InputError, match="attention checks a task cannot be"):
        build(run, tmp_path / "a", Wanted("paper", checks=(1, 2)))
    with pytest.raises(InputError, match="do not fill 900 tasks"):
        build(run, tmp_path / "a", Wanted("paper", tasks=900))
    assert list(tmp_path.iterdir()) == []
    built(run, tmp_path / "a", "exp3")
    with pytest.raises(InputError, match="exists already"):
        built(run, tmp_path / "a", "exp3")
