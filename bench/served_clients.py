"""Many clients of `rlx serve` for some minutes: is anything lost, does memory grow, how fast is it.

    python -m bench.served_clients model.gguf --clients 64 --seconds 600

Each client asks again as soon as it is answered: whole answers, streams, streams that it leaves,
answers by a JSON schema, and embeddings, in turn. Needs `rlx[serve]` and `httpx`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"word": {"enum": ["sun", "moon"]}, "count": {"enum": [1, 2, 3]}},
    "required": ["word", "count"],
    "additionalProperties": False,
}
WORDS = "the sky is blue because light of short waves is scattered more than that of long ones"


class Clients:
    """What clients ask for, and what came back."""

    def __init__(self, http: Any, until: float, most: int) -> None:
        self.http, self.until, self.most = http, until, most
        self.done, self.tokens = Counter[str](), 0
        self.started = self.ended = time.monotonic()
        self.kinds = [self.whole, self.stream, self.leave, self.schema, self.embed]

    async def run(self, number: int) -> None:
        rng = random.Random(number)
        for turn in range(1 << 30):
            if time.monotonic() > self.until:
                return
            ask = self.kinds[(number + turn) % len(self.kinds)]
            text = " ".join(rng.choices(WORDS.split(), k=rng.randrange(4, 40)))
            try:
                await ask(text)
                self.done[ask.__name__] += 1
            except Exception as error:
                self.done[f"lost: {ask.__name__}: {error!r:.200}"] += 1

    def body(self, text: str, **more: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": text}], "max_tokens": self.most, **more}

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = await self.http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    async def whole(self, text: str) -> Any:
        found = await self.post("/v1/chat/completions", self.body(text))
        assert found["choices"][0]["finish_reason"] in ("stop", "length")
        self.tokens += found["usage"]["completion_tokens"]

    async def schema(self, text: str) -> None:
        form = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
        body = self.body(text, response_format=form) | {"max_tokens": 96}
        found = await self.post("/v1/chat/completions", body)
        answer = json.loads(found["choices"][0]["message"]["content"])
        assert set(answer) == {"word", "count"}
        self.tokens += found["usage"]["completion_tokens"]

    async def embed(self, text: str) -> None:
        found = await self.post("/v1/embeddings", {"input": text})
        assert abs(sum(x * x for x in found["data"][0]["embedding"]) - 1) < 1e-3

    async def stream(self, text: str, most_lines: int = 1 << 30) -> None:
        body = self.body(text, stream=True, stream_options={"include_usage": True})
        last = ""
        async with self.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    used = json.loads(line[6:]).get("usage") or {}
                    self.tokens += used.get("completion_tokens", 0)
                last, most_lines = line or last, most_lines - 1
                if most_lines == 0:
                    return
        assert last == "data: [DONE]"

    async def leave(self, text: str) -> None:
        await self.stream(text, 6)


async def attended(arguments: argparse.Namespace, url: str, pid: int) -> tuple[Clients, list[int]]:
    """Run all clients against a server; return them, and its memory a few times a minute, in KB."""
    import httpx

    limits = httpx.Limits(max_connections=arguments.clients)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as http:
        while True:
            try:
                (await http.get("/health")).raise_for_status()
                break
            except httpx.TransportError:
                await asyncio.sleep(0.2)
        await Clients(http, 0, 8).whole("hello")  # compiles
        clients = Clients(http, time.monotonic() + arguments.seconds, arguments.tokens)
        running = [asyncio.ensure_future(clients.run(i)) for i in range(arguments.clients)]
        memory = []
        while not all(each.done() for each in running):
            await asyncio.wait(running, timeout=10)
            status = Path(f"/proc/{pid}/status").read_text()
            memory.append(int(status.partition("VmRSS:")[2].split()[0]))
        clients.ended = time.monotonic()
        return clients, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--tokens", type=int, default=32, help="of an answer")
    parser.add_argument("--slots", default="8")
    parser.add_argument("--context", default="512")
    parser.add_argument("--port", default="8137")
    arguments = parser.parse_args()
    options = ["--slots", arguments.slots, "--context", arguments.context]
    command = [sys.executable, "-m", "rlx", "serve", arguments.model, "--port", arguments.port]
    started = time.monotonic()
    with subprocess.Popen([*command, *options]) as server:
        try:
            url = f"http://127.0.0.1:{arguments.port}"
            clients, memory = asyncio.run(attended(arguments, url, server.pid))
        finally:
            server.terminate()
    print(f"{time.monotonic() - started:.0f} s with the start, {arguments.clients} clients")
    for kind, count in sorted(clients.done.items()):
        print(f"  {kind}: {count}")
    rate = clients.tokens / (clients.ended - clients.started)
    print(f"{rate:.1f} tokens a second, of answers that were not left")
    quarter = memory[: max(1, len(memory) // 4)]
    print(f"memory: {max(quarter) >> 10} MB in the first quarter, {memory[-1] >> 10} MB at the end")
    if any(kind.startswith("lost") for kind in clients.done):
        sys.exit("something was lost")


if __name__ == "__main__":
    main()
