"""Serve a model over HTTP with the standard library: one session, an arena for each request.

    python -m examples.serve [--port 8000] [--arenas 2]
    curl -d '[[0, 0, 5, 13, 9, 1, 0, 0, ...]]' http://127.0.0.1:8000/classify

Trains the digits MLP for a few seconds, then answers POST /classify: a JSON list of images of 64
numbers in 0..16 in, a JSON list of digits out. A request that finds all arenas busy for a second
is answered 503, one that is no list of images 400, one that is longer than any such list 413. A
client that sends nothing for ten seconds is disconnected.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
from examples.digits import load_data, mlp, train

IMAGES_AT_MOST = 64
SECONDS_TO_WAIT = 1.0
SECONDS_TO_READ = 10.0
BYTES_AT_MOST = IMAGES_AT_MOST * 64 * 32


def make_session(params: dict[str, Any], arenas: int | None) -> rlx.Session:
    """Compile the classifier for up to 64 images, one thread to a request."""
    g = rlx.Graph("classify")
    x = g.input("images", (rlx.Dim("n", max=IMAGES_AT_MOST), 64), "f32")
    weights = {name: g.param(name, value.shape, "f32") for name, value in params.items()}
    hidden, last = x * (1 / 16), len(weights) // 2 - 1
    for layer in range(last + 1):
        hidden = g.matmul(hidden, weights[f"w{layer}"]) + weights[f"b{layer}"]
        hidden = hidden if layer == last else g.gelu(hidden)
    g.set_outputs([g.argmax(hidden, axis=-1)])
    return rlx.Session(rlx.compile(g, params=params, threads=1), arenas=arenas)


def images_of(body: bytes) -> NDArray[np.float32]:
    """Return the images of a request; ValueError says what is wrong with it."""
    try:
        images = np.asarray(json.loads(body), np.float32)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a list of images: {error}") from error
    if images.ndim != 2 or images.shape[1] != 64 or not 1 <= len(images) <= IMAGES_AT_MOST:
        raise ValueError(f"expected 1 to {IMAGES_AT_MOST} images of 64 numbers: {images.shape}")
    if not np.all((images >= 0) & (images <= 16)):  # false for NaN, too
        raise ValueError("expected numbers from 0 to 16")
    return images


def body_bytes(header: str | None) -> int:
    """Return the length of a body from its header; ValueError for what is no length."""
    if header is None or not (header.isascii() and header.isdecimal() and len(header) < 20):
        raise ValueError(f"Content-Length is {header!r}")
    return int(header)


class Server(ThreadingHTTPServer):
    """A thread for each connection; many clients may knock at once."""

    request_queue_size = 128


def make_server(session: rlx.Session, port: int = 0) -> Server:
    """Return a server on the loopback address; port 0 takes any that is free."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS_TO_READ

        def do_POST(self) -> None:
            if self.path != "/classify":
                return self.answer(404, {"error": "POST to /classify"})
            try:
                size = body_bytes(self.headers.get("Content-Length"))
                if size > BYTES_AT_MOST:
                    return self.answer(413, {"error": f"at most {BYTES_AT_MOST} bytes"})
                images = images_of(self.rfile.read(size))
                (digits,) = session.run({"images": images}, timeout=SECONDS_TO_WAIT)
            except rlx.BusyError as error:
                return self.answer(503, {"error": error.message})
            except ValueError as error:
                return self.answer(400, {"error": str(error)})
            return self.answer(200, digits.tolist())

        def answer(self, status: int, content: object) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Server(("127.0.0.1", port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--arenas", type=int, default=None)
    arguments = parser.parse_args()
    trained = train(mlp(), load_data(), "auto", lambda *_: None)
    print(f"trained: {trained.accuracy:.1%} of the test digits right")
    with make_session(trained.params, arguments.arenas) as session:
        server = make_server(session, arguments.port)
        print(f"serving on http://127.0.0.1:{server.server_port}/classify; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.server_close()


if __name__ == "__main__":
    main()
