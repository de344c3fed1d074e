from __future__ import annotations

import hashlib
from pathlib import Path

from stillme.core import images
from stillme.engine.backends import BackendContext
from stillme.protocol import Protocol, from_files
from stillme.sources.synthetic import Settings, prepare


def test_one_portrait_a_cell_in_the_protocols_order(protocol: Protocol) -> None:
    found = list(prepare(Settings(), BackendContext(Path(), protocol)).make().portraits())
    grid = protocol.groups
    cells = [(r, g, a) for r in grid.ids("race") for g in grid.ids("gender") for a in grid.ids("age")]
    assert [tuple(portrait.labels[d] for d in grid.dimensions) for portrait, _ in found] == cells
    assert len({portrait.image for portrait, _ in found}) == 84


def test_images_are_what_their_hashes_say_and_carry_no_group(protocol: Protocol) -> None:
    source = prepare(
        Settings(groups={"age": ("20s",), "gender": ("male",)}), BackendContext(Path(), protocol)
    ).make()
    found = list(source.portraits())
    assert len(found) == 7
    for portrait, content in found:
        assert hashlib.sha256(content).hexdigest() == portrait.image
        assert images.inspect(content) == images.ImageInfo("jpg", 384, 384)
        assert not any(group.encode() in content for group in portrait.labels.values())


def test_only_cells_of_the_protocols_design(protocol: Protocol) -> None:
    groups = protocol.files["groups.yaml"].splitlines()
    fewer = "\n".join(line for line in groups if "id: latino" not in line)
    smaller = from_files({**protocol.files, "groups.yaml": fewer}, "x")
    found = [p for p, _ in prepare(Settings(), BackendContext(Path(), smaller)).make().portraits()]
    assert len(found) == 6 * 2 * 6 and all(p.labels["race"] != "latino" for p in found)


def test_the_same_every_time(protocol: Protocol) -> None:
    source = prepare(Settings(groups={"race": ("indian",)}), BackendContext(Path(), protocol)).make()
    assert [p for p, _ in source.portraits()] == [p for p, _ in source.portraits()]


def test_it_says_that_looks_are_placeholders(protocol: Protocol) -> None:
    assert (
        "placeholders, not representations of groups"
        in prepare(Settings(), BackendContext(Path(), protocol)).description
    )
