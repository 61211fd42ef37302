"""OpenAI's interface: its own client, many at a time, and bodies that are malformed."""

from __future__ import annotations

import asyncio
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.ir.graph import Graph
from rlx.language import engine
from rlx.language.batch import Batch
from rlx.language.decoder import Decoder
from rlx.language.embedding import load_embedding
from rlx.language.engine import Engine, Job, Piece
from rlx.language.model import LanguageModel, load
from rlx.language.openai_requests import tool_calls
from rlx.language.sampling import Sampling
from rlx.language.streaming import TextStream
from rlx.language.text import Text
from rlx.language.weights import Weights
from rlx.runtime.compile import compile as compile_graph
from tests.language.tiny import HIDDEN, random_weights, write_model

httpx: Any = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")
pytest.importorskip("llguidance")

from rlx.language import server  # noqa: E402
from rlx.language.server import Limits, application  # noqa: E402

CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]
JSON = {"type": "json_object"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"],
    "additionalProperties": False}}}]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    directory = tmp_path_factory.mktemp("served")
    path = write_model(directory / "m.gguf", "llama", random_weights(), packed=True)
    return load(path, context=128, backend="llvm", threads=1)


class Served:
    """An application and a loop in which its clients run."""

    def __init__(self, model: Any, limits: Limits | None = None, keep: int | None = None) -> None:
        self.app = application(model, name="tiny", slots=2, limits=limits, keep=keep)
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
def test_the_clients_package_asks_for_forms(model: LanguageModel, served: Served) -> None:
    """Several answers, JSON of a schema, forced calls of tools, and embeddings."""
    openai: Any = pytest.importorskip("openai")
    schema = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 3}
    form = {"type": "json_schema", "json_schema": {"name": "numbers", "schema": schema}}

    async def talk() -> tuple[Any, ...]:
        async with served.client() as http:
            client = openai.AsyncOpenAI(
                base_url="http://served/v1", api_key="none", http_client=http, max_retries=0
            )
            ask: Any = {"model": "tiny", "messages": HELLO, "max_tokens": 50, "seed": 5,
                        "temperature": 3}  # fmt: skip
            create = client.chat.completions.create
            several = await create(**ask | {"max_tokens": 4}, n=3)
            second = await create(**ask | {"max_tokens": 4, "seed": 6})
            stream = await create(**ask | {"max_tokens": 4}, n=3, stream=True)
            texts = ["", "", ""]
            async for chunk in stream:
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
            made = await create(**ask, response_format=form)
            options: Any = {"tools": TOOLS, "tool_choice": TOOLS[0], "max_tokens": 110}
            called = await create(**ask | options)
            vectors = await client.embeddings.create(model="tiny", input=["hello", "abc"])
            alone = await client.embeddings.create(
                model="tiny", input=model.tokenizer.encode("abc"), encoding_format="float"
            )
            return several, second, texts, made, called, vectors, alone

    several, second, texts, made, called, vectors, alone = served.loop.run_until_complete(talk())
    answers = [choice.message.content for choice in several.choices]
    assert len(set(answers)) == 3
    assert texts == answers
    assert second.choices[0].message.content == answers[1]
    assert several.usage.prompt_tokens == second.usage.prompt_tokens
    assert several.usage.completion_tokens <= 12
    assert 2 <= len(json.loads(made.choices[0].message.content)) <= 3
    assert made.choices[0].finish_reason == "stop"
    (call,) = called.choices[0].message.tool_calls
    assert called.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "f"
    assert json.loads(call.function.arguments)["x"] in (1, 2)
    assert np.allclose(alone.data[0].embedding, vectors.data[1].embedding, atol=1e-5)
    assert not np.allclose(vectors.data[0].embedding, vectors.data[1].embedding, atol=0.1)


@pytest.mark.slow
def test_embeddings_are_means_of_normalized_rows(model: LanguageModel, served: Served) -> None:
    """Of whole texts, also where a slot has the beginning of one."""
    prompt = list(range(3, 50))
    config = model.config
    graph = Graph("rows")
    tokens = graph.input("tokens", (len(prompt),), "i32")
    weights = Weights(graph, model.file, config)
    rows = len(prompt)
    decoder = Decoder(graph, config, weights, rows, 0, rows, None, graph.constant, state={})
    hidden = decoder.norm(decoder.hidden(tokens), "output_norm", config.hidden)
    graph.set_outputs([hidden])
    (each,) = compile_graph(graph, params=weights.values)(np.array(prompt, np.int32))
    expected = each.mean(axis=0)
    for _ in range(2):
        answer = served.post("/v1/embeddings", {"input": prompt}).json()
        found = np.array(answer["data"][0]["embedding"])
        assert np.allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
    assert answer["usage"] == {"prompt_tokens": rows, "total_tokens": rows}


