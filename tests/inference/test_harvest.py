import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.inventory import read_inventory
from danish_asr.decoding.transcript import Word
from danish_asr.inference.find_text import Found
from danish_asr.inference.harvest import Limits, harvest, hear_text, select
from danish_asr.inference.loose_text import Line
from danish_asr.inference.model import Heard, Model
from tests.builders import tone, tree
from tests.decoding_inputs import log_probs_of

SAID = "i dag skal vi tale om vejret og bagefter spiller vi noget musik fra fyn"
TEXT = SAID.split()
USUAL = Limits(max_cer=0.3, min_seconds=1, max_seconds=20)
TRAIN = ConvertOptions(name="radio", split="train", max_drop=1.0)


def speech(start: float, first: int, last: int, **values: Any) -> Found:
    text = " ".join(TEXT[first:last])
    others = {"cer": 0.0, "hypothesis": text, "end": start + 2, **values}
    return Found(text=text, start=start, first=first, last=last, **others)


@pytest.mark.parametrize(
    ("pieces", "utterances"),
    [
        ([speech(0, 0, 7), speech(3, 7, 15)], 1),
        ([speech(0, 0, 7), speech(3.1, 7, 15)], 2),  # a long pause
        ([speech(0, 0, 7), speech(2.5, 7, 15, end=20)], 1),
        ([speech(0, 0, 7), speech(2.5, 7, 15, end=20.1)], 2),  # too long together
        ([speech(0, 0, 6), speech(2.5, 7, 15)], 2),  # a word between them is not spoken
        ([speech(0, 0, 7), speech(2.5, 7, 15, speaker="bo")], 2),
        ([speech(0, 0, 7), speech(2.5, 7, 15, cer=0.9)], 1),
    ],
)
def test_neighbours_are_one_utterance_and_speech_is_kept_or_has_a_reason(
    pieces: list[Found], utterances: int
) -> None:
    selected = [*select(pieces, USUAL)]
    assert sum(not reason for _, reason in selected) == utterances
    texts = " ".join(own.text for own, _ in selected).split()
    assert sorted(texts) == sorted(" ".join(piece.text for piece in pieces).split())


def test_an_utterance_of_three_has_the_words_and_the_error_rate_of_all() -> None:
    rates = (0.3, 0.0, 0.0)
    pieces = [speech(2.5 * n, 3 * n, 3 * n + 3, cer=cer) for n, cer in enumerate(rates)]
    ((joined, _),) = select(pieces, USUAL)
    text = " ".join(TEXT[:9])
    assert (joined.text, joined.hypothesis, joined.first, joined.last) == (text, text, 0, 9)
    assert (joined.start, joined.end) == (0, 7)
    first, *others = (len(piece.text) for piece in pieces)
    assert joined.cer == pytest.approx(0.3 * first / (first + sum(others)), rel=0.1)
    without_text = [speech(start, 7, 7, hypothesis="ja", cer=1.0) for start in (0, 2.5)]
    ((joined, _),) = select(without_text, replace(USUAL, max_cer=1.0))
    assert joined.cer == 1.0


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"cer": 0.3}, ""),
        ({"cer": 0.31}, "text and speech differ"),
        ({"hypothesis": ""}, "the model writes no word"),
        ({"end": 0.9}, "shorter than 1 s"),
        ({"end": 1.0}, ""),
        ({"end": 20.0}, ""),
        ({"end": 20.1}, "longer than 20 s"),
    ],
)
def test_what_is_within_the_limits_is_kept_and_other_speech_has_its_reason(
    values: dict[str, Any], reason: str
) -> None:
    piece = replace(speech(0, 0, 7), **values)
    assert [*select([piece], USUAL)] == [(piece, reason)]


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    (tmp_path / "a.wav").write_bytes(tone())
    return tmp_path / "a.wav"


