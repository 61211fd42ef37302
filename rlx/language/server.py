"""OpenAI's HTTP interface to a model: `rlx serve model.gguf`.

Chat completions, completions, embeddings and models by Starlette; requests join the running batch
of an `Engine`. Needs `pip install rlx[serve]`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rlx.dataclass import dataclass
from rlx.errors import InputError, RlxError
from rlx.language.embedding import EmbeddingModel, stated_pooling
from rlx.language.encoder_engine import EncoderEngine
from rlx.language.engine import Engine, EngineFullError, Job, Piece
from rlx.language.grammar import Matcher
from rlx.language.model import LanguageModel, require_one_of
from rlx.language.openai_requests import Body, tool_calls
from rlx.language.streaming import TextStream
from rlx.language.text import Pooling, Text, require_keep

Array: TypeAlias = NDArray[Any]
_T = TypeVar("_T")

_MOST_ALTERNATIVES = 20
_MOST_ANSWERS = 16
_LOG = logging.getLogger("rlx.serve")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may take."""

    body_bytes: int = 4 << 20
    seconds: float = 600.0
    """Of an answer; it ends then as if it had reached its length."""
    default_tokens: int = 1024


@dataclass(eq=False)
class _Answers:
    """The jobs of a request, and the pieces that they have delivered."""

    jobs: list[Job]
    pieces: asyncio.Queue[tuple[int, Piece]]
    prompt_tokens: int

    async def each(self) -> AsyncIterator[tuple[int, Piece]]:
        """Yield pieces, each with its job's number; what stops reading cancels the jobs."""
        going = len(self.jobs)
        try:
            while going:
                number, piece = await self.pieces.get()
                if piece.error is not None:
                    raise piece.error
                yield number, piece
                going -= piece.finish is not None
        finally:
            self.cancel()

    async def whole(self) -> list[list[Piece]]:
        """Return the pieces of each job."""
        found: list[list[Piece]] = [[] for _ in self.jobs]
        async for number, piece in self.each():
            found[number].append(piece)
        return found

    def cancel(self) -> None:
        for job in self.jobs:
            job.cancelled = True

    async def unless_left(self, request: Request) -> list[list[Piece]] | None:
        """Return the pieces of each job, or None if the client leaves before."""
        try:
            return await _unless_left(request, self.whole())
        finally:
            self.cancel()

    def usage(self) -> dict[str, int]:
        made = sum(job.made for job in self.jobs)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": made,
            "total_tokens": self.prompt_tokens + made,
        }


def application(
    model: LanguageModel | EmbeddingModel,
    *,
    name: str,
    slots: int = 8,
    limits: Limits | None = None,
    keep: int | None = None,
) -> Starlette:
    """Return the application; its engine runs while it does.

    With `keep` an answer goes on where the context is full: the first `keep` tokens and the newer
    half of the others remain. A model of embeddings has no texts to complete, and no slots.
    """
    chosen = limits or Limits()
    service: _Writing | _Encoding
    posts: dict[str, Any] = {}
    if isinstance(model, EmbeddingModel):
        encoder = EncoderEngine(model)
        service = _Encoding(model, name, chosen, encoder)
        start, close = _nothing, encoder.close
        posts = {"/v1/chat/completions": service.refuse, "/v1/completions": service.refuse}
        posts["/v1/rerank"] = service.rerank
    else:
        require_keep(keep, model.context)
        engine = Engine(model, slots, ends=model.tokenizer.end_tokens, keep=keep)
        service = _Writing(model, name, chosen, engine)
        posts = {"/v1/chat/completions": service.chat, "/v1/completions": service.complete}
        start, close = engine.start, engine.close

    @contextlib.asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        start()
        try:
            yield
        finally:
            await asyncio.to_thread(close)

    posts["/v1/embeddings"] = service.embed
    routes = [Route(path, service.answering(use), methods=["POST"]) for path, use in posts.items()]
    routes += [Route("/v1/models", service.models), Route("/health", service.health)]
    return Starlette(routes=routes, lifespan=running)


def _nothing() -> None:
    """Start nothing: the thread of an encoder starts at its first text."""


