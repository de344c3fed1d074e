from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urldefrag

import pytest

from stillme.ledger import Run
from stillme.report.browse import Limits, browse, linked, pictures, read
from stillme.report.browse.coding import ALPHABET, column, packed
from stillme.report.browse.gallery import LEFT_OUT
from stillme.report.browse.scripts import Scripts, encoded, without_paths
from stillme.report.build import build
from stillme.report.publish import findings_and_context, main_experiment
from stillme.report.review import linked as reviewing
from stillme.report.review.desk import Desk
from stillme.report.review.item import item
from stillme.report.review.query import Query
from stillme.report.review.state import State
from stillme.report.review.words import Words
from tests.report.browse import made
from tests.report.test_build import Text

RATE = (
    r'<a href="report/(browse/index\.html)#([^"]*outcome=(?:(?!happened)[^"])*)">[^<]*%</a>'
    r"\s*<small>[^<]*</small>\s*<small>(\d+)/\d+</small>"
)


def data(folder: Path, name: str) -> Any:
    """The last argument of the call that a data file is."""
    text = (folder / "browse" / "data" / name).read_text(encoding="ascii")
    inside = text[text.index("(") + 1 : text.rindex(")")]
    return json.loads(f"[{inside}]")[-1]


def every(folder: Path, kind: str) -> list[Any]:
    count = len(list((folder / "browse" / "data" / kind).iterdir()))
    parts = [data(folder, f"{kind}/{number}.js") for number in range(count)]
    return [one for part in parts for one in (part if kind == "records" else part["trials"])]


