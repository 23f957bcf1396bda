"""OpenAI's ``/v1/audio/transcriptions``: the form that a program sends, and what it gets.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

import json
from collections.abc import Callable, Sequence
from email.message import Message
from email.parser import HeaderParser
from math import log
from typing import Any, Final, NamedTuple

from danish_asr.base.errors import TranscriptionError

PATH: Final = "/v1/audio/transcriptions"
MODELS: Final = "/v1/models"

JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_GRANULARITIES: Final = "timestamp_granularities[]"


class Transcription(NamedTuple):
    """What `serve` sends to its page, put together."""

    files: dict[str, str]
    duration: float
    segments: Sequence[dict[str, Any]]

    @property
    def text(self) -> str:
        """The whole text in one line."""
        return " ".join(self.files["txt"].split())


class Form(NamedTuple):
    """A request."""

    audio: bytes
    response_format: str
    words: bool
    """Whether ``verbose_json`` has the times of words."""

    def answer(self, transcription: Transcription) -> tuple[str, str]:
        """Return the type and the content of the answer."""
        kind, write = _ANSWERS[self.response_format]
        return kind, write(transcription, self.words)


def read_form(content_type: str, body: bytes) -> Form:
    """Read a request; raises TranscriptionError if it is no form with audio."""
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_boundary()
    if message.get_content_type() != "multipart/form-data" or not boundary:
        raise TranscriptionError(
            f"expected multipart/form-data with a file, found {content_type or 'no Content-Type'}"
        )
    fields: dict[str, list[bytes]] = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        headers = HeaderParser().parsestr(head.decode(errors="replace").lstrip())
        name = headers.get_param("name", "", "Content-Disposition")
        fields.setdefault(str(name), []).append(content)
    response_format = fields.get("response_format", [b"json"])[-1].decode(errors="replace")
    if response_format not in _ANSWERS:
        known = ", ".join(_ANSWERS)
        raise TranscriptionError(f"response_format: one of {known}; found {response_format!r}")
    if not any(fields.get("file", [])):
        raise TranscriptionError("file: expected an audio file in the form, found none")
    return Form(fields["file"][-1], response_format, b"word" in fields.get(_GRANULARITIES, []))


def error(message: str) -> dict[str, Any]:
    """Return a refusal as OpenAI's clients read it."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def models(name: str) -> dict[str, Any]:
    """Return the list of models, of which there is one."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "danish-asr"}
    return {"object": "list", "data": [model]}


def _verbose(transcription: Transcription, words: bool) -> str:
    result: dict[str, Any] = {
        "task": "transcribe",
        "language": "danish",
        "duration": transcription.duration,
        "text": transcription.text,
        "segments": [
            _segment(number, segment) for number, segment in enumerate(transcription.segments)
        ],
    }
    if words:
        result["words"] = [
            {"word": word["text"], "start": word["start"], "end": word["end"]}
            for segment in transcription.segments
            for word in segment["words"]
        ]
    return json.dumps(result)


def _segment(number: int, segment: dict[str, Any]) -> dict[str, Any]:
    words = segment["words"]
    sure = [word["confidence"] for word in words]
    logs = [0.0 if value is None else log(max(value, 1e-9)) for value in sure]
    return {
        "id": number,
        "start": segment["start"],
        "end": segment["end"],
        "text": " ".join(word["text"] for word in words),
        "avg_logprob": sum(logs) / max(len(logs), 1),
        # Whisper's, which clients may require: a CTC model has none of them.
        "seek": 0,
        "tokens": [],
        "temperature": 0.0,
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }


_ANSWERS: Final[dict[str, tuple[str, Callable[[Transcription, bool], str]]]] = {
    "json": (JSON, lambda transcription, _: json.dumps({"text": transcription.text})),
    "verbose_json": (JSON, _verbose),
    "text": (_TEXT, lambda transcription, _: f"{transcription.text}\n"),
    "srt": (_TEXT, lambda transcription, _: transcription.files["srt"]),
    "vtt": (_TEXT, lambda transcription, _: transcription.files["vtt"]),
}
