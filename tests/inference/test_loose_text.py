import io
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from rich.console import Console

from danish_asr.base.errors import AlignmentError, SourceError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.loose_text import (
    Line,
    Piece,
    Text,
    TextsBeside,
    align,
    match,
    read_text,
    report_doubts,
)
from danish_asr.inference.model import Model
from tests.decoding_inputs import SURE, log_probs_of
from tests.transcripts import textgrid

SENTENCES = ("Bo køber 25 røde æbler, ja.", "– «Èn» dag – i Ribe!")


@pytest.fixture
def audio(speech: NDArray[np.float32], tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "speech.wav", speech, 16_000)
    return tmp_path / "speech.wav"


def test_the_words_of_a_text_are_kept_as_written_and_timed_in_order(
    model: Model, audio: Path
) -> None:
    transcript = align(model, audio, [Line(text) for text in (*SENTENCES, "* * *")])
    # A dash is not spoken, and the last line has no word at all.
    assert [word.text for word in transcript.words] == [
        *("Bo", "køber", "25", "røde", "æbler,", "ja."),
        *("– «Èn»", "dag –", "i", "Ribe!"),
    ]
    assert [segment.text for segment in transcript.segments] == list(SENTENCES)
    times = [time for word in transcript.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] > 0.6
    assert times[-1] < transcript.duration - 0.6
    assert all(0 <= (word.confidence or 0) <= 1 for word in transcript.words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("...", "0 of the 0 words"),
        ("Нет, это не датский текст", r"0 of the 5 words .*Нет"),
        ("rødgrød med fløde " * 1000, r"needs at least .* s of audio"),
    ],
)
def test_a_text_that_cannot_be_aligned_is_refused(
    model: Model, audio: Path, text: str, message: str
) -> None:
    with pytest.raises(AlignmentError, match=message):
        align(model, audio, [Line(text)])


def test_audio_without_speech_is_refused(model: Model, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 16_000)
    with pytest.raises(AlignmentError, match="no speech found in 1"):
        align(model, tmp_path / "a.wav", [Line("hej")])


TEXT = [
    "i",
    "dag",
    "skal",
    "vi",
    "tale",
    "om",
    "vejret",
    "og",
    "bagefter",
    "spiller",
    "vi",
    "noget",
    "musik",
    "fra",
    "fyn",
]


@pytest.mark.parametrize(
    ("hypotheses", "expected"),
    [
        (["i dag skal vi tale om vejret", "og bagefter spiller vi"], [(0, 7), (7, 11)]),
        (["idag skl vi tale m vejrt", "bagefer spilr vi noget"], [(0, 7), (8, 12)]),
        # What the text lacks has no words of it, and takes none of the next piece.
        (["skal vi tale om vejret", "zzzz xxxx", "noget musik fra fyn"], [(2, 7), (11, 15)]),
        # What is not spoken belongs to no piece.
        (["i dag skal vi", "noget musik fra fyn"], [(0, 4), (11, 15)]),
    ],
)
def test_a_piece_of_speech_finds_its_words_in_a_text_that_lacks_and_adds_some(
    hypotheses: list[str], expected: list[tuple[int, int]]
) -> None:
    stretches = [own for own in match(hypotheses, TEXT) if own and own.cer < 0.5]
    assert [own[:2] for own in stretches] == expected


