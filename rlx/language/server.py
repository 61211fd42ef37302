"""OpenAI's HTTP interface to a model: `rlx serve model.gguf`.

Chat completions, completions and models, whole or streamed, by Starlette; requests join the
running batch of an `Engine`. Needs `pip install rlx[serve]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rlx.dataclass import dataclass
from rlx.errors import InputError, RlxError
from rlx.language.engine import Engine, EngineFullError, Job, Piece
from rlx.language.model import LanguageModel
from rlx.language.openai_requests import Body, tool_calls
from rlx.language.streaming import TextStream
from rlx.language.text import Text

_MOST_ALTERNATIVES = 20
_LOG = logging.getLogger("rlx.serve")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may take."""

    body_bytes: int = 4 << 20
    seconds: float = 600.0
    """Of an answer; it ends then as if it had reached its length."""
    default_tokens: int = 1024


@dataclass(eq=False)
class _Answer:
    """A job and the pieces it has delivered."""

    job: Job
    pieces: asyncio.Queue[Piece]
    prompt_tokens: int

    async def each(self) -> AsyncIterator[Piece]:
        """Yield pieces to the last one; what stops reading cancels the job."""
        try:
            while True:
                piece = await self.pieces.get()
                if piece.error is not None:
                    raise piece.error
                yield piece
                if piece.finish is not None:
                    return
        finally:
            self.job.cancelled = True

    def usage(self) -> dict[str, int]:
        made = self.job.made
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": made,
            "total_tokens": self.prompt_tokens + made,
        }


def application(
    model: LanguageModel, *, name: str, slots: int = 8, limits: Limits | None = None
) -> Starlette:
    """Return the application; its engine runs while it does."""
    engine = Engine(model, slots, ends=model.tokenizer.end_tokens)
    service = _Service(engine, name, limits or Limits())

    @contextlib.asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        engine.start()
        try:
            yield
        finally:
            await asyncio.to_thread(engine.close)

    posts = {"/v1/chat/completions": service.chat, "/v1/completions": service.complete}
    routes = [Route(path, service.answering(use), methods=["POST"]) for path, use in posts.items()]
    routes += [Route("/v1/models", service.models), Route("/health", service.health)]
    return Starlette(routes=routes, lifespan=running)


@dataclass(eq=False)
class _Service:
    engine: Engine
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

    def _submit(self, body: Body, prompt: list[int], alternatives: int | None) -> _Answer:
        """Let the engine answer a prompt, once all of the body is checked."""
        body.streams()
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[Piece]()
        room = max(1, self.engine.model.context - len(prompt))
        least = min(self.limits.default_tokens, room)
        most = body.integer("max_completion_tokens", None, 1, 1 << 31)
        most = most or body.integer("max_tokens", least, 1, 1 << 31)
        seed = body.integer("seed", int(uuid.uuid4()) >> 65, -(1 << 63), (1 << 63) - 1)
        assert most is not None
        assert seed is not None

        def deliver(piece: Piece) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        text = Text(list(prompt), body.sampling(), seed % 2**64)
        stream = TextStream(self.engine.model.tokenizer, body.stops())
        until = time.monotonic() + self.limits.seconds
        job = Job(text, most, stream, deliver, alternatives, until)
        self.engine.submit(job)
        return _Answer(job, pieces, len(prompt))

    async def chat(self, request: Request, body: Body) -> Response:
        messages, tools = body.messages(), body.tools()
        values: dict[str, Any] = {"tools": tools} if tools else {}
        prompt = self.engine.model.tokenizer.chat(messages, **values)
        wanted = body.integer("top_logprobs", 0, 0, _MOST_ALTERNATIVES)
        answer = self._submit(body, prompt, wanted if body.flag("logprobs") else None)
        form = _Form(self, answer, body, "chat.completion", "chatcmpl", with_tools=bool(tools))
        return await form.response(request)

    async def complete(self, request: Request, body: Body) -> Response:
        prompt = body.fields.get("prompt")
        if isinstance(prompt, str):
            prompt = self.engine.model.tokenizer.encode(prompt)
        if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
            raise body.error("prompt", "a string or a list of tokens")
        vocabulary = self.engine.model.config.vocabulary
        if not all(0 <= token < vocabulary for token in prompt):
            raise body.error("prompt", f"made of tokens below {vocabulary}")
        wanted = body.integer("logprobs", None, 0, _MOST_ALTERNATIVES)
        answer = self._submit(body, prompt, wanted)
        return await _Form(self, answer, body, "text_completion", "cmpl").response(request)


@dataclass(eq=False)
class _Form:
    """An answer as OpenAI's interface writes it."""

    service: _Service
    answer: _Answer
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
        leaving = asyncio.ensure_future(_disconnected(request))
        reading = asyncio.ensure_future(self._whole())
        try:
            await asyncio.wait({leaving, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return Response(status_code=499)
            text, logs, finish = reading.result()
        finally:
            leaving.cancel()
            reading.cancel()
            self.answer.job.cancelled = True
        choice = {"index": 0, "finish_reason": finish, "logprobs": self._logs(logs)}
        if self.kind == "text_completion":
            choice["text"] = text
        else:
            content, calls = self._split(text)
            choice["message"] = {"role": "assistant", "content": content or None, **calls}
            choice["message"]["content"] = content if content or not calls else None
            choice["finish_reason"] = "tool_calls" if calls else finish
        body = {**head, "object": self.kind, "choices": [choice], "usage": self.answer.usage()}
        return JSONResponse(body)

    async def _whole(self) -> tuple[str, list[Piece], str]:
        pieces = [piece async for piece in self.answer.each()]
        return "".join(piece.text for piece in pieces), pieces, pieces[-1].finish or "stop"

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

        def choice(added: Any, pieces: list[Piece], finish: str | None = None) -> dict[str, Any]:
            field = {"delta": added} if chat else {"text": added}
            return {"index": 0, **field, "finish_reason": finish, "logprobs": self._logs(pieces)}

        try:
            if chat:
                yield event([choice({"role": "assistant", "content": ""}, [])])
            held, finish = "", "stop"
            async for piece in self.answer.each():
                finish = piece.finish or finish
                if self.with_tools:
                    held += piece.text
                elif piece.text or piece.token is not None:
                    added = {"content": piece.text} if chat else piece.text
                    yield event([choice(added, [piece])])
            ending: Any = {} if chat else ""
            if self.with_tools:
                content, calls = self._split(held)
                ending = {**({"content": content} if content else {}), **calls}
                finish = "tool_calls" if calls else finish
            yield event([choice(ending, [], finish)])
            if self.body.streams()[1]:
                yield event([], usage=self.answer.usage())
            yield "data: [DONE]\n\n"
        except RlxError as error:
            yield f"data: {json.dumps(_error_body(500, _logged(error)))}\n\n"
        finally:
            self.answer.job.cancelled = True

    def _logs(self, pieces: list[Piece]) -> Any:
        """Return the log-probabilities of pieces' tokens, where they were asked for."""
        if self.answer.job.alternatives is None:
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
        tokenizer = self.service.engine.model.tokenizer
        return "" if token is None else tokenizer.bytes_of(token).decode("utf-8", "replace")

    def _log(self, token: int | None, log: float) -> dict[str, Any]:
        tokenizer = self.service.engine.model.tokenizer
        data = list(tokenizer.bytes_of(token)) if token is not None else []
        return {"token": self._text(token), "logprob": log, "bytes": data}


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
