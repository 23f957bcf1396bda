"""Transcripts, events, models and errors in the form that clients of OpenAI's interface read.

https://platform.openai.com/docs/api-reference/audio is its source; docs/howto/serve.md lists what
stands in fields that a CTC model cannot fill.
"""

import json
import math
import zlib
from collections.abc import Collection, Mapping
from typing import Any, Final

from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.formats import FORMATS

_DOWNLOADS: Final = ("txt", "srt", "vtt", "json")

_LEAST: Final = 1e-6
"""A confidence below counts as this: JSON has no infinity for its logarithm."""


def model_list(name: str, created: int) -> dict[str, Any]:
    """Return the list of models; ``created`` is a Unix time."""
    model = {"id": name, "object": "model", "created": created, "owned_by": "danish-asr"}
    return {"object": "list", "data": [model]}


def short_answer(transcript: Transcript) -> dict[str, Any]:
    """Return what ``response_format=json`` gives."""
    return {
        "text": _line(transcript),
        "usage": {"type": "duration", "seconds": transcript.duration},
    }


def verbose_answer(
    transcript: Transcript, language: str, granularities: Collection[str]
) -> dict[str, Any]:
    """Return what ``response_format=verbose_json`` gives, with ``segment`` and ``word`` times."""
    answer = short_answer(transcript) | {
        "task": "transcribe",
        "language": language,
        "duration": transcript.duration,
    }
    if "segment" in granularities:
        segments = enumerate(transcript.segments)
        answer["segments"] = [_segment(number, segment) for number, segment in segments]
    if "word" in granularities:
        answer["words"] = [
            {
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "confidence": word.confidence,
            }
            for word in transcript.words
        ]
    return answer


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    confidences = [word.confidence for word in segment.words if word.confidence is not None]
    logarithms = [math.log(max(confidence, _LEAST)) for confidence in confidences]
    text = segment.text.encode()
    return {
        "id": number,
        "seek": round(100 * segment.start),  # in Whisper's frames
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": sum(logarithms) / max(len(logarithms), 1),
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": 0.0,
    }


def delta_event(segment: Segment) -> str:
    """Return the event of a segment that has ended; OpenAI's has no ``segment``."""
    return _event("transcript.text.delta", delta=f"{segment.text} ", segment=segment.to_dict())


def done_event(transcript: Transcript, why_empty: str) -> str:
    """Return the last event; OpenAI's has neither ``duration``, ``why_empty`` nor ``files``."""
    contents = {name: FORMATS[name](transcript) for name in _DOWNLOADS}
    return _event(
        "transcript.text.done",
        text=_line(transcript),
        duration=transcript.duration,
        why_empty=why_empty,
        files=contents,
    )


def error_event(status: int, message: str) -> str:
    """Return the event that ends a stream early."""
    return _event("error", **error_of(status, message))


def error_of(status: int, message: str) -> dict[str, Mapping[str, str | None]]:
    """Return an error with the status of its answer."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _line(transcript: Transcript) -> str:
    return " ".join(transcript.text.split())


def _event(kind: str, **values: Any) -> str:
    return f"data: {json.dumps({'type': kind, **values})}\n\n"
