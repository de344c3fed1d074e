"""Access checks of every web tool: hosts, origins, sessions, headers, bodies."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from stillme.core.errors import SetupError
from stillme.core.yaml import StrictModel
from stillme.web import server
from stillme.web.app import make_tool_app
from stillme.web.bodies import MAX_BODY_BYTES, read_form, read_json
from stillme.web.middleware import HEADERS, Hosts, Sessions, secret

KEY = b"k" * 64
OURS = {"Origin": "http://localhost:8000"}


class Shape(StrictModel):
    n: int


async def who(request: Request) -> Response:
    return PlainTextResponse(request.state.who)


async def take(request: Request) -> Response:
    return JSONResponse({"n": (await read_json(request, Shape)).n})


async def fill(request: Request) -> Response:
    return JSONResponse(await read_form(request))


async def full(request: Request) -> Response:
    raise SetupError("The disk is full.", "Free some space.")


async def crash(request: Request) -> Response:
    raise RuntimeError("inner workings")


async def bare(request: Request) -> Response:
    raise HTTPException(404)


ROUTES = [
    Route("/", who),
    Route("/api/take", take, methods=["POST"]),
    Route("/fill", fill, methods=["POST"]),
    Route("/full", full),
    Route("/crash", crash),
    Route("/bare", bare),
]


def client(scheme: str = "http", **options: Any) -> TestClient:
    made = make_tool_app(ROUTES, Sessions(KEY, ["anna", "ben"]), Hosts.of("127.0.0.1"))
    return TestClient(made, f"{scheme}://localhost:8000", raise_server_exceptions=False, **options)


@pytest.fixture
def inside() -> TestClient:
    found = client()
    found.get("/enter", params={"key": Sessions(KEY, ["anna"]).key("anna")})
    return found


def test_a_link_opens_the_door_and_leaves_the_address() -> None:
    visitor = client(follow_redirects=False)
    answer = visitor.get("/enter", params={"key": Sessions(KEY, ["anna"]).key("anna")})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].casefold()
    assert "httponly" in cookie and "samesite=strict" in cookie and "; secure" not in cookie
    assert visitor.get("/").text == "anna"


def test_a_cookie_over_tls_stays_on_tls() -> None:
    answer = client("https", follow_redirects=False).get(
        "/enter", params={"key": Sessions(KEY, ["a"]).key("anna")}
    )
    assert "; secure" in answer.headers["set-cookie"].casefold()


@pytest.mark.parametrize("key", ["", "x", "é", Sessions(b"o" * 64, []).key("anna"), Sessions(KEY, []).key("cleo")])
def test_another_key_opens_nothing(key: str) -> None:
    visitor = client()
    assert visitor.get("/enter", params={"key": key}).status_code == 401
    assert visitor.get("/").status_code == 401


def test_a_cookie_that_was_touched_or_is_somebody_elses_is_none(inside: TestClient) -> None:
    name = Sessions(KEY, []).cookie_name
    for value in ("", "anna", Sessions(b"o" * 64, []).cookie("anna"), Sessions(KEY, []).cookie("cleo")):
        assert client(cookies={name: value}).get("/").status_code == 401
    assert inside.get("/").text == "anna"


def test_two_tools_on_one_host_keep_their_cookies_apart() -> None:
    assert Sessions(KEY, []).cookie_name != Sessions(b"o" * 64, []).cookie_name


def test_links_and_sessions_outlive_a_restart(tmp_path: Path) -> None:
    first, again = secret(tmp_path), secret(tmp_path)
    assert first == again and len(first) >= 32
    assert Sessions(first, ["a"]).key("a") == Sessions(again, ["a"]).key("a")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert secret(make(tmp_path / "other")) != first


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_secret_that_was_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"")
    (tmp_path / "secret").chmod(0o644)
    assert len(secret(tmp_path)) >= 32
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["/", "/nothing", "/full", "/crash", "/bare", "/static/web/base.css", "/enter"])
def test_every_answer_carries_the_headers(inside: TestClient, path: str) -> None:
    for visitor in (inside, client()):
        headers = visitor.get(path).headers
        for name, value in HEADERS.items():
            assert headers[name] == value or name == "Cache-Control", (path, name)
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "no-" in headers["Cache-Control"]


def test_styles_are_sent_compressed_to_whoever_takes_them_so() -> None:
    plain = client().get("/static/web/base.css", headers={"Accept-Encoding": "identity"})
    small = client().get("/static/web/base.css", headers={"Accept-Encoding": "gzip"})
    assert small.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert small.text == plain.text and int(small.headers["Content-Length"]) < len(plain.content) / 2
    assert small.headers["Content-Type"] == plain.headers["Content-Type"]
    again = client().get(
        "/static/web/base.css", headers={"Accept-Encoding": "gzip", "If-None-Match": small.headers["ETag"]}
    )
    assert again.status_code == 304 and not again.content


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::1", "10.0.0.9"]
)
def test_other_host_names_are_turned_away(inside: TestClient, host: str) -> None:
    assert inside.get("/", headers={"Host": host}).status_code == 421


def test_hosts() -> None:
    assert all(
        Hosts.of("127.0.0.1").allow(name) for name in ("localhost:8420", "LOCALHOST", "[::1]:9", "127.0.0.1")
    )
    everywhere = Hosts.of("0.0.0.0", "https://pick.example.org/")
    assert all(everywhere.allow(name) for name in ("10.1.2.3:8420", "pick.example.org", "[fe80::1]:9"))
    assert not everywhere.allow("evil.example")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {**OURS, "Sec-Fetch-Site": "cross-site"},
        {**OURS, "Sec-Fetch-Site": "same-site"},
        {**OURS, "Sec-Fetch-Site": "none"},
    ],
)
def test_requests_from_other_pages_change_nothing(inside: TestClient, headers: dict[str, str]) -> None:
    answer = inside.post("/api/take", json={"n": 1}, headers=headers)
    assert answer.status_code == 403 and "nothing was changed" in answer.json()["refused"]


@pytest.mark.parametrize("headers", [OURS, {"Sec-Fetch-Site": "same-origin"}])
def test_our_own_pages_may(inside: TestClient, headers: dict[str, str]) -> None:
    assert inside.post("/api/take", json={"n": 1}, headers=headers).json() == {"n": 1}


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"json": {"n": "x"}}, 422, "n: "),
        ({"json": {}}, 422, "n: is missing"),
        ({"json": {"n": 1, "m": 2}}, 422, "m: is not a known field"),
        ({"content": b"{", "headers": {**OURS, "Content-Type": "application/json"}}, 422, "JSON"),
        ({"data": {"n": 1}}, 415, "application/json"),
        ({"content": b'{"n":1}', "headers": {**OURS, "Content-Type": "text/plain"}}, 415, "application/json"),
        ({"json": {"n": 1, "m": "x" * MAX_BODY_BYTES}}, 413, "bytes"),
    ],
)
def test_what_is_not_understood_is_said(inside: TestClient, sent: dict[str, Any], status: int, said: str) -> None:
    answer = inside.post("/api/take", **{"headers": OURS, **sent})
    assert answer.status_code == status and said in answer.json()["refused"]


def test_forms_are_read_and_bounded(inside: TestClient) -> None:
    assert inside.post("/fill", data={"a": ["1", "2"], "b": ""}, headers=OURS).json() == {
        "a": ["1", "2"],
        "b": [""],
    }
    many = "&".join(f"a{n}=1" for n in range(300))
    kind = {**OURS, "Content-Type": "application/x-www-form-urlencoded"}
    assert inside.post("/fill", content=many, headers=kind).status_code == 422
    assert inside.post("/fill", content=b"\xff=1", headers=kind).status_code == 422


def test_a_crash_says_nothing_of_its_inside(inside: TestClient) -> None:
    answer = inside.get("/crash")
    assert answer.status_code == 500 and "inner workings" not in answer.text
    assert "disk is full" in inside.get("/full").text and inside.get("/full").status_code == 503


def test_refusals_are_escaped(inside: TestClient) -> None:
    assert "<script>" not in inside.get("/<script>").text


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with server.listen("127.0.0.1", 0) as bound:
        with pytest.raises(SetupError, match="cannot listen"):
            server.listen("127.0.0.1", bound.getsockname()[1])


def test_addresses_that_a_browser_understands() -> None:
    assert server.address("127.0.0.1", 8420) == "http://127.0.0.1:8420"
    assert server.address("::1", 8420) == "http://[::1]:8420"
    assert server.is_loopback("localhost") and server.is_loopback("::1") and not server.is_loopback("0.0.0.0")
