from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unicodedata import normalize

import pytest

from danish_asr.base.errors import AlignmentError, SourceError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from danish_asr.inference.loose_text import Line, Text, TextsBeside, read_text
from danish_asr.inference.model import Model
from tests.decoding_inputs import SURE, log_probs_of
from tests.transcripts import textgrid


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["anna.txt"], "anna.txt"),
        (["anna.da.txt", "annabel.txt", "anna.2.txt"], "anna.da.txt"),  # 2: another recording
        (["Anna.txt", "anna.json"], None),  # of another recording; not a transcript
    ],
)
def test_the_text_of_a_recording_has_its_name(
    tmp_path: Path, names: list[str], expected: str | None
) -> None:
    for name in names:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    text = TextsBeside().read(tmp_path / "anna.wav")
    assert text == (expected and (tmp_path / expected, [Line("{}")]))
    decomposed = tmp_path / f"{normalize('NFD', 'blå')}.srt"  # as a Mac writes it
    decomposed.touch()
    assert TextsBeside().files(tmp_path / "blå.wav") == [decomposed]
    (tmp_path / "anna.txt").touch()
    (tmp_path / "anna.wav.txt").touch()
    with pytest.raises(SourceError, match=r"anna\.txt.*keep one"):
        TextsBeside().read(tmp_path / "anna.wav")


def test_a_folder_is_listed_once_for_all_its_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").touch()
    listed: list[Path] = []
    list_folder = Path.iterdir

    def counted(folder: Path) -> Iterator[Path]:
        listed.append(folder)
        return list_folder(folder)

    monkeypatch.setattr(Path, "iterdir", counted)
    texts = TextsBeside()
    for _ in range(2):
        found = [texts.files(tmp_path / f"{number}.wav") for number in range(4)]
        assert found == [*([tmp_path / f"{number}.txt"] for number in range(3)), []]
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


def test_plain_text_with_the_times_of_subtitles_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "anna.txt"
    path.write_text("1\n00:00:05,000 --> 00:00:06,000\nFarvel\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"anna\.txt.*clock times"):
        read_text(path)


@pytest.mark.parametrize("name", ["txt", "srt", "vtt", "textgrid"])
@pytest.mark.parametrize("speaker", [None, "Speaker 1"])
def test_what_transcribe_has_written_is_no_text_of_a_recording(
    tmp_path: Path, name: str, speaker: str | None
) -> None:
    """The JSON names its decoder; beside it, what has other words was corrected."""
    segments = [
        Segment.of([Word("hej", at, at + 1), Word("med", at + 1, at + 2)], speaker=speaker)
        for at in (0.0, 4.0, 8.0)
    ]
    written = Transcript(10.0, segments, "a.wav", {"decoder": "greedy"})
    audio, json_file = tmp_path / "a.wav", tmp_path / "a.json"
    json_file.write_text(FORMATS["json"](written), encoding="utf-8")
    with pytest.raises(SourceError, match=r"a\.json: is what a model has written"):
        read_text(json_file)
    with pytest.raises(SourceError, match=r"a\.json: is what a model has written"):
        TextsBeside().read(audio)
    other = tmp_path / f"a{SUFFIXES[name]}"
    other.write_text(FORMATS[name](written), encoding="utf-8")
    with pytest.raises(SourceError, match=rf"{other.name}: is what a model has written"):
        TextsBeside().read(audio)
    other.write_text(FORMATS[name](written).replace("med", "ved"), encoding="utf-8")
    text = TextsBeside().read(audio)
    assert text is not None
    assert text[0] == other


def test_words_of_a_text_are_as_the_model_writes_them_and_signs_stay_beside_them(
    model: Model,
) -> None:
    lines = [Line("– «Èn» 21 æbler –", "bo"), Line("* *"), Line("ja", "anna"), Line("nej", "bo")]
    text = Text(lines, model)
    assert [(word.text, word.spoken, word.line) for word in text.words] == [
        *(("– «Èn»", "en", 0), ("21", "enogtyve", 0), ("æbler –", "æbler", 0)),
        *(("ja", "ja", 2), ("nej", "nej", 3)),
    ]
    assert text.spoken(1, 4) == "enogtyve æbler ja"
    speakers = [text.speaker(*words) for words in ((0, 3), (2, 4), (3, 4), (4, 5))]
    assert speakers == ["bo", None, "anna", "bo"]


def test_the_words_of_a_text_have_times_from_the_columns_that_it_needs(model: Model) -> None:
    said = "_e_n_ _e_t_ _h_u_n_d_r_e_d_e_ _o_g_ _e_n_"
    text = Text([Line("en 101 kat")], model)
    frames = log_probs_of(said, model.tokenizer)[:, text.symbols]
    assert text.silent_columns[0] == 0
    space = log_probs_of(" ", model.tokenizer)[0].argmax()
    assert text.symbols[text.silent_columns[1]] == space
    one, number = text.align(frames, 0, 2, 10.0)
    assert (one.text, number.text) == ("en", "101")
    assert (one.start, one.end) == pytest.approx((10.0, 10.1), abs=0.03)
    assert (number.start, number.end) == pytest.approx((10.12, 10 + 0.02 * len(said)), abs=0.03)
    assert number.confidence == pytest.approx(SURE**21)  # of letters and the spaces of each word


@pytest.mark.parametrize(
    ("line", "message"),
    [("ja нет", None), ("ja нет да", "1 of the 3 words"), ("* *", "0 of the 0")],
)
def test_a_text_is_refused_of_which_the_model_can_write_less_than_half(
    model: Model, line: str, message: str | None
) -> None:
    with pytest.raises(AlignmentError, match=message) if message else nullcontext():
        Text([Line(line)], model)