def test_rows_are_not_pooled_in_another_way_than_the_file_says(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "stated_pooling", lambda _: "pooling_mode_max_tokens")
    answer = served.post("/v1/embeddings", {"input": "ab"})
    assert answer.status_code == 400
    assert "pooling_mode_max_tokens" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_long_prompts_are_read_in_pieces(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers go on between the pieces, and are those of prompts that are read at once."""
    monkeypatch.setattr(engine, "_READ_TOKENS", 8)
    model._batch(2).kept.clear()
    long = [5 + number * number % 71 for number in range(60)]
    pieces: dict[int, list[Piece]] = {0: [], 1: []}
    jobs = [
        Job(Text(list(prompt)), most, TextStream(model.tokenizer), pieces[number].append)
        for number, (prompt, most) in enumerate(((long[40:], 30), (long, 3)))
    ]
    running = Engine(model, 2)
    running.submit(jobs)
    running._join()
    made = []
    while any(not each or each[-1].finish is None for each in pieces.values()):
        running._step()
        made.append((len(pieces[0]), len(pieces[1])))
    # Of 20 tokens 8 are read, 8, and 4 with 4 of the other 60, which 7 further steps read.
    assert made[:4] == [(0, 0), (0, 0), (2, 0), (3, 0)]
    assert made[8:11] == [(8, 0), (9, 2), (10, 3)]
    for number, (prompt, most) in enumerate(((long[40:], 30), (long, 3))):
        model.reset()
        expected = model.tokenizer.decode(list(model.generate(prompt, max_tokens=most, stop=[])))
        assert "".join(piece.text for piece in pieces[number]) == expected


@pytest.mark.slow
def test_an_answer_goes_on_where_the_context_is_full(model: LanguageModel) -> None:
    served = Served(model, keep=2)
    try:
        prompt = list(range(3, 79))
        body = {"prompt": prompt, "max_tokens": 130, "temperature": 1.5, "seed": 3,
                "top_k": 20}  # fmt: skip
        text = served.post(PLAIN, body).json()["choices"][0]["text"]
    finally:
        served.close()
    model.reset()
    model.seed, model.sampling = 3, Sampling(temperature=1.5, top_k=20)
    try:
        expected = list(model.generate(prompt, max_tokens=130, keep=2))
    finally:
        model.seed, model.sampling = 0, Sampling()
    assert len(expected) > 128 - 76
    assert text == model.tokenizer.decode(expected)


@pytest.mark.slow
def test_64_clients_at_a_time(model: LanguageModel, served: Served) -> None:
    """Each is answered as it is alone, some leave early, and the engine goes on."""
    clients, rounds = 64, 3
    prompts = [string.ascii_lowercase[i % 22 : i % 22 + 1 + i % 5] for i in range(clients)]
    expected = {text: alone(model, text, 5) for text in set(prompts)}

    async def ask(number: int, turn: int, client: Any) -> None:
        body = {"prompt": prompts[number], "max_tokens": 5, "temperature": 0}
        match (number + turn) % 4:
            case 0:
                async with client.stream("POST", PLAIN, json={**body, "stream": True}) as answer:
                    async for _ in answer.aiter_lines():
                        return
            case 1:
                body |= {"grammar": 'root ::= [a-c]{3} "."', "temperature": 2}
                text = (await client.post(PLAIN, json=body)).json()["choices"][0]["text"]
                assert re.fullmatch(r"[a-c]{3}\.", text)
            case 2:
                found = await client.post("/v1/embeddings", json={"input": prompts[number]})
                assert len(found.json()["data"][0]["embedding"]) == model.config.hidden
            case _:
                text = (await client.post(PLAIN, json=body)).json()["choices"][0]["text"]
                assert text == expected[prompts[number]]

    async def all_of_them() -> None:
        async with served.client() as client:
            for turn in range(rounds):
                await asyncio.gather(*(ask(number, turn, client) for number in range(clients)))

    served.loop.run_until_complete(all_of_them())
    many = served.post("/v1/embeddings", {"input": ["abc"] * 200}).json()["data"]
    assert [each["index"] for each in many] == list(range(200))


@pytest.mark.whole
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
        ({"messages": HELLO, "n": 17}, "n is 17"),
        ({"messages": HELLO, "logit_bias": {"x": 1}}, "logit_bias"),
        ({"messages": HELLO, "logit_bias": {"99999": 1}}, "logit_bias"),
        ({"messages": HELLO, "seed": 1 << 70}, "seed"),
        ({"messages": HELLO, "stream": "yes"}, "stream"),
        ({"messages": HELLO, "stream_options": [1]}, "stream_options"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "no JSON"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "tool_calls"),
        ({"messages": HELLO, "tools": 3}, "tools"),
        ({"messages": HELLO, "tools": [{}], "tool_choice": "required"}, "tools"),
        ({"messages": HELLO, "tools": TOOLS, "tool_choice": {"function": {"name": "x"}}},
         "tool_choice"),
        ({"messages": HELLO, "tool_choice": "required"}, "tool_choice"),
        ({"messages": HELLO, "response_format": {"type": "json_schema"}}, "response_format"),
        ({"messages": HELLO, "response_format": {"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"type": "object", "not": {}}}}}, "cannot be enforced"),
        ({"messages": HELLO, "grammar": "root ::= ("}, "the grammar cannot be read"),
        ({"messages": HELLO, "grammar": r'root ::= "\UFFFFFFFF"'}, "the grammar cannot be read"),
        ({"messages": HELLO, "grammar": "root ::= root"}, "cannot be enforced"),
        ({"messages": HELLO, "grammar": "#" * 65537}, "a grammar of 65537 characters"),
        ({"messages": HELLO, "grammar": 'root ::= "a"', "response_format": JSON}, "at most one"),
        ({"messages": [{"role": "user", "content": "a" * 199}]}, "a prompt of 199 tokens"),
    ],
)  # fmt: skip
def test_malformed_requests_are_answered(served: Served, body: Any, says: str) -> None:
    answer = served.post(CHAT, body)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert says in message
    assert "<state>" not in message


def test_a_fault_of_a_step_ends_its_answers_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "read_piece", lambda *_: 1 // 0)
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


@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_an_encoder_answers_with_its_vectors(pooling: int, tmp_path: Path) -> None:
    """Many at a time, and refuses what is too long, what is no text, and to write."""
    keys = {"attention.causal": False, "pooling_type": pooling}
    path = write_model(tmp_path / "m.gguf", "llama", random_weights(), packed=True, **keys)
    model = load_embedding(path, context=16, threads=1)
    served = Served(model)
    texts: list[Any] = [["ab", "cde"], "fg", [3, 4, 5]]

    async def ask() -> list[Any]:
        async with served.client() as client:
            posts = [client.post("/v1/embeddings", json={"input": text}) for text in texts * 4]
            return list(await asyncio.gather(*posts))

    answers = served.loop.run_until_complete(ask())
    assert all(answer.status_code == 200 for answer in answers)
    found = [[each["embedding"] for each in answer.json()["data"]] for answer in answers]
    for number in range(0, 12, 3):
        np.testing.assert_allclose(found[number], model.embed(texts[0]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[number + 1], model.embed(["fg"]), rtol=1e-5, atol=1e-6)
        vector = model.pooled([3, 4, 5])
        vector /= np.linalg.norm(vector)
        np.testing.assert_allclose(found[number + 2][0], vector, rtol=1e-5, atol=1e-6)
    for path_, body in (
        ("/v1/embeddings", {"input": [1] * 17}), ("/v1/embeddings", {"input": [10**6]}),
        ("/v1/embeddings", {}), (CHAT, {"messages": HELLO}), (PLAIN, {"prompt": "a"}),
    ):  # fmt: skip
        assert served.post(path_, body).status_code == 400
    served.close()


def test_documents_are_ranked_for_a_query(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    head = {"cls.output.weight": rng.standard_normal((1, HIDDEN)).astype(np.float32)}
    keys = {"attention.causal": False, "pooling_type": 4}
    path = write_model(tmp_path / "m.gguf", "llama", random_weights() | head, packed=False, **keys)
    served = Served(load_embedding(path, context=16, threads=1))
    documents = ["cde", "fg", "abc"]
    model = load_embedding(path, context=16, threads=1)
    scores = model.scores("ab", documents)
    np.testing.assert_array_equal(model.scores("ab", documents[0]), scores[:1])
    best = np.argsort(-scores)
    for most in (None, 2):
        asked = {"query": "ab", "documents": documents} | ({"top_n": most} if most else {})
        answer = served.post("/v1/rerank", asked).json()
        assert [each["index"] for each in answer["results"]] == best[:most].tolist()
        found = [each["relevance_score"] for each in answer["results"]]
        np.testing.assert_allclose(found, scores[best][:most], rtol=1e-5)
    for body in (
        {"documents": documents}, {"query": "ab", "documents": "cde"},
        {"query": "ab", "documents": ["a" * 40]},
    ):  # fmt: skip
        assert served.post("/v1/rerank", body).status_code == 400
    assert served.post("/v1/embeddings", {"input": "ab"}).status_code == 400
    served.close()


@pytest.mark.parametrize(("number", "name"), [(0, "none"), (4, "rank")])
def test_ways_of_pooling_that_are_none_here_are_refused(
    number: int, name: str, tmp_path: Path
) -> None:
    path = write_model(
        tmp_path / "m.gguf", "llama", random_weights(), packed=True, pooling_type=number
    )
    served = Served(load(path, context=32, threads=1))
    answer = served.post("/v1/embeddings", {"input": "ab"})
    served.close()
    assert answer.status_code == 400
    assert f"there is no pooling of the model '{name}'" in answer.json()["error"]["message"]
