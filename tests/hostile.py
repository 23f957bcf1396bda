from typing import Any

from tests.shards import flac, utterance

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def _row(number: int, split: str, **values: Any) -> dict[str, Any]:
    audio = flac(values.get("audio_size", 8_000), number + 100 * (split == "test"))
    usual: dict[str, Any] = {"dialect": "Fynsk", "audio_size": 8_000, "audio_bytes": audio}
    return utterance(number, split=split, **usual | values)
