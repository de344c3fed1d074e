"""The review tool over HTTP, without a browser: pages, forms, pictures, and the report's numbers as links."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest
from starlette.testclient import TestClient

from stillme.core.records import MITIGATE, STEREOTYPE
from stillme.ledger import Run
from stillme.plan.design import load_design
from stillme.report import publish
from stillme.report.build import build
from stillme.report.review.app import make_app
from stillme.report.review.desk import Decision, Desk
from stillme.report.review.linked import about
from stillme.report.sections.outcomes import LOOK
from stillme.web.middleware import Sessions
from tests.report.browse.made import heads_run
from tests.report.browse.test_bundle import asked

KEY = b"s" * 64
OURS = {"Origin": "http://localhost"}
PAGES = ("/samples", "/samples?flag=open", "/samples?editor=nobody", "/samples?page=3", "/decisions")

Enter = Callable[..., TestClient]


def visit(desk: Desk, reviewer: str) -> TestClient:
    client = TestClient(make_app(desk, reviewer, KEY), "http://localhost", headers=OURS)
    name = reviewer or "reviewer"
    answer = client.get("/enter", params={"key": Sessions(KEY, [name]).key(name)})
    assert answer.url.path == "/samples"
    return client


@pytest.fixture
def enter(desk: Desk) -> Enter:
    return lambda reviewer="anna": visit(desk, reviewer)


def a_flag(desk: Desk) -> tuple[str, str]:
    """A trial and an axis on which its judges are apart."""
    state = desk.state()
    row = state.axes[state.rounding].filter("open").row(0, named=True)
    return row["trial"], row["axis"]


def total(page: str) -> tuple[int, int]:
    """How many edits a page says that there are, and of how many persons."""
    found = re.search(r'data-total="(\d+)" data-persons="(\d+)"', page)
    assert found
    return int(found[1]), int(found[2])


def token(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found
    return found[1]


def test_every_page_opens_and_none_without_a_session(enter: Enter, desk: Desk) -> None:
    trial, _ = a_flag(desk)
    picture = desk.state().trials["image"].drop_nulls()[0]
    anna = enter()
    outside = TestClient(anna.app, "http://localhost")
    for page in (*PAGES, f"/samples/{trial}?flag=open", f"/image/{picture}", f"/thumb/{picture}?s=192"):
        assert anna.get(page).status_code == 200, page
        assert outside.get(page).status_code == 401, page
    assert "script-src 'self'" in anna.get("/samples").headers["content-security-policy"]


def test_what_is_not_there_is_not_shown(enter: Enter, run: Path) -> None:
    anna = enter()
    for page in ("/samples/nothing", "/image/" + "0" * 64, "/thumb/x?s=192", "/go?to=next&from=nothing"):
        assert anna.get(page).status_code == 404, page
    with Run.open_readonly(run) as seen:
        known = seen.query("SELECT image FROM portrait LIMIT 1")[0][0]
    assert anna.get(f"/thumb/{known}?s=500").status_code == 404


def test_a_page_of_edits_says_how_many_there_are_and_shows_24(enter: Enter) -> None:
    anna = enter()
    page = anna.get("/samples?editor=even&race=white").text
    assert total(page) == (60, 12) and page.count('class="card"') == 24
    last = anna.get("/samples?editor=even&race=white&page=3").text
    assert last.count('class="card"') == 12 and "49 – 60, page 3 of 3" in last
    assert 'rel="next"' not in last and "Editor: <strong>even</strong>" in last
    assert "No edit is like this" in anna.get("/samples?editor=nobody").text
    assert anna.get("/samples?text=<script>x").text.count("<script>x") == 0


def test_an_edit_is_shown_with_everything_that_is_known(enter: Enter, desk: Desk) -> None:
    trial, axis = a_flag(desk)
    page = enter().get(f"/samples/{trial}?flag=open").text
    shown = desk.state().trial[trial]
    rubric = desk.state().protocol.axes[axis]
    for words in (shown.instruction, "Both were compared.", rubric.label, *rubric.scale.values()):
        assert html.escape(words, quote=True).replace("&#x27;", "&#39;") in page, words
    assert "&lt;b&gt;as it came&lt;/b&gt;" in page and "input 900" in page and "0.0020 USD" in page
    assert "judges apart: the primary" in page and "flag open" in page
    assert len(set(re.findall(r'<img src="/image/(\w+)"', page))) == 2


def test_deciding_by_form_is_saved_before_it_is_said(enter: Enter, desk: Desk, run: Path) -> None:
    trial, axis = a_flag(desk)
    anna = enter()
    page = anna.get(f"/samples/{trial}?flag=open").text
    sent = {"token": token(page), "op": str(uuid4()), "trial": trial, "axis": axis, "query": "flag=open"}
    answer = anna.post("/decide", data={**sent, "score": "4", "why": "The light is the same."})
    assert answer.url.path == f"/samples/{trial}" and "Saved" in answer.text
    assert "flag=open" in str(answer.url), "the filters go on"
    assert "decided by a person" in answer.text and "The light is the same." in answer.text
    with Run.open_readonly(run) as seen:
        (made,) = seen.adjudications()
    assert (made.reviewer, made.axis, made.score, made.reason) == ("anna", axis, 4, "The light is the same.")
    back = anna.post("/decide", data={**sent, "withdraw": "yes", "why": "Looked again."})
    assert "took it back" in back.text and len(desk.run.adjudications()) == 2
    log = anna.get("/decisions").text
    assert log.count("<tr>") == 3 and "taken back" in log


def test_every_experiment_can_be_looked_at(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = Path(shutil.copytree(heads_run(tmp_path_factory), tmp_path / "run"))
    with Run.join(copy) as joined:
        desk = Desk(joined)
        client = visit(desk, "anna")
        trials = list(desk.state().trial.values())
        scene = next(one for one in trials if one.experiment == STEREOTYPE)
        led = next(one for one in trials if one.experiment == MITIGATE and one.arm == "feature")
        for one, words in ((scene, "gender presentation"), (led, 'class="lead">Maintain the person')):
            grid = client.get(f"/samples?experiment={one.experiment}").text
            assert total(grid)[0] == sum(other.experiment == one.experiment for other in trials)
            assert words in client.get(f"/samples/{one.key}").text
        page = client.get(f"/samples/{scene.key}").text
        shown = set(re.findall(r'<img src="/image/(\w+)"', page))
        assert {scene.image, scene.partner_image} < shown and len(shown) == 3
        assert page.count("Save the decision") == 1, "a scene is decided by its target alone"


def test_a_form_from_elsewhere_changes_nothing(enter: Enter, desk: Desk) -> None:
    trial, axis = a_flag(desk)
    anna = enter()
    sent = {"op": str(uuid4()), "trial": trial, "axis": axis, "score": "4", "why": "x"}
    assert anna.post("/decide", data=sent).status_code == 403
    assert anna.post("/decide", data=sent, headers={"Origin": "http://evil"}).status_code == 403
    body = {"op": str(uuid4()), "trial": trial, "axis": axis, "score": 4, "why": "x"}
    assert anna.post("/api/decide", json=body, headers={"Origin": "http://evil"}).status_code == 403
    assert anna.post("/api/decide", json={**body, "score": "4"}).status_code in (200, 422)
    assert anna.post("/api/decide", json={**body, "more": 1}).status_code == 422
    assert anna.post("/api/decide", json={**body, "why": ""}).status_code == 409


def test_the_name_on_the_command_line_holds_and_else_the_page_asks(enter: Enter, desk: Desk) -> None:
    trial, axis = a_flag(desk)
    body = {"trial": trial, "axis": axis, "score": 4, "why": "x"}
    assert enter("anna").post("/api/decide", json={**body, "op": str(uuid4()), "who": "eve"}).status_code == 200
    somebody = enter("")
    assert 'name="who"' in somebody.get(f"/samples/{trial}").text
    assert somebody.post("/api/decide", json={**body, "op": str(uuid4())}).status_code == 409
    assert somebody.post("/api/decide", json={**body, "op": str(uuid4()), "who": "Jörg王"}).status_code == 200
    assert 'name="who" value="Jörg王"' in somebody.get(f"/samples/{trial}").text, "it is remembered"
    assert [one.reviewer for one in desk.run.adjudications()] == ["anna", "Jörg王"]


# From a number to its samples

CELL = re.compile(r'<t[dh][^>]* data-samples="([^"]*)"[^>]*>([^<]*[^<\s])((?:\s*<small>[^<]*</small>)*)')
PARTS = re.compile(r"([\d,]+)/([\d,]+)")


@pytest.fixture(scope="module")
def report(small: Path) -> str:
    with Run.open_readonly(small) as seen:
        return build(*publish.findings_and_context(seen, load_design(seen)))


def printed(text: str, small: str) -> tuple[str, int]:
    """What a cell counts: its edits, or its persons."""
    if persons := re.search(r"([\d,]+) persons?\b(?!: no interval)", small):
        return "persons", int(persons[1].replace(",", ""))
    found = PARTS.search(small)
    return "edits", int((found[1] if found else text).replace(",", ""))


def test_every_number_of_the_report_leads_to_as_many_samples_as_it_says(
    enter: Enter, desk: Desk, report: str
) -> None:
    anna = enter()
    cells = [(html.unescape(query), text, small) for query, text, small in CELL.findall(report)]
    state = desk.state()
    main = publish.main_experiment(state.design)
    assert len(cells) > 300
    happened = ("outcome=", "happened=missing", "happened=judged")
    for word in (*happened, "single=yes", "flag=flagged", "status=", "ended="):
        assert any(word in query for query, *_ in cells), word
    for query, text, small in dict.fromkeys(cells):
        page = desk.page(state, asked(state, about(query, main)))
        unit, number = printed(text, small)
        assert (page.total if unit == "edits" else page.persons) == number, (query, text, small)
    query, text, small = next(cell for cell in cells if "happened" not in cell[0] and "outcome" in cell[0])
    assert total(anna.get(f"/samples?{about(query, main)}").text)[0] == printed(text, small)[1]


def test_the_report_is_served_with_links_and_the_file_stays_without(
    enter: Enter, desk: Desk, run: Path, report: str
) -> None:
    assert '<a href="/' not in report and report.count(LOOK) == 1
    trial, axis = a_flag(desk)
    anna, path = enter(), run / "report.html"
    path.write_text(f"{report}\n<p>from disk</p>{desk.mark()}\n", encoding="utf-8")
    written = path.read_bytes()
    served = anna.get("/report")
    assert "from disk" in served.text
    policy = served.headers["content-security-policy"]
    assert "sha256-" in policy and "'self'" not in policy and "frame-ancestors 'none'" in policy
    assert "leads to the edits behind it" in served.text and LOOK not in served.text
    links = re.findall(r'<a href="(/samples\?[^"]*)">([^<]+)</a>', served.text)
    assert len(links) >= len(CELL.findall(report))
    card = next(href for href, _ in links if "trial=" in href)
    assert total(anna.get(html.unescape(card)).text) == (1, 1)
    anna.post("/api/decide", json={"op": str(uuid4()), "trial": trial, "axis": axis, "score": 4, "why": "x"})
    anew = anna.get("/report").text
    assert "from disk" not in anew and "leads to the edits behind it" in anew, "made anew after a decision"
    assert path.read_bytes() == written, "looking writes no report"


def test_decisions_are_counted_in_the_report_and_stand_in_the_export(
    desk: Desk, run: Path, tmp_path: Path
) -> None:
    trial, axis = a_flag(desk)
    desk.decide("anna", Decision(op=uuid4(), trial=trial, axis=axis, cannot_tell=True, why="too dark"))
    with Run.open_readonly(run) as seen:
        design = load_design(seen)
        findings, *_ = publish.findings_and_context(seen, design)
        publish.export(seen, design, tmp_path / "out", "csv")
    assert findings is not None and findings.by_editor["adjudicated"].sum() >= 1
    scores = pl.read_csv(tmp_path / "out/scores.csv").filter((pl.col("trial") == trial) & (pl.col("axis") == axis))
    assert scores.select("score", "standing", "flagged", "open").rows() == [(None, "cannot_tell", True, False)]
    assert "| standing |" in (tmp_path / "out/columns.md").read_text(encoding="utf-8")
