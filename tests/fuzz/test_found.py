"""What fuzzing found, one test each: inputs that crashed once."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from multidict import CIMultiDict
from PIL import Image

from stillme.analysis.tables import files, reading, writing
from stillme.assurance import lint
from stillme.assurance.evidence import archive
from stillme.core import images
from stillme.core.errors import ConfigIssuesError, InputError, SetupError
from stillme.core.images import BadImageError
from stillme.core.records import EditRequest, Status
from stillme.core.table_files import DamagedError, read_parquet
from stillme.editors import bfl, gemini, openai
from stillme.engine.http import Client, ClientConfig, HttpRequest, RemoteError, parse_retry_after
from stillme.ledger import Run
from stillme.plan import config
from stillme.plan.design import load_design
from stillme.protocol import builtin
from stillme.sources import Reason, RowIssue
from stillme.sources.files import open_files
from stillme.sources.tables import open_table
from stillme.study import bundle as bundles
from stillme.study import ratings
from stillme.study.builder import key as keys
from stillme.study.prolific import hooks
from stillme.study.prolific.client import single
from stillme.web.middleware import is_ours
from tests.conftest import dump_audit
from tests.fuzz.archives import KEY, RATINGS
from tests.fuzz.ledger import _made, _unguarded
from tests.fuzz.pictures import bomb, saved
from tests.fuzz.replies import ADDRESS, Canned, canned, parsed

DEEP = b"[" * 100_000
PNG = saved("RGB", "PNG")
FOUND = Path(__file__).with_name("found")


# Pictures


@pytest.mark.parametrize(
    "content", [bomb(60_000, 60_000), PNG[:20], b"BM" + b"\xff" * 60, saved("RGB", "TIFF")[:30], b""]
)
def test_heads_that_cannot_be_read_have_no_comment_and_no_type(content: bytes) -> None:
    assert images.comment(content) == "" and images.media_type(content) == ""


def test_no_format_is_opened_that_another_program_would_run() -> None:
    """Pillow has Ghostscript decode PostScript."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n"
    assert Image.open(io.BytesIO(postscript)).format == "EPS"
    with pytest.raises(BadImageError, match="is not an image file"):
        images.inspect(postscript)


def test_a_strip_is_not_enlarged_beyond_the_limit() -> None:
    strip = io.BytesIO()
    Image.new("L", (60_000, 4)).save(strip, "PNG")
    with pytest.raises(BadImageError, match="would have 15360000 × 1024 pixels"):
        images.upscale(strip.getvalue(), 1024, "lanczos")


# Services


def reply(editor: Any, *answers: tuple[int, Any]) -> Any:
    client = canned(editor)
    turns = iter(
        [
            (status, CIMultiDict({"Content-Type": "application/json"}), json.dumps(said).encode())
            for status, said in answers
        ]
    )

    async def attempt(call: Any, sent: Any, seconds: float) -> Any:
        client.given = next(turns)
        return await Canned._attempt(client, call, sent, seconds)

    client._attempt = attempt  # type: ignore[method-assign]
    return asyncio.run(editor.edit(EditRequest("key", PNG, "Add glasses.", 7)))


@pytest.mark.parametrize("details", [["a"], "a", 5])
def test_token_counts_of_another_shape_are_none(details: Any) -> None:
    editor = openai.OpenaiEditor(openai.Settings(model="m", base_url=ADDRESS), None)
    made = {"data": [{"b64_json": base64.b64encode(PNG).decode()}], "usage": {"input_tokens_details": details}}
    assert reply(editor, (200, made)).status is Status.OK


@pytest.mark.parametrize("parts", [5, True, "a", {"text": "b"}, None])
def test_parts_of_another_shape_are_none(parts: Any) -> None:
    editor = gemini.GeminiEditor(gemini.Settings(model="m", base_url=ADDRESS), None)
    said = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    assert reply(editor, (200, said)).status is Status.SERVER_ERROR


@pytest.mark.parametrize("odd", ["a", ["b"], 3])
def test_our_own_servers_words_of_another_shape_are_none(odd: Any) -> None:
    editor = openai.OpenaiEditor(openai.Settings(model="m", service="stillme", base_url=ADDRESS), None)
    told = {"made": odd, "notes": odd, "extras": odd}
    made = reply(editor, (200, {"data": [{"b64_json": base64.b64encode(PNG).decode()}], "stillme": told}))
    assert (made.status, made.notes, made.extras) == (Status.OK, {}, {})


@pytest.mark.parametrize("result", [[], "a", 4, {"sample": "http://["}, {"sample": "http://127.0.0.1:999999/x"}])
def test_a_result_of_another_shape_is_a_failure_of_the_service(result: Any) -> None:
    editor = bfl.BflEditor(bfl.Settings(model="m", base_url=ADDRESS), None)
    task = {"id": "n", "polling_url": f"{ADDRESS}/p"}
    assert reply(editor, (200, task), (200, {"status": "Ready", "result": result})).status is Status.SERVER_ERROR