def heard(
    model: Model,
    audio: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    words: list[Word],
    *lines: Line,
) -> list[Found]:
    """What is found of lines in a window from 10 s on, in which a model emits ``path``."""
    window = Heard(10.0, False, log_probs_of(path, model.tokenizer), words)  # noqa: FBT003
    monkeypatch.setattr(model, "hear", lambda _, **__: iter([window]))
    return hear_text(model, audio, lines)[1]


@pytest.mark.parametrize(
    ("blanks", "expected"), [(25, (10.36, 10.82)), (4, (10.0, 10.34)), (1, (10.0, 10.22))]
)
def test_a_piece_has_a_margin_as_far_as_its_window_goes(
    model: Model,
    audio: Path,
    monkeypatch: pytest.MonkeyPatch,
    blanks: int,
    expected: tuple[float, float],
) -> None:
    path = f"{'_' * blanks}j_a_ _d_a{'_' * blanks}"
    words = [Word("ja", 10, 10.1), Word("da", 10.1, 10.2)]
    for other, speaker in (("anna", "anna"), ("bo", None), (None, None)):
        lines = Line("ja", "anna"), Line("da", other)
        (piece,) = heard(model, audio, monkeypatch, path, words, *lines)
        assert (piece.start, piece.end) == pytest.approx(expected)
        assert (piece.text, piece.cer, piece.speaker) == ("ja da", 0, speaker)


