"""Answers and events as clients of OpenAI's interface read them."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

from tests.served import events, refused, send

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
TEXT = "røde <b>grød</b> hej"


def test_all_formats_are_answered(address: str) -> None:
    usage = {"type": "duration", "seconds": 2.0}
    assert json.loads(send(address, ("model", "whisper-1"))) == {"text": TEXT, "usage": usage}
    assert send(address, ("response_format", "text")) == f"{TEXT}\n"
    assert send(address, ("response_format", "srt")).startswith("1\n00:00:00,250 --> ")
    assert send(address, ("response_format", "vtt")).startswith("WEBVTT\n")
    verbose = json.loads(send(address, ("response_format", "verbose_json")))
    assert verbose["segments"].pop(1)["id"] == 1
    (segment,) = verbose.pop("segments")
    assert verbose == {
        "task": "transcribe",
        "language": "da",
        "duration": 2.0,
        "text": TEXT,
        "usage": usage,
    }
    assert segment == {
        "id": 0,
        "seek": 25,
        "start": 0.25,
        "end": 1.5,
        "text": "røde <b>grød</b>",
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": pytest.approx((np.log(0.98) + np.log(0.05)) / 2),
        "compression_ratio": 0.72,
        "no_speech_prob": 0.0,
    }
    words = ("response_format", "verbose_json"), ("timestamp_granularities[]", "word")
    assert {"words"} == {"words", "segments"} & json.loads(send(address, *words)).keys()


def test_segments_come_as_events(address: str) -> None:
    *deltas, done = events(send(address, ("stream", "true"), ("timestamp_granularities[]", "word")))
    assert [event["delta"] for event in deltas] == ["røde <b>grød</b> ", "hej "]
    assert deltas[1]["segment"]["start"] == 59.6
    assert (done["type"], done["text"], done["duration"]) == ("transcript.text.done", TEXT, 2.0)
    assert sorted(done["files"]) == ["json", "srt", "txt", "vtt"]
    assert json.loads(done["files"]["json"])["file"] == "æ.wav"
    (done,) = events(send(address, ("stream", "true"), audio=b"RIFF silent"))
    assert (done["text"], "no speech" in done["why_empty"]) == ("", True)


@pytest.mark.parametrize(
    ("audio", "status", "kind"),
    [(b"no audio", 400, "invalid_request_error"), (b"RIFF fault", 500, "server_error")],
)
def test_an_error_is_answered_and_ends_a_stream(
    address: str, audio: bytes, status: int, kind: str
) -> None:
    (event,) = events(send(address, ("stream", "true"), audio=audio))
    assert (event["type"], event["error"]["type"]) == ("error", kind)
    code, message = refused(address, audio=audio)
    assert (code, message) == (status, event["error"]["message"])


def test_the_model_is_listed_and_other_addresses_are_refused_as_clients_read_it(
    address: str,
) -> None:
    with urlopen(f"{address}v1/models") as response:  # noqa: S310
        (model,) = json.loads(response.read())["data"]
    assert (model["id"], model["object"], type(model["created"])) == ("<i>m</i>", "model", int)
    with pytest.raises(HTTPError, match="404") as refusal:
        urlopen(f"{address}v1/audio/speech")  # noqa: S310
    assert json.loads(refusal.value.read())["error"]["type"] == "invalid_request_error"


def keys_of(tree: Any) -> set[str]:
    if isinstance(tree, list):
        return {key for one in tree for key in keys_of(one)}
    if not isinstance(tree, dict):
        return set()
    return {*tree} | keys_of([value for key, value in tree.items() if key != "files"])


def test_the_guide_has_exactly_the_fields_that_are_sent(address: str) -> None:
    tables = documented(HOWTO.read_text(encoding="utf-8"))
    times = [("timestamp_granularities[]", one) for one in ("word", "segment")]
    answer = json.loads(send(address, ("response_format", "verbose_json"), *times))
    assert keys_of(answer) == tables["answer"]
    sent = events(send(address, ("stream", "true")))
    (error,) = events(send(address, ("stream", "true"), audio=b"no audio"))
    assert keys_of(sent) | {*error} == tables["event"]


def documented(guide: str) -> dict[str, set[str]]:
    """The fields of each table that are not absent."""
    tables = re.findall(r"\| field of (?:the|an) (\w+) \|.*\n\|---\|---\|\n((?:\|.*\n)+)", guide)
    return {
        name: {
            field
            for row in rows.splitlines()
            if not row.endswith("| absent |")
            for field in re.findall("`([^`]+)`", row.split("|")[1])
        }
        for name, rows in tables
    }