@pytest.mark.parametrize("cost", [-1, True, 1e308])
def test_a_cost_that_is_none_is_what_is_expected(cost: Any) -> None:
    editor = bfl.BflEditor(bfl.Settings(model="flux-2-pro", base_url=ADDRESS), None)
    assert 0 < editor.charged_usd({"cost": cost}) < 1


@pytest.mark.parametrize("body", [DEEP, b'{"error":' * 700 + b"1" + b"}" * 700])
def test_an_error_nested_too_deeply_is_its_text(body: bytes) -> None:
    response: Any = SimpleNamespace(status=500, headers=CIMultiDict(), reason="no")
    error = Client(ADDRESS, ClientConfig())._failed(response, body)
    assert isinstance(error, RemoteError) and error.kind is Status.SERVER_ERROR


def test_a_key_is_hidden_in_headers_and_in_answers_too() -> None:
    client = Canned(ADDRESS, ClientConfig(), {"x-key": "a-long-secret"})
    client.given = parsed(
        b'200\nContent-Type: application/json\nx-request-id: a-long-secret\n\n{"a": "a-long-secret"}'
    )
    answer: Any = asyncio.run(client._attempt(HttpRequest("GET", "x", paced=False), None, 1))
    assert (answer.json, answer.request_id) == ({"a": "…"}, "…") and b"secret" not in answer.body


@pytest.mark.parametrize(
    "date", ["Wed, 21 Oct 99999999999999999999 07:28:00 GMT", "Mon, 01 Jan 0001 00:00:00 +2359", "9" * 400]
)
def test_a_date_that_is_none_asks_for_no_wait(date: str) -> None:
    waits = parse_retry_after({"Retry-After": date})
    assert waits is None or waits >= 0


# Tables


def table(folder: Path, **columns: Any) -> Path:
    good = {"person": "p", "editor": "e", "prompt": "O-01", "axis": "race_drift", "score": 1, "race": "white"}
    pl.DataFrame({name: [value] for name, value in {**good, **columns}.items()}).write_parquet(
        folder / "t.parquet"
    )
    return folder / "t.parquet"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"prompt": ["O-01"]}, "prompt: holds lists"),
        ({"score": [1]}, "score: holds lists"),
        ({"editor": b"e"}, "editor: holds lists"),
        ({"score": 1e30}, "score: 1e+30 is not a whole number"),
        ({"score": float("inf")}, "score: inf is not a whole number"),
    ],
)
def test_scores_of_another_type_are_faults(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigIssuesError) as caught:
        reading.read_scores(files.read(table(tmp_path, **columns)), builtin(), "paper")
    assert said in str(caught.value)


def test_columns_named_as_our_own_do_not_matter(tmp_path: Path) -> None:
    found = reading.read_scores(files.read(table(tmp_path, _row=7, _value=1, embedding=[0.5])), builtin(), "paper")
    assert found.scores["as given"].height == 1


@pytest.mark.parametrize("read", [files.read, lambda path: lint.lint([path])])
def test_a_size_that_cannot_be_true_is_a_sentence(tmp_path: Path, read: Any) -> None:
    """polars would ask for two exabytes and end the process; the same bytes, told to be a page of −1 values."""
    (tmp_path / "t.parquet").write_bytes((FOUND / "endless.parquet").read_bytes())
    with pytest.raises(InputError, match=r"t\.parquet cannot be read as a table: .*negative number of values"):
        read(tmp_path / "t.parquet")


