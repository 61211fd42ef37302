"""The server answers many clients at once, each with what its own images are."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from examples.packaged import is_installed

if not is_installed("rich"):
    pytest.skip("examples.digits shows its progress with rich", allow_module_level=True)

import rlx
from examples.digits import mlp
from examples.serve import IMAGES_AT_MOST, make_server, make_session

CLIENTS, REQUESTS = 24, 20
"""The load that the server holds: 480 requests from 24 clients that keep asking."""


@pytest.fixture(scope="module")
def session() -> Iterator[rlx.Session]:
    with make_session(mlp(32).params, arenas=2) as session:
        yield session


@pytest.fixture(scope="module")
def port(session: rlx.Session) -> Iterator[int]:
    server = make_server(session)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def ask(port: int, content: object) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/classify", json.dumps(content))
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


@pytest.mark.slow
def test_every_client_gets_the_digits_of_its_own_images(
    session: rlx.Session, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.serve.SECONDS_TO_WAIT", 60.0)  # other tests may take the cores

    def client(number: int) -> list[tuple[int, bool]]:
        random = np.random.default_rng(number)
        results = []
        for _ in range(REQUESTS):
            images = random.integers(0, 17, (random.integers(1, 9), 64)).astype(np.float32)
            status, answer = ask(port, images.tolist())
            expected = session.run({"images": images})[0].tolist()
            results.append((status, answer == expected))
        return results

    with ThreadPoolExecutor(CLIENTS) as clients:
        results = [result for one in clients.map(client, range(CLIENTS)) for result in one]
    assert results == [(200, True)] * (CLIENTS * REQUESTS)


@pytest.mark.parametrize(
    "content", [[], [[1, 2]], "text", {"images": 1}, [[0.0] * 64] * (IMAGES_AT_MOST + 1)]
)
def test_what_is_no_list_of_images_is_refused(port: int, content: object) -> None:
    status, answer = ask(port, content)
    assert status == 400
    assert answer["error"]


def ask_raw(port: int, head: str, body: bytes = b"", path: str = "/classify") -> tuple[int, str]:
    """Send a request as it is; return the status and the error of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, str(json.loads(response.read())["error"])


@pytest.mark.parametrize("length", ["-1", "x", "1_0", "", "\uff19", "9" * 30])
def test_length_that_is_none_is_refused(port: int, length: str) -> None:
    status, error = ask_raw(port, f"Content-Length: {length}")
    assert status == 400
    assert "Content-Length" in error


def test_request_without_a_length_is_refused(port: int) -> None:
    assert ask_raw(port, "Host: x")[0] == 400


def test_long_request_is_refused_without_reading_it(port: int) -> None:
    assert ask_raw(port, f"Content-Length: {2**62}")[0] == 413


def test_other_paths_are_not_found(port: int) -> None:
    assert ask_raw(port, "Content-Length: 0", path="/../etc/passwd")[0] == 404


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"NaN", b"[" + b"NaN," * 3 + b"1]", b"", b"\xff", b"null", b'"' * 3,
     b"[[" + b"NaN," * 63 + b"0]]", b"[[" + b"null," * 63 + b"0]]", b"[[" + b"1e400," * 63 + b"0]]",
     b"[[" + b"1" * 400 + b",0" * 63 + b"]]", b"[[" + b"1" * 5000 + b"]]",
     b"[[" + b"17," * 63 + b"0]]", b"[[" + b"-1," * 63 + b"0]]", b"[[{}]]", b"[[1],[1,2]]"],
)  # fmt: skip
def test_body_that_is_no_list_of_images_is_refused(port: int, body: bytes) -> None:
    status, error = ask_raw(port, f"Content-Length: {len(body)}", body)
    assert status == 400
    assert error


def test_a_busy_server_says_so(port: int, session: rlx.Session) -> None:
    with session._lease(None), session._lease(None):
        status, answer = ask(port, [[0.0] * 64])
    assert status == 503
    assert "2 arenas were busy" in answer["error"]
