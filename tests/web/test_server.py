"""The server says what listening to the world means, before it does."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette

from stillme.web import server


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_host_that_others_reach_is_said_to_be_unencrypted(host: str, warned: bool) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text == "hello":
            raise KeyboardInterrupt  # as Ctrl-C would, before the first request

    server.run(Starlette(), server.listen("127.0.0.1", 0), host, ["hello"], say)
    assert said[-1] == "hello" and ("nothing is encrypted" in said[0]) is warned