def test_a_panic_of_polars_is_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no Exception. Without pyarrow polars reads alone."""

    def panic(*_: Any, **__: Any) -> None:
        raise pl.exceptions.PanicException("assertion failed\nhere")

    monkeypatch.setattr(pl, "read_parquet", panic)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DamagedError, match=r"^assertion failed$"):
        read_parquet(b"PAR1")


def test_counts_that_no_ledger_holds_are_faults(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(RATINGS.replace(",4000,", f",{2**63},"), encoding="utf-8")
    sheet = ratings._table(tmp_path, "ratings", ratings.RATINGS, {})
    assert [fault.field for fault in ratings._misfits(sheet, KEY)] == ["ms", "ms"]


def test_answers_that_are_lists_are_refused(tmp_path: Path) -> None:
    frame = pl.read_csv(RATINGS.encode()).with_columns(
        value=pl.lit([[1], [2]], pl.List(pl.List(pl.Int64))).explode()
    )
    frame.write_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match="holds no words or numbers"):
        ratings._table(tmp_path, "ratings", ratings.RATINGS, {})


def test_text_that_is_none_loses_its_rows_and_not_the_table(tmp_path: Path) -> None:
    """Bytes in place of text, as a flipped bit leaves them."""
    pq.write_table(pa.table({"file": ["aaaa.jpg"], "age": ["20"]}), tmp_path / "t.parquet", compression="none")
    damaged = (tmp_path / "t.parquet").read_bytes().replace(b"aaaa.jpg", b"\xff\xfeaa.jpg")
    (tmp_path / "t.parquet").write_bytes(damaged)
    (remark,) = open_table(tmp_path / "t.parquet", ["file"]).rows()
    assert isinstance(remark, RowIssue) and remark.reason is Reason.CORRUPT


# Files


def test_a_member_without_a_name_is_passed_over(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "faces.zip", "w") as made:
        made.writestr("a.jpg", b"a")
    whole = (tmp_path / "faces.zip").read_bytes()
    at = whole.index(b"PK\x01\x02")
    central = bytearray(whole[at:])
    central[28:30] = b"\0\0"  # the length of the name
    central[46:51] = b""
    end = central.index(b"PK\x05\x06")
    central[end + 12 : end + 16] = struct.pack("<I", end)
    (tmp_path / "faces.zip").write_bytes(whole[:at] + central)
    assert list(open_files(tmp_path / "faces.zip").names()) == []


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bundle_packed_as_none_is_refused(tmp_path: Path, packing: int) -> None:
    with zipfile.ZipFile(tmp_path / "e.zip", "w", packing) as made:
        made.writestr("MANIFEST.json", "{}")
    with (
        pytest.raises(InputError, match="packed in a way that no bundle is"),
        archive.open_bundle(tmp_path / "e.zip"),
    ):
        pass


def test_json_nested_too_deeply_is_a_sentence(tmp_path: Path) -> None:
    for name in ("bundle.json", "study.key.json", "export.json"):
        (tmp_path / name).write_bytes(DEEP)
    with pytest.raises(InputError, match="is not a bundle"):
        bundles.read(tmp_path)
    with pytest.raises(InputError, match="is not a key file"):
        keys.read(tmp_path / "study.key.json")
    with pytest.raises(InputError, match="is not an export"):
        ratings._told(tmp_path, KEY)
    assert hooks._about(DEEP) == ""


def test_what_an_analysis_left_names_nothing_outside_its_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "a" / writing.FILES / "t.csv", tmp_path / "precious.csv"
    inside.parent.mkdir(parents=True)
    for path in (inside, outside):
        path.write_text("x", encoding="utf-8")
    (tmp_path / "a/about.json").write_text(json.dumps({"tables": ["t", "../../precious", 5]}), encoding="utf-8")
    writing.clear(tmp_path / "a", "about.json")
    assert outside.is_file() and not inside.exists()


def test_names_longer_than_any_file_are_faults(tmp_path: Path) -> None:
    dump_audit(tmp_path / "audit.yaml", editors=[{"id": "a", "kind": "planted", "settings": {"truth": "x" * 300}}])
    with pytest.raises(ConfigIssuesError, match=r"editors\[0\]\.settings: names a file that cannot be read"):
        config.load(tmp_path / "audit.yaml")
    dump_audit(tmp_path / "audit.yaml", protocol="x" * 300)
    with pytest.raises(ConfigIssuesError, match="protocol: "):
        config.load(tmp_path / "audit.yaml")


def test_half_a_character_is_printed_all_the_same() -> None:
    assert str(InputError("it says \ud800.", "Look \udfff.")) == "it says \\ud800. Look \\udfff."


# Prolific, and browsers


@pytest.mark.parametrize("amount", [float("inf"), float("nan"), 1e400])
def test_endless_money_is_none(amount: float) -> None:
    assert single({"id": "s", "status": "ACTIVE", "bonus_payments": [amount], "time_taken": amount}).bonuses == (
        0,
    )


def test_an_origin_that_is_no_address_is_not_ours() -> None:
    assert not is_ours(SimpleNamespace(headers={"origin": "http://[", "host": "localhost"}))  # type: ignore[arg-type]


# The ledger


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE audit SET content = '{'", "a configuration"),
        ("UPDATE audit SET content = '[1]'", "a configuration"),
        ("UPDATE audit SET content = json_set(content, '$.portraits', json('[\"a\"]'))", "a list of portraits"),
        ("UPDATE audit SET content = json_set(content, '$.audit.name', 5)", "a configuration"),
    ],
)
def test_a_row_that_somebody_changed_is_said(ledger: bytes, tmp_path: Path, sql: str, said: str) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(ledger)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as connection:
        connection.execute(sql)
    with (
        Run.open_readonly(tmp_path) as seen,
        pytest.raises(SetupError, match=f"holds {said} that stillme did not"),
    ):
        load_design(seen)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return _unguarded(_made(tmp_path_factory.mktemp("ledger")) / "ledger.sqlite")
