"""OpenAI's interface: its own client, many at a time, and bodies that are malformed."""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import Iterator
from typing import Any

import pytest

from rlx.language.batch import Batch
from rlx.language.model import LanguageModel, load
from rlx.language.openai_requests import tool_calls
from tests.language.tiny import random_weights, write_model

httpx: Any = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from rlx.language.server import Limits, application  # noqa: E402

CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    directory = tmp_path_factory.mktemp("served")
    path = write_model(directory / "m.gguf", "llama", random_weights(), packed=True)
    return load(path, context=64, backend="llvm", threads=1)


class Served:
    """An application and a loop in which its clients run."""

    def __init__(self, model: LanguageModel, limits: Limits | None = None) -> None:
        self.app = application(model, name="tiny", slots=2, limits=limits)
        self.loop = asyncio.new_event_loop()
        self.running = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self.running.__aenter__())

    def client(self) -> Any:
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://served")

    def post(self, path: str, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()

        async def send() -> Any:
            async with self.client() as client:
                return await client.post(path, content=data)

        return self.loop.run_until_complete(send())

    def close(self) -> None:
        self.loop.run_until_complete(self.running.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def served(model: LanguageModel) -> Iterator[Served]:
    served = Served(model)
    yield served
    served.close()


def alone(model: LanguageModel, text: str, most: int) -> str:
    model.reset()
    tokens = list(model.generate(model.tokenizer.encode(text), max_tokens=most))
    return model.tokenizer.decode(tokens)


@pytest.mark.slow
def test_the_clients_package(model: LanguageModel, served: Served) -> None:
    openai: Any = pytest.importorskip("openai")

    async def talk() -> tuple[Any, ...]:
        async with served.client() as http:
            client = openai.AsyncOpenAI(
                base_url="http://served/v1", api_key="none", http_client=http, max_retries=0
            )
            ask: Any = {"model": "tiny", "messages": HELLO, "max_tokens": 6, "temperature": 0}
            whole = await client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
            options = {"include_usage": True}
            stream = await client.chat.completions.create(
                **ask, stream=True, stream_options=options
            )
            chunks = [chunk async for chunk in stream]
            plain = await client.completions.create(
                model="tiny", prompt="hello", max_tokens=6, temperature=0
            )
            with pytest.raises(openai.BadRequestError, match="top_p"):
                await client.chat.completions.create(**ask, top_p=2.0)
            names = [each.id async for each in client.models.list()]
            return whole, chunks, plain, names

    whole, chunks, plain, names = served.loop.run_until_complete(talk())
    expected = alone(model, "hello", 6)
    assert whole.choices[0].message.content == plain.choices[0].text == expected
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == expected
    assert chunks[-1].usage == whole.usage
    assert whole.usage.prompt_tokens == len(model.tokenizer.encode("hello"))
    logs = whole.choices[0].logprobs.content
    assert len(logs) == whole.usage.completion_tokens
    assert all(log.logprob == log.top_logprobs[0].logprob <= 0 for log in logs)
    assert names == ["tiny"]


@pytest.mark.slow
def test_more_clients_than_slots(model: LanguageModel, served: Served) -> None:
    """Each is answered as it is alone, some leave early, and nothing is left in the engine."""
    prompts = [string.ascii_lowercase[i : i + 1 + i % 5] for i in range(12)]

    async def ask(number: int, client: Any) -> str:
        body = {"prompt": prompts[number], "max_tokens": 5, "temperature": 0}
        if number % 4 == 3:
            async with client.stream("POST", PLAIN, json={**body, "stream": True}) as answer:
                async for _ in answer.aiter_lines():
                    return ""
        text: str = (await client.post(PLAIN, json=body)).json()["choices"][0]["text"]
        return text

    async def all_of_them() -> list[str]:
        async with served.client() as client:
            return await asyncio.gather(*(ask(i, client) for i in range(len(prompts))))

    found = served.loop.run_until_complete(all_of_them())
    for number, text in enumerate(found):
        assert text == ("" if number % 4 == 3 else alone(model, prompts[number], 5))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no JSON"), (b"[" * 100_000, "no JSON"), (b"\xff\xfe", "no JSON"),
        (b'{"messages": NaN}', "no JSON"), (b"[]", "no JSON object"),
        ({}, "messages"), ({"messages": []}, "messages"), ({"messages": [1]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": HELLO, "temperature": "1"}, "temperature"),
        ({"messages": HELLO, "temperature": -1}, "temperature"),
        ({"messages": HELLO, "temperature": 10**400}, "temperature"),
        ({"messages": HELLO, "max_tokens": 0}, "max_tokens"),
        ({"messages": HELLO, "max_tokens": True}, "max_tokens"),
        ({"messages": HELLO, "stop": [""]}, "stop"),
        ({"messages": HELLO, "n": 2}, "n is 2"),
        ({"messages": HELLO, "logit_bias": {"x": 1}}, "logit_bias"),
        ({"messages": HELLO, "logit_bias": {"99999": 1}}, "logit_bias"),
        ({"messages": HELLO, "seed": 1 << 70}, "seed"),
        ({"messages": HELLO, "stream": "yes"}, "stream"),
        ({"messages": HELLO, "stream_options": [1]}, "stream_options"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "no JSON"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "tool_calls"),
        ({"messages": HELLO, "tools": 3}, "tools"),
        ({"messages": HELLO, "tools": [{}], "tool_choice": "required"}, "tool_choice"),
        ({"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "user", "content": "a" * 99}]}, "a prompt of 99 tokens"),
    ],
)  # fmt: skip
def test_malformed_requests_are_answered(served: Served, body: Any, says: str) -> None:
    answer = served.post(CHAT, body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_a_fault_of_a_step_ends_its_answers_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "read", lambda *_: 1 // 0)
        assert served.post(CHAT, {"messages": HELLO}).status_code == 500
    assert "lambda *_: 1 // 0" in caplog.text  # the fault's own traceback
    assert served.post(CHAT, {"messages": HELLO, "max_tokens": 1}).status_code == 200


def test_large_bodies_and_other_paths_are_refused(model: LanguageModel) -> None:
    served = Served(model, Limits(body_bytes=1000))
    try:
        assert served.post(CHAT, b" " * 1001).status_code == 413
        assert served.post("/v1/nothing", {}).status_code == 404
        assert served.post(PLAIN, {"prompt": [99999]}).status_code == 400
    finally:
        served.close()


def test_calls_of_tools_are_found_in_answers() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"é": 1}}\n</tool_call>'
    found = [{"name": "f", "arguments": '{"é": 1}'}]
    assert tool_calls(f"so: {call}") == ("so:", found)
    assert tool_calls(call * 2) == ("", found * 2)
    for text in ("none", "<tool_call>{}</tool_call>", "<tool_call>[</tool_call> ", "<tool_call>"):
        assert tool_calls(text) == (text, [])
