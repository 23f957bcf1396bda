from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig

from danish_asr.base.errors import DatasetError
from danish_asr.recipe.data.dataset import DanishAsrDatasetConfig, ManifestDataset, open_manifest
from tests.shards import char_tokenizer, flac, reader

LENGTHS = (9_000, 12_000, 8_000)
TEXTS = ("hej", "god dag", "vi ses")


def write_manifest(
    folder: Path, *, lines: Sequence[str] | None = None, texts: Sequence[str] = TEXTS
) -> Path:
    """Three FLAC files below ``audio/`` and the manifest of split ``dev_clean``."""
    audio, manifests = folder / "audio" / "x", folder / "manifests"
    audio.mkdir(parents=True)
    manifests.mkdir()
    for number, samples in enumerate(LENGTHS):
        (audio / f"{number}.flac").write_bytes(flac(samples, number))
    rows = lines or [f"x/{number}.flac\t{samples}" for number, samples in enumerate(LENGTHS)]
    tsv = "\n".join([str(folder / "audio"), *rows]) + "\n"
    (manifests / "dev_clean.tsv").write_text(tsv, encoding="utf-8")
    (manifests / "dev_clean.wrd").write_text("\n".join(texts) + "\n", encoding="utf-8")
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


def test_slices_of_an_archive_are_read(tmp_path: Path) -> None:
    files = [flac(samples, number) for number, samples in enumerate(LENGTHS)]
    begins = [7 + sum(map(len, files[:number])) for number in range(3)]
    lines = [
        f"all.bin:{begin}:{len(file)}\t{samples}"
        for begin, file, samples in zip(begins, files, LENGTHS, strict=True)
    ]
    manifests = write_manifest(tmp_path, lines=lines)
    (tmp_path / "audio" / "all.bin").write_bytes(b"archive" + b"".join(files))

    index = ManifestDataset(manifests).read_index("dev_clean")

    assert [index.audio.read(row) for row in range(3)] == files


@pytest.mark.parametrize(
    ("lines", "texts", "message"),
    [
        (
            ["x/0.flac 9000"],
            ["hej"],
            r"dev_clean\.tsv:2: expected <path><tab><samples>, found 'x/0",
        ),
        (["x/0.flac\tto"], ["hej"], r"dev_clean\.tsv:2: expected <path><tab><samples>"),
        (None, ["hej"], r"dev_clean\.wrd: expected one text per row .*\(3\), found 1"),
    ],
)
def test_a_manifest_that_breaks_the_format_is_refused(
    tmp_path: Path, lines: list[str] | None, texts: list[str], message: str
) -> None:
    manifests = write_manifest(tmp_path, lines=lines, texts=texts)

    with pytest.raises(DatasetError, match=message):
        ManifestDataset(manifests).read_index("dev_clean")


def test_a_missing_audio_file_is_named(tmp_path: Path) -> None:
    dataset = ManifestDataset(write_manifest(tmp_path))
    (tmp_path / "audio" / "x" / "1.flac").unlink()

    with pytest.raises(DatasetError, match=r"audio/x/1\.flac: cannot be read"):
        list(reader(dataset, char_tokenizer(tmp_path), "dev_clean"))
