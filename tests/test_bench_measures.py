from __future__ import annotations

import numpy as np
import pytest
from bench.measures import edits, peer
from bench.measures.page import Section, number, table
from bench.measures.separation import auc, difference, separation


def test_auc_counts_pairs_in_order_and_half_of_the_ties() -> None:
    assert auc([3, 4], [1, 2]) == 1
    assert auc([1, 2], [1, 2]) == 0.5
    assert auc([1], [1, 2]) == 0.25
    assert auc([], [1]) is None


def test_separation_uses_what_was_read_only() -> None:
    assert separation({"a": 60.0, "c": 40.0}, ["a", "b"], ["c", "d"]) == 1
    assert separation({"a": 60.0}, ["a"], ["c"]) is None


def test_a_way_differs_from_itself_by_nothing_and_from_its_reverse_by_much() -> None:
    lighter, darker = [f"l{n}" for n in range(12)], [f"d{n}" for n in range(12)]
    read = {name: 60.0 + n for n, name in enumerate(lighter)} | {name: 30.0 + n for n, name in enumerate(darker)}
    assert difference(read, read, lighter, darker) == (0, 0)
    turned = {name: -value for name, value in read.items()}
    assert difference(read, turned, lighter, darker) == (1, 1)
    assert difference(read, {}, lighter, darker) is None


def test_the_peer_s_fallback_is_no_reading_of_a_face() -> None:
    found = peer.Round(2.0, [("#FFFFFF", True, 0.1), ("#000000", False, 0.3), (None, False, 0.2)])
    assert found.rate == 1.5
    assert found.cpu == pytest.approx(200)
    assert found.read(["a", "b", "c"]) == {"a": pytest.approx(100, abs=0.01)}
    assert found.read(["a", "b", "c"], fallback=True).keys() == {"a", "b"}


def test_ours_gives_lightness_as_it_is() -> None:
    assert peer.lightness(54.3) == 54.3


def test_the_planted_mask_covers_the_face_and_fades_before_the_background() -> None:
    mask = edits.feathered((200, 200), (70, 60, 60, 80))
    assert mask[60:140, 100].min() == 255
    assert mask[100, 70:130].min() == 255
    assert mask[:, :40].max() == 0
    assert mask[:24].max() == 0


def test_a_shift_needs_room() -> None:
    assert edits.has_room(50, 12)
    assert edits.has_room(50, -12)
    assert not edits.has_room(14, -12)
    assert not edits.has_room(90, 12)


def test_a_change_of_light_keeps_the_order_of_levels() -> None:
    grey = np.repeat(np.arange(0, 256, 5, dtype=np.uint8)[None, :, None], 3, axis=2)
    for relight in edits.RELIT.values():
        assert (np.diff(relight(grey)[0, :, 0].astype(int)) >= 0).all()


def test_a_table_lines_up_and_a_missed_target_is_said() -> None:
    assert table(("", "n"), [("a", "10"), ("bc", "9")]) == ["     n", "a   10", "bc   9"]
    page = Section("Title")
    page.want(True, "met")
    page.want(False, "not met")
    assert page.text() == "== Title\nMISSED: not met\n"


def test_numbers_have_no_negative_zero() -> None:
    assert number(-0.001, sign=True) == "+0.00"
    assert number(None) == "-"
