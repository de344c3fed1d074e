from __future__ import annotations

from pathlib import Path

import pytest
from bench import sources


@pytest.mark.slow
def test_the_bench_makes_shards_that_are_sampled(tmp_path: Path) -> None:
    """A small one, the readers alone: 7 portraits in cells that have so many, all of those in cells that have fewer."""
    folder = tmp_path / "shards"
    sources.make(folder, 2000)
    assert len(list(folder.glob("*.parquet"))) == sources.SHARDS
    taken = sources.run("readers", folder)
    assert 84 < taken.portraits <= 84 * sources.POOLS
    assert taken.megabytes < sources.TARGET_MEGABYTES


def test_a_page_has_ratios_to_the_first_way_and_a_missed_target_is_said() -> None:
    taken = {"readers": sources.Taken(2.5, 2.0, 100.0, 588), "pandas": sources.Taken(6.5, 5.0, 3000.0, 588)}
    _, ours, peer = sources.page(taken)
    assert ours.split()[-6:] == ["2.5", "2.0", "1.0×", "100", "1.0×", "588"]
    assert peer.split()[-6:] == ["6.5", "5.0", "2.5×", "3,000", "30.0×", "588"]
    assert sources.missed(taken) == []
    over = {"sample": sources.Taken(2.0, 2.0, 600.0, 588)}
    assert sources.missed(over) == ["stillme sources sample, the whole step: 600 MB, the target is below 500"]
