"""The data of `benchmarks/quality.py`: eSpeak NG's speech in four languages, as built datasets.

Swedish, Norwegian and German for pretraining: words and compounds of two words at random. Danish:
the demo's sentences, two in an utterance, by speakers who are in one split only. The text is
normalised, because upstream's recipe trains on it as it is.
"""

import json
import shutil
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources.synthetic import draw_sentence, speak
from danish_asr.corpus.sources.voices import DIALECT_VOICES, Espeak, SyntheticSpeaker, draw_speaker
from danish_asr.text.profiles import normalize

Wave = NDArray[np.float32]

WORDS: Final = {
    "sv": "jag du han hon vi inte och men som på från till under över mellan hus dörr fönster bord "
    "stol bil väg skog sjö fjäll sten blomma träd äpple päron bröd smör ost mjölk vatten katt hund "
    "häst ko fågel fisk barn flicka pojke kvinna man vän skola bok penna läser skriver äter "
    "dricker sover springer köper säljer röd blå grön gul svart vit stor liten gammal ny vacker "
    "fem sex sju åtta nio tio tjugo hundra kväll morgon sommar vinter yxa quiz zebra webb",
    "nb": "jeg du han hun vi ikke og men som på fra til under over mellom hus dør vindu bord stol "
    "bil vei skog sjø fjell stein blomst tre eple pære brød smør ost melk vann katt hund hest ku "
    "fugl fisk barn jente gutt kvinne mann venn skole bok penn leser skriver spiser drikker sover "
    "løper kjøper selger rød blå grønn gul svart hvit stor liten gammel ny vakker fem seks sju "
    "åtte ni ti tjue hundre kveld morgen sommer vinter øks ære første været håper taxi",
    "de": "ich du er sie wir nicht und aber wie auf von nach unter über zwischen haus tür fenster "
    "tisch stuhl auto weg wald see berg stein blume baum apfel birne brot butter käse milch wasser "
    "katze hund pferd kuh vogel fisch kind mädchen junge frau mann freund schule buch stift liest "
    "schreibt isst trinkt schläft läuft kauft verkauft rot blau grün gelb schwarz weiß groß klein "
    "alt neu schön fünf sechs sieben acht neun zehn zwanzig hundert abend morgen sommer quelle",
}
LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøåéü"
UNUSED: Final = "".join(chr(0x4E00 + number) for number in range(1000))
"""Symbols that no text has, as most of omniASR's 9,812."""

PRETRAINING: Final = "pretraining"
DANISH: Final = "danish"
NOISY: Final = "noisy"
TOKENIZER: Final = "quality_char"

_SIZES: Final = {
    PRETRAINING: {"train": (60, 40), "dev": (12, 2)},
    DANISH: {"train": (12, 20), "dev": (20, 4), "test": (40, 6)},
}
"""Speakers of a split and rows of each; of pretraining per language."""


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer of all datasets and its card."""
    model = f"{TOKENIZER}.model"
    with publish(folder / model) as stream:
        stream.write(build_char_tokenizer(LETTERS + UNUSED))
    card = {"name": TOKENIZER, "tokenizer_family": "char_tokenizer", "tokenizer": model}
    publish_text(folder / f"{TOKENIZER}.yaml", to_yaml(card))


def write_rooms(folder: Path) -> None:
    """Write impulse responses: noise that fades within 0.1 to 0.5 s, after the direct sound."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(8):
        random = np.random.default_rng(number)
        fading = np.exp(-np.linspace(0, 7, random.integers(1_600, 8_000)))
        response = 0.1 * random.standard_normal(len(fading)) * fading
        response[0] = 0.5
        soundfile.write(folder / f"{number}.wav", response, 16_000)


def make_dataset(folder: Path, name: str) -> None:
    """Speak a dataset's sentences and convert them; eSpeak NG needs a new process for each.

    ``NOISY`` is the test split of ``DANISH`` with three voices in the background, 20 dB below.
    """
    source = folder / f"{name}.source"
    source.mkdir(exist_ok=True)
    espeak, rows = Espeak(), list[dict[str, str]]()
    background = deque([np.zeros(1, np.float32)], maxlen=3)
    for text, split, speaker in _utterances(name):
        wave = espeak.speak(text, speaker)
        noise = np.random.default_rng(len(rows)).standard_normal(len(wave), np.float32)
        mixture = _mixed(wave, noise, speaker.noise_db)
        if name == NOISY:
            voices = np.sum([np.resize(each, len(wave)) for each in background], axis=0)
            mixture = _mixed(mixture, voices, 20.0)
        background.append(wave)
        file = f"{len(rows)}.flac"
        soundfile.write(source / file, 0.5 * mixture / np.abs(mixture).max(), espeak.sample_rate)
        given = {"speaker_id": speaker.row["id_speaker"], "dialect": speaker.row["dialect"]}
        written = normalize(text.replace("ß", "ss"), "coral")
        rows.append({"audio_filepath": file, "text": written, "split": split, **given})
    kept = [json.dumps(row) for row in rows if name != NOISY or row["split"] == "test"]
    publish_text(source / "rows.jsonl", "\n".join(kept))
    convert(source / "rows.jsonl", folder / name, ConvertOptions(name=name))
    shutil.rmtree(source)


def _utterances(name: str) -> Iterator[tuple[str, str, SyntheticSpeaker]]:
    """Yield texts with split and speaker, the rows of a speaker one after the other."""
    random = Random("quality")  # noqa: S311 - not for cryptography
    shares = {dialect: voice.share for dialect, voice in DIALECT_VOICES.items()}
    for language in WORDS if name == PRETRAINING else ["da"]:
        for split, (speakers, rows) in _SIZES.get(name, _SIZES[DANISH]).items():
            for number in range(speakers):
                dialect = random.choices(list(shares), list(shares.values()))[0]
                speaker = draw_speaker(random, f"{language}-{split}-{number}", dialect, None)
                if language != "da":
                    variant = speaker.voice.partition("+")[2]
                    speaker = replace(speaker, voice=f"{language}+{variant}")
                for _ in range(rows):
                    yield _text(random, language, split), split, speaker


def _text(random: Random, language: str, split: str) -> str:
    """Draw the text of an utterance of about 4 s."""
    if language == "da":
        kinds = (random.random() < 0.25 for _ in range(2))
        return " ".join(speak(draw_sentence(random, split, conversation=kind)) for kind in kinds)
    words = WORDS[language].split()
    sizes = (1 + (random.random() < 0.3) for _ in range(random.randint(5, 9)))
    return " ".join("".join(random.sample(words, size)) for size in sizes)


def _mixed(wave: Wave, other: NDArray[Any], ratio_db: float) -> Wave:
    levels = [float(np.sqrt(np.mean(np.square(each)))) for each in (wave, other)]
    return wave + (levels[0] / max(levels[1], 1e-9) * 10 ** (-ratio_db / 20) * other)
