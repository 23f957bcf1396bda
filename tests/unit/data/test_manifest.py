from pathlib import Path
from typing import Any

from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig

from danish_asr.recipe.data.dataset import DanishAsrDatasetConfig, open_manifest
from tests.shards import char_tokenizer, flac, reader

LENGTHS = (9_000, 12_000, 8_000)
TEXTS = ("hej", "god dag", "vi ses")


def write_manifest(folder: Path) -> Path:
    """Three FLAC files below ``audio/`` and the manifest of split ``dev_clean``."""
    audio, manifests = folder / "audio" / "x", folder / "manifests"
    audio.mkdir(parents=True)
    manifests.mkdir()
    for number, samples in enumerate(LENGTHS):
        (audio / f"{number}.flac").write_bytes(flac(samples, number))
    rows = [f"x/{number}.flac\t{samples}" for number, samples in enumerate(LENGTHS)]
    tsv = "\n".join([str(folder / "audio"), *rows]) + "\n"
    (manifests / "dev_clean.tsv").write_text(tsv, encoding="utf-8")
    (manifests / "dev_clean.wrd").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return manifests


def test_a_manifest_is_read_like_a_dataset(tmp_path: Path) -> None:
    dataset = open_manifest(DanishAsrDatasetConfig(data=write_manifest(tmp_path)))
    tokenizer, storage = char_tokenizer(tmp_path), ManifestStorageConfig(read_text=True)

    for training in (True, False):
        source = reader(dataset, tokenizer, "dev_clean", training=training, storage_config=storage)
        steps: list[Any] = list(source)
        rows = {
            row[0]: row[1:]
            for step in steps
            for batch in step
            for row in zip(
                *(batch.example[key] for key in ("id", "text", "audio_size", "corpus", "dialect")),
                strict=True,
            )
        }
        assert rows == {
            f"x/{number}.flac": (text, samples, "manifests", None)
            for number, (text, samples) in enumerate(zip(TEXTS, LENGTHS, strict=True))
        }
    assert dataset.splits == ["dev_clean"]