@dataclass(eq=False)
class _Service(ABC):
    """What endpoints for all models share."""

    model: LanguageModel | EmbeddingModel
    name: str
    limits: Limits

    async def models(self, _: Request) -> Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "rlx"}
        return JSONResponse({"object": "list", "data": [model]})

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def answering(self, use: Callable[..., Any]) -> Callable[[Request], Any]:
        """Return an endpoint that reads a body, and says what is wrong as OpenAI's do."""

        async def endpoint(request: Request) -> Response:
            try:
                data = await self._data(request)
                if data is None:
                    return _error(413, f"the body has more than {self.limits.body_bytes} bytes")
                response: Response = await use(request, Body.of(data))
                return response
            except EngineFullError as error:
                return _error(429, str(error))
            except InputError as error:
                return _error(400, str(error))
            except RlxError as error:
                return _error(500, _logged(error))
            except ClientDisconnect:
                return Response(status_code=499)

        return endpoint

    async def _data(self, request: Request) -> bytes | None:
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > self.limits.body_bytes:
                return None
        return bytes(data)

    def _tokens(self, body: Body, name: str, given: Any) -> list[int]:
        """Return the tokens of a text, or of a list of them."""
        if isinstance(given, str):
            return self.model.tokenizer.encode(given)
        if not isinstance(given, list) or not all(type(token) is int for token in given):
            raise body.error(name, "a string or a list of tokens")
        vocabulary = self.model.config.vocabulary
        if not all(0 <= token < vocabulary for token in given):
            raise body.error(name, f"made of tokens below {vocabulary}")
        return given

    async def embed(self, request: Request, body: Body) -> Response:
        """Answer with vectors of length 1: pooled rows of the last layer, as the file says."""
        given, encoding = body.fields.get("input"), body.fields.get("encoding_format") or "float"
        is_list = isinstance(given, list) and all(isinstance(each, str | list) for each in given)
        several: list[Any] = given if is_list and given is not None else [given]
        encode = self.model.tokenizer.encode_whole
        prompts = [
            encode(each) if isinstance(each, str) else self._tokens(body, "input", each)
            for each in several
        ]
        if not prompts:
            raise body.error("input", "one text, or several")
        if encoding not in ("float", "base64"):
            raise body.error("encoding_format", "float or base64")
        width = self.model.config.hidden
        body.integer("dimensions", None, width, width)
        pooled = await self.pooled(prompts, request)
        if pooled is None:
            return Response(status_code=499)
        data = []
        for number, each in enumerate(pooled):
            vector = each / max(float(np.linalg.norm(each)), 1e-12)
            found: Any = vector.tolist()
            if encoding == "base64":
                found = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            data.append({"object": "embedding", "index": number, "embedding": found})
        count = sum(map(len, prompts))
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": data, "model": self.name, "usage": usage})

    @abstractmethod
    async def pooled(self, prompts: list[list[int]], request: Request) -> list[Array] | None:
        """Return a vector for each text, or None if the client leaves before."""


@dataclass(eq=False)
class _Encoding(_Service):
    """Embeddings by an encoder."""

    engine: EncoderEngine

    async def pooled(self, prompts: list[list[int]], request: Request) -> list[Array] | None:
        self.engine.model.require_pooling(*get_args(Pooling))
        return await _unless_left(request, self.engine.pooled(prompts))

    async def rerank(self, request: Request, body: Body) -> Response:
        """Answer with the scores of documents for a query, the best first."""
        query, documents = body.fields.get("query"), body.fields.get("documents")
        if not isinstance(query, str):
            raise body.error("query", "a string")
        if not isinstance(documents, list) or not all(isinstance(d, str) for d in documents):
            raise body.error("documents", "a list of strings")
        most = body.integer("top_n", len(documents), 0, 1 << 31)
        self.engine.model.require_pooling("rank")
        pairs = [self.model.tokenizer.encode_pair(query, each) for each in documents]
        scores = await _unless_left(request, self.engine.scores(pairs))
        if scores is None:
            return Response(status_code=499)
        best = sorted(range(len(scores)), key=lambda number: -scores[number])[:most]
        found = [{"index": number, "relevance_score": scores[number]} for number in best]
        count = sum(len(tokens) for tokens, _ in pairs)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse(
            {"object": "list", "results": found, "model": self.name, "usage": usage}
        )

    async def refuse(self, request: Request, body: Body) -> Response:
        """Refuse to write."""
        del request, body
        raise InputError(
            f"{self.name} is a model of embeddings, which generates no text",
            remedy="use /v1/embeddings",
        )