def test_a_window_that_is_badly_heard_divides_no_text(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model hears "j" where "ja nej" is said, and then "ej hej" where "hej" is said."""
    said = [(0.0, "_j_a_ _n_e_j_", "j"), (3.0, "_h_e_j_", "ej hej")]

    def listen(_: Model, __: Path, text: Text, ___: object) -> tuple[float, list[Piece]]:
        return 6.0, [
            Piece(
                at, [Word(hypothesis, at, at)], log_probs_of(path, model.tokenizer)[:, text.symbols]
            )
            for at, path, hypothesis in said
        ]

    monkeypatch.setattr("danish_asr.inference.loose_text.listen", listen)
    transcript = align(model, Path("a.wav"), [Line("ja"), Line("nej", "bo"), Line("hej")])
    assert [round(word.start, 2) for word in transcript.words] == [0.0, 0.11, 2.98]
    assert [round(word.end, 2) for word in transcript.words] == [0.11, 0.28, 3.14]
    assert [own.speaker for own in transcript.segments] == [None, "bo", None]
    assert transcript.words[0].confidence == pytest.approx(SURE**3)  # two letters and the space
    assert (transcript.duration, transcript.about["aligned"]) == (6.0, True)


@pytest.mark.parametrize(
    ("doubtful", "words", "is_refused"), [(11, 20, True), (10, 20, False), (19, 19, False)]
)
def test_a_text_of_which_most_is_hardly_heard_is_refused(
    doubtful: int, words: int, *, is_refused: bool
) -> None:
    said = [Word("ja", n, n + 1, 0.09 if n < doubtful else 0.1) for n in range(words)]
    printed = Console(file=io.StringIO(), width=200)
    with pytest.raises(AlignmentError) if is_refused else nullcontext() as refusal:
        report_doubts(Transcript(60.0, [Segment.of(said)]), printed)
    shown = str(refusal.value) if refusal else printed.file.getvalue()  # type: ignore[attr-defined]
    assert shown.startswith(f"{doubtful} of {words} words")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["anna.srt"], "anna.srt"),
        (["anna.da.vtt", "annabel.srt", "anna.2.srt"], "anna.da.vtt"),  # 2: another recording
        (["Anna.srt", "anna.json"], None),  # of another recording; not a transcript
    ],
)
def test_the_text_of_a_recording_has_its_name(
    tmp_path: Path, names: list[str], expected: str | None
) -> None:
    for name in names:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert TextsBeside().of(tmp_path / "anna.wav") == (expected and tmp_path / expected)
    decomposed = tmp_path / f"{normalize('NFD', 'blå')}.srt"  # as a Mac writes it
    decomposed.touch()
    assert TextsBeside().of(tmp_path / "blå.wav") == decomposed
    (tmp_path / "anna.txt").touch()
    (tmp_path / "anna.wav.txt").touch()
    with pytest.raises(SourceError, match=r"anna\.txt.*keep one"):
        TextsBeside().of(tmp_path / "anna.wav")


def test_a_folder_is_listed_once_for_all_its_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").touch()
    (tmp_path / "0.json").write_text('{"no": "transcript"}')
    listed: list[Path] = []
    list_folder = Path.iterdir

    def counted(folder: Path) -> Iterator[Path]:
        listed.append(folder)
        return list_folder(folder)

    monkeypatch.setattr(Path, "iterdir", counted)
    texts = TextsBeside()
    for _ in range(2):
        found = [texts.of(tmp_path / f"{number}.wav") for number in range(4)]
        assert found == [*(tmp_path / f"{number}.txt" for number in range(3)), None]
    assert listed == [tmp_path]


def test_texts_are_cleaned_and_subtitles_in_the_order_of_their_times(tmp_path: Path) -> None:
    (tmp_path / "anna.txt").write_text("- <i>Hej</i>  med\n♪ la la\n— dig\n", encoding="utf-8")
    assert read_text(tmp_path / "anna.txt") == [Line("Hej med"), Line("dig")]
    (tmp_path / "anna.srt").write_text(
        "1\n00:00:05,000 --> 00:00:06,000\nAnna: - Farvel\n\n"
        "2\n00:00:01,000 --> 00:00:02,000\nBo: Hej\n\n"
        "3\n00:00:03,000 --> 00:00:04,000\nBo: ♪ la la\n",
        encoding="utf-8",
    )
    assert read_text(tmp_path / "anna.srt") == [Line("Hej", "Bo"), Line("Farvel", "Anna")]
    labels = textgrid({"ord": [(0, 1, "sil"), (1, 2, "hej")]})["short"]
    (tmp_path / "anna.TextGrid").write_text(labels)
    assert read_text(tmp_path / "anna.TextGrid") == [Line("hej")]


def test_what_transcribe_has_written_is_no_text_of_a_recording(
    model: Model, audio: Path, tmp_path: Path
) -> None:
    written = tmp_path / "a.json"
    written.write_text(FORMATS["json"](model.transcribe(audio)), encoding="utf-8")
    with pytest.raises(SourceError, match=r"a\.json: is what a model has written"):
        read_text(written)