def test_columns_come_back_as_they_were() -> None:
    for most in (3, 63, 64, 4095, 4096, 100_000):
        values = [0, most, most // 2]
        made_ = packed(values)
        width, codes = made_["width"], made_["codes"]
        read_ = [codes[at : at + width] for at in range(0, len(codes), width)]
        assert [sum(ALPHABET.index(c) * 64**p for p, c in enumerate(reversed(one))) for one in read_] == values
    coded = column(["b", None, "a", "b"], ["a"])
    assert coded == {"values": ["a", "b", ""], "width": 1, "codes": "BCAB"}


def test_no_text_can_end_a_script(tmp_path: Path) -> None:
    Scripts(tmp_path).write("x.js", "f", {"a": made.HOSTILE, "b": "\x00 é ]]> // '"})
    text = (tmp_path / "x.js").read_bytes()
    assert b"<" not in text and b"\xe2\x80\xa8" not in text and text.isascii()
    assert json.loads(text[2:-3]) == {"a": made.HOSTILE, "b": "\x00 é ]]> // '"}
    assert encoded("\u2028") == '"\\u2028"'


def test_no_folder_of_this_machine_is_named(wall_run: Path, walled: Path) -> None:
    names = {str(wall_run.resolve()), str(wall_run), str(Path.home()) + "/", str(Path.cwd()) + "/"}
    for path in walled.rglob("*"):
        if path.is_file() and path.suffix != ".webp":
            text = path.read_text(encoding="utf-8")
            assert not [name for name in names if name in text], path
    assert without_paths({"a": ["/home/x/model", "C:\\x\\y", "plain", "a/b"]}) == {
        "a": ["…/model", "…/y", "plain", "a/b"]
    }


def test_records_say_what_the_review_tool_says(heads_run: Path) -> None:
    """Every experiment: what was asked, every judge's score, measurements, whom a judge saw."""
    folder = heads_run / "report"
    found, index = every(folder, "records"), data(folder, "index.js")
    with Run.open_readonly(heads_run) as seen:
        state = read(seen)
        words = Words(state.design)
        assert len(found) == state.trials.height == index["total"]
        experiments = set()
        for row, key in enumerate(state.trials["trial"]):
            theirs, ours = item(state, words, state.trial[key]), found[row]
            experiments.add(theirs.trial.experiment)
            assert (ours["lead"], ours["text"]) == (theirs.lead, theirs.text)
            assert {tuple(fact) for fact in ours["facts"]} <= set(theirs.facts)
            for one, other in zip(ours["scores"], theirs.scores, strict=True):
                given = [said if isinstance(said, int) else None for said in one[1]]
                assert (one[0], given) == (other.axis.id, [said.score for said in other.judges])
            assert [(o[1], o[2], [tuple(p) for p in o[3]]) for o in ours["opinions"]] == [
                (o.status, o.evidence, [(p.role, p.gender, p.note) for p in o.people]) for o in theirs.opinions
            ]
            measured = [[value for value in figures if value] for _, figures in ours["measured"]]
            assert measured == [[value for _, value, _ in one.figures] for one in theirs.measured]
    assert experiments == {"diagnose", "mitigate", "stereotype"}
    assert index["places"]["partner"]["codes"].strip("A")  # a scene has two sources


def test_the_raw_exchange_is_the_ledgers(wall_run: Path, walled: Path) -> None:
    exchanges = every(walled, "exchanges")
    assert len(exchanges) == 240
    answers = [call[9] for one in exchanges for _, _, calls in one["judges"] for call in calls]
    assert set(answers) == {'{"answer": "<b>as it came</b>"}'}
    with Run.open_readonly(wall_run) as seen:
        attempts = seen.query("SELECT count(*) FROM attempt")[0][0]
    assert len(answers) + sum(len(one["edit"]) for one in exchanges) == attempts
    assert all(
        one["instruction"] and one["settings"] in dict(data(walled, "index.js")["shared"]) for one in exchanges
    )


def test_a_second_writing_makes_no_picture_again(wall_run: Path, walled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    shutil.copytree(walled, folder)
    small = sorted((folder / "browse" / "thumbs").rglob("*.webp"))
    small[0].write_bytes(b"mine")
    small[1].unlink()
    (folder / "browse" / "data" / "records" / "99.js").write_text("stale")
    made.write(wall_run, folder)
    assert small[0].read_bytes() == b"mine" and small[1].read_bytes()[:4] == b"RIFF"
    assert not (folder / "browse" / "data" / "records" / "99.js").exists()
    with Run.open_readonly(wall_run) as seen:
        browse(read(seen), tmp_path / "new", "show", old=folder / "browse")
        assert (
            tmp_path / "new" / "thumbs" / small[0].relative_to(folder / "browse" / "thumbs")
        ).read_bytes() == b"mine"
        browse(read(seen), tmp_path / "blurred", "blur", old=folder / "browse")
    assert b"mine" not in {path.read_bytes() for path in (tmp_path / "blurred").rglob("*.webp")}


def test_writing_twice_writes_the_same(wall_run: Path, walled: Path, tmp_path: Path) -> None:
    again = made.write(wall_run, tmp_path / "wherever")
    for path in walled.rglob("*"):
        name = path.relative_to(walled)
        if path.is_file() and name.name not in (
            "index.js",
            "index.html",
        ):  # they lead to the run, and to the report
            assert (again / name).read_bytes() == path.read_bytes(), name
    assert data(again, "index.js")["originals"] == "" and data(walled, "index.js")["originals"] == "../../objects/"


def test_what_a_limit_leaves_out_is_said(wall_run: Path, tmp_path: Path) -> None:
    folder = made.write(wall_run, tmp_path, limits=Limits(pictures=10, exchanges=20))
    index = data(folder, "index.js")
    assert "Pictures of 10 of the 240 edits are here, drawn by their keys." in index["notes"]
    assert "Raw exchanges of 20 of the 240 edits are here, drawn by their keys." in index["notes"]
    exchanges = every(folder, "exchanges")
    assert sum(one is not None for one in exchanges) == 20 and len(exchanges) == 240
    assert exchanges[:20].count(None) > 0  # a draw, not the first ones


@pytest.mark.parametrize("faces", ["show", "none"])
def test_every_link_of_the_pages_leads_somewhere(wall_run: Path, walled: Path, tmp_path: Path, faces: str) -> None:
    folder = walled if faces == "show" else made.write(wall_run, tmp_path, faces)
    keys = data(folder, "index.js")["keys"]
    known = {keys[at : at + 64] for at in range(0, len(keys), 64)}
    for page in ("browse/index.html", "pictures/index.html"):
        links = Text((folder / page).read_text(encoding="utf-8"))
        assert len(links.ids) == len(set(links.ids))
        for link in links.links:
            path, fragment = urldefrag(link)
            assert not path or (folder / page).parent.joinpath(path).is_file(), link
            if fragment.startswith("show="):
                assert fragment[5:] in known
            elif fragment and not path:
                assert fragment in links.ids


def test_the_page_of_pictures_escapes_what_judges_wrote_and_keeps_it_verbatim(walled: Path) -> None:
    page = (walled / "pictures" / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;/script&gt;" in page
    told = json.loads((walled / "pictures" / "pictures.json").read_text(encoding="utf-8"))
    assert {said["evidence"] for case in told["cases"] for said in case["said"] if not said["status"]} == {
        made.HOSTILE
    }
    assert len(told["cases"]) == 12 and len(told["grids"]) == 2
    lines = (walled / "pictures" / "mosaic.csv").read_text().splitlines()
    assert len(lines) - 1 == len(told["mosaic"]["tiles"]) and re.match(r"row,column,trial,editor", lines[0])


def test_words_stand_where_a_picture_of_a_case_is_left_out(wall_run: Path, tmp_path: Path) -> None:
    with Run.open_readonly(wall_run) as seen:
        pictures(read(seen), tmp_path / "pictures", "none")
    page = (tmp_path / "pictures" / "index.html").read_text(encoding="utf-8")
    assert ">None<" not in page
    cases = re.findall(r'<figure class="side">\s*<span class="surround none">([^<]*)</span>', page)
    assert cases == [LEFT_OUT] * 24
    assert [path.name for path in tmp_path.iterdir()] == ["pictures"], "nothing to browse beside them"


def test_every_number_of_the_report_leads_to_its_edits(wall_run: Path, walled: Path) -> None:
    """As many edits as the number says, and the review tool's own page leads to its own."""
    with Run.open_readonly(wall_run) as seen:
        desk = Desk(seen)
        state = desk.state()
        main = main_experiment(state.design)
        html = build(*findings_and_context(seen, state.design))
        page = linked(html, state.design, "report")
        assert page.count('<a href="report/browse/index.html#') > 50
        rates = re.findall(RATE, page)
        assert len(rates) > 10
        for path, query, hits in rates:
            assert (walled / path).is_file()
            assert len(desk.kept(state, asked(state, unescape(query)))) == int(hits), query
    again = reviewing.link(page, main)
    assert "browse/index.html" not in again and again == reviewing.link(html, main)
    assert re.sub(r"</?a\b[^>]*>", "", page) == re.sub(r"</?a\b[^>]*>", "", html)  # nothing else has changed


def asked(state: State, text: str) -> Query:
    return Query.read(parse_qsl(text), state.protocol.groups.dimensions)