@dataclass(eq=False)
class _Writing(_Service):
    """Completions and embeddings by a decoder."""

    engine: Engine
    compiling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of grammars: the first one reads the vocabulary."""

    async def pooled(self, prompts: list[list[int]], request: Request) -> list[Array] | None:
        pooling: Pooling = stated_pooling(self.model.file) or "mean"
        require_one_of("pooling of the model", pooling, get_args(Pooling))
        texts = [Text(prompt, pooling=pooling) for prompt in prompts]
        at_a_time = self.engine.slots
        for first in range(0, len(texts), at_a_time):
            some = texts[first : first + at_a_time]
            answers = self._answers(some, 0, [TextStream(self.model.tokenizer) for _ in some])
            if await answers.unless_left(request) is None:
                return None
        return [text.embedding for text in texts]

    async def _submit(self, body: Body, prompt: list[int], alternatives: int | None) -> _Answers:
        """Let the engine answer a prompt, once all of the body is checked."""
        body.streams()
        model = self.engine.model
        count = body.integer("n", 1, 1, _MOST_ANSWERS) or 1
        room = max(1, model.context - len(prompt))
        least = min(self.limits.default_tokens, room)
        most = body.integer("max_completion_tokens", None, 1, 1 << 31)
        most = most or body.integer("max_tokens", least, 1, 1 << 31)
        seed = body.integer("seed", int(uuid.uuid4()) >> 65, -(1 << 63), (1 << 63) - 1)
        assert most is not None
        assert seed is not None
        sampling, stops = body.sampling(), body.stops()
        matchers: list[Matcher | None] = [None] * count
        if body.has_grammar:  # which may take long to read and to compile
            async with self.compiling:
                grammar = await asyncio.to_thread(body.grammar)
                if grammar is not None:
                    matchers = await asyncio.to_thread(
                        lambda: [model.matcher(grammar) for _ in range(count)]
                    )
        texts = [
            Text(list(prompt), sampling, (seed + number) % 2**64, matcher)
            for number, matcher in enumerate(matchers)
        ]
        streams = [TextStream(model.tokenizer, stops) for _ in texts]
        return self._answers(texts, most, streams, alternatives)

    def _answers(
        self,
        texts: Sequence[Text],
        most: int,
        streams: Sequence[TextStream],
        alternatives: int | None = None,
    ) -> _Answers:
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Piece]]()

        def deliver(number: int, piece: Piece) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(pieces.put_nowait, (number, piece))

        until = time.monotonic() + self.limits.seconds
        jobs = [
            Job(text, most, stream, functools.partial(deliver, number), alternatives, until)
            for number, (text, stream) in enumerate(zip(texts, streams, strict=True))
        ]
        prompts = {tuple(text.tokens) for text in texts}
        self.engine.submit(jobs)
        return _Answers(jobs, pieces, sum(map(len, prompts)))

    async def chat(self, request: Request, body: Body) -> Response:
        messages, tools = body.messages(), body.tools()
        values: dict[str, Any] = {"tools": tools} if tools else {}
        prompt = self.engine.model.tokenizer.chat(messages, **values)
        wanted = body.integer("top_logprobs", 0, 0, _MOST_ALTERNATIVES)
        answers = await self._submit(body, prompt, wanted if body.flag("logprobs") else None)
        form = _Form(self, answers, body, "chat.completion", "chatcmpl", with_tools=bool(tools))
        return await form.response(request)

    async def complete(self, request: Request, body: Body) -> Response:
        prompt = self._tokens(body, "prompt", body.fields.get("prompt"))
        wanted = body.integer("logprobs", None, 0, _MOST_ALTERNATIVES)
        answers = await self._submit(body, prompt, wanted)
        return await _Form(self, answers, body, "text_completion", "cmpl").response(request)


@dataclass(eq=False)
class _Form:
    """An answer as OpenAI's interface writes it."""

    service: _Service
    answers: _Answers
    body: Body
    kind: str
    prefix: str
    with_tools: bool = False

    async def response(self, request: Request) -> Response:
        head = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": self.service.name,
        }
        is_streamed, _ = self.body.streams()
        if is_streamed:
            return StreamingResponse(self._events(head), media_type="text/event-stream")
        found = await self.answers.unless_left(request)
        if found is None:
            return Response(status_code=499)
        choices = [self._choice(number, pieces) for number, pieces in enumerate(found)]
        body = {**head, "object": self.kind, "choices": choices, "usage": self.answers.usage()}
        return JSONResponse(body)

    def _choice(self, number: int, pieces: list[Piece]) -> dict[str, Any]:
        text, finish = "".join(piece.text for piece in pieces), pieces[-1].finish
        choice: dict[str, Any] = {"index": number, "logprobs": self._logs(pieces)}
        if self.kind == "text_completion":
            return {**choice, "finish_reason": finish, "text": text}
        content, calls = self._split(text)
        message = {
            "role": "assistant", "content": content if content or not calls else None, **calls
        }  # fmt: skip
        return {**choice, "finish_reason": "tool_calls" if calls else finish, "message": message}

    def _split(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return an answer's text, and its calls of tools as a field of the message."""
        if not self.with_tools:
            return text, {}
        content, calls = tool_calls(text)
        listed = [
            {"index": i, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": c}
            for i, c in enumerate(calls)
        ]
        return content, {"tool_calls": listed} if listed else {}

    async def _events(self, head: dict[str, Any]) -> AsyncIterator[str]:
        """Yield server-sent events; with tools the text comes at the end, when calls are known."""
        chat = self.kind != "text_completion"
        kind = "chat.completion.chunk" if chat else self.kind

        def event(choices: list[Any], **more: Any) -> str:
            data = {**head, "object": kind, "choices": choices, **more}
            return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"

        def choice(
            number: int, added: Any, pieces: list[Piece], finish: str | None = None
        ) -> dict[str, Any]:
            field = {"delta": added} if chat else {"text": added}
            return {
                "index": number, **field, "finish_reason": finish, "logprobs": self._logs(pieces)
            }  # fmt: skip

        try:
            held = [""] * len(self.answers.jobs)
            for number in range(len(held)) if chat else ():
                yield event([choice(number, {"role": "assistant", "content": ""}, [])])
            async for number, piece in self.answers.each():
                if self.with_tools:
                    held[number] += piece.text
                elif piece.text or piece.token is not None:
                    added = {"content": piece.text} if chat else piece.text
                    yield event([choice(number, added, [piece])])
                if piece.finish is not None:
                    ending, finish = self._ending(held[number], piece.finish)
                    yield event([choice(number, ending if chat else "", [], finish)])
            if self.body.streams()[1]:
                yield event([], usage=self.answers.usage())
            yield "data: [DONE]\n\n"
        except RlxError as error:
            yield f"data: {json.dumps(_error_body(500, _logged(error)))}\n\n"
        finally:
            self.answers.cancel()

    def _ending(self, held: str, finish: str) -> tuple[dict[str, Any], str]:
        """Return what the last event of an answer adds, and why it ends."""
        content, calls = self._split(held)
        ending = {**({"content": content} if content else {}), **calls}
        return ending, "tool_calls" if calls else finish

    def _logs(self, pieces: list[Piece]) -> Any:
        """Return the log-probabilities of pieces' tokens, where they were asked for."""
        if self.answers.jobs[0].alternatives is None:
            return None
        named = [piece for piece in pieces if piece.token is not None]
        if self.kind == "text_completion":
            return {
                "tokens": [self._text(p.token) for p in named],
                "token_logprobs": [p.log_probability for p in named],
                "top_logprobs": [{self._text(t): log for t, log in p.likeliest} for p in named],
                "text_offset": [],
            }
        content = [
            {
                **self._log(p.token, p.log_probability),
                "top_logprobs": [self._log(*pair) for pair in p.likeliest],
            }
            for p in named
        ]
        return {"content": content, "refusal": None}

    def _text(self, token: int | None) -> str:
        tokenizer = self.service.model.tokenizer
        return "" if token is None else tokenizer.bytes_of(token).decode("utf-8", "replace")

    def _log(self, token: int | None, log: float) -> dict[str, Any]:
        tokenizer = self.service.model.tokenizer
        data = list(tokenizer.bytes_of(token)) if token is not None else []
        return {"token": self._text(token), "logprob": log, "bytes": data}


async def _unless_left(request: Request, answer: Coroutine[Any, Any, _T]) -> _T | None:
    """Return an answer, or None if the client leaves before; then it is cancelled."""
    leaving = asyncio.ensure_future(_disconnected(request))
    answering = asyncio.ensure_future(answer)
    try:
        await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        leaving.cancel()
        answering.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _error_body(status: int, message: str) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _logged(error: RlxError) -> str:
    """Return the message of an error that is the server's, after logging its traceback."""
    _LOG.error("a request failed", exc_info=error)
    return str(error)


def _error(status: int, message: str) -> Response:
    return JSONResponse(_error_body(status, message), status_code=status)