def test_a_long_window_is_divided_at_its_pause(
    model: Model, audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"j_a{'_' * 220}d_a"  # 226 frames, 4.52 s
    words = [Word("ja", 10, 10.06), Word("da", 14.46, 14.52)]
    one, other = heard(model, audio, monkeypatch, path, words, Line("ja da"))
    assert (one.start, one.end, one.first, one.last) == pytest.approx((10.0, 10.2, 0, 1))
    assert (other.start, other.end, other.first, other.last) == pytest.approx((14.32, 14.52, 1, 2))
    words[1] = Word("da", 13.94, 14.0)
    assert len(heard(model, audio, monkeypatch, path, words, Line("ja da"))) == 1


@pytest.mark.parametrize(("pieces", "wrong", "warnings"), [(20, 0, 1), (19, 0, 0), (20, 1, 0)])
def test_a_text_that_is_exactly_what_the_model_hears_is_doubted(
    tmp_path: Path, monkeypatch: Any, capfd: Any, *, pieces: int, wrong: int, warnings: int
) -> None:
    (tmp_path / "a.wav").write_bytes(tone())
    (tmp_path / "a.txt").write_text(SAID)
    of_text = [speech(3 * n, n, n + 1, cer=0.1 * (n < wrong)) for n in range(pieces)]
    for name, value in (("hear_text", (60.0, of_text)), ("load_model", "a model")):
        monkeypatch.setattr(f"danish_asr.inference.harvest.{name}", lambda *_, v=value, **__: v)
    assert harvest([tmp_path], tmp_path / "out", "a-model", USUAL)
    assert capfd.readouterr().err.count(f"warning: {tmp_path / 'a.txt'}") == warnings


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_what_text_and_speech_agree_on_is_kept_with_the_audio_of_its_words(
    model: Model, model_directory: Path, radio: Path, tmp_path: Path
) -> None:
    command = f"harvest {radio} --model {model_directory} --out {tmp_path}"
    done = CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert done.exit_code == 0
    assert "without a text beside them: 1" in done.stderr
    kept = rows(tmp_path / "utterances.jsonl")
    for number in range(3):
        path = f"programme-{number}.wav"
        transcript = model.transcribe(radio / path)
        own = [row for row in kept if row["audio_filepath"].endswith(path)]
        said = " ".join(segment.text for segment in transcript.segments[2:])
        assert " ".join(row["text"] for row in own) == said
        assert own[0]["start"] == pytest.approx(transcript.segments[2].start, abs=0.15)
        assert own[-1]["end"] == pytest.approx(transcript.segments[-1].end, abs=0.15)
    reasons = {row["reason"] for row in rows(tmp_path / "left-out.jsonl")}
    assert reasons == {"text and speech differ"}
    for table in ("left-out.jsonl", "utterances.jsonl"):
        assert all((tmp_path / row["audio_filepath"]).is_file() for row in rows(tmp_path / table))
    convert(f"table:{tmp_path / 'utterances.jsonl'}", tmp_path / "dataset", TRAIN)
    assert read_inventory(tmp_path / "dataset").rows == len(kept)


def test_other_limits_need_no_model_and_other_weights_hear_again(
    model_directory: Path, radio: Path, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same directory with new weights once mixed what two checkpoints had heard."""
    own = shutil.copytree(model_directory, tmp_path / "own")
    out, with_text = tmp_path / "out", sorted(radio.glob("*[012].wav"))
    assert harvest(with_text, out, str(own), USUAL, device="cpu")
    before = tree(out / "recordings")
    with monkeypatch.context() as without_model:
        without_model.setattr("danish_asr.inference.harvest.load_model", None)
        assert harvest(with_text, out, str(own), replace(USUAL, max_cer=0))
    assert "heard before: 3" in capfd.readouterr().err
    assert tree(out / "recordings") == before
    weights = torch.load(own / "model.pt")
    weights["final_proj.bias"] += torch.arange(len(weights["final_proj.bias"]))
    torch.save(weights, own / "model.pt")
    assert harvest(with_text, out, str(own), USUAL, device="cpu")
    assert "heard before" not in capfd.readouterr().err
    (out / "recordings" / "programme-1.json").unlink()
    assert harvest(with_text, out, str(own), USUAL, device="cpu")
    assert "heard before: 2" in capfd.readouterr().err


def test_a_number_is_another_speaker_in_each_recording_and_a_name_is_not(
    tmp_path: Path, monkeypatch: Any
) -> None:
    pieces = [
        speech(3 * number, number, number + 1, speaker=speaker)
        for number, speaker in enumerate(("Speaker 1", "Anna"))
    ]
    for stem in ("a", "b"):
        (tmp_path / f"{stem}.wav").write_bytes(tone())
        (tmp_path / f"{stem}.txt").write_text(SAID)
    for name, value in (("hear_text", (60.0, pieces)), ("load_model", "a model")):
        monkeypatch.setattr(f"danish_asr.inference.harvest.{name}", lambda *_, v=value, **__: v)
    assert harvest([tmp_path], tmp_path / "out", "a-model", USUAL)
    speakers = [row["speaker_id"] for row in rows(tmp_path / "out" / "utterances.jsonl")]
    assert speakers == ["a Speaker 1", "Anna", "b Speaker 1", "Anna"]


@pytest.mark.parametrize("text", ["1 2 sild", None])
def test_where_nothing_is_heard_no_table_is_written(
    tmp_path: Path, monkeypatch: Any, text: str | None
) -> None:
    monkeypatch.setattr("danish_asr.inference.harvest.load_model", lambda *_, **__: "a model")
    (tmp_path / "a.wav").write_bytes(tone())
    if text:
        (tmp_path / "a.txt").write_text(text)
    assert not harvest([tmp_path], tmp_path / "out", "a-model", USUAL)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_what_a_model_hears_does_not_replace_the_text_beside_a_recording(
    model_directory: Path, radio: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out" / "recordings"
    folder.mkdir(parents=True)
    shutil.copy(radio / "programme-3.wav", folder / "a.wav")
    text = folder / "a.json"
    segment = {"start": 0, "end": 9, "text": SAID}
    text.write_text(json.dumps({"segments": [segment]}), encoding="utf-8")
    before = text.read_bytes()
    with pytest.raises(ConfigError, match=str(text)):
        harvest([folder], tmp_path / "out", str(model_directory), USUAL, device="cpu")
    assert text.read_bytes() == before
