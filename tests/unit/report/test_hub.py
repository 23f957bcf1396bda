"""The files for Hugging Face, as its own library reads them."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError, PredictionsError
from danish_asr.base.files import from_yaml
from danish_asr.report import ReportOptions, score_file
from danish_asr.scoring.hub import LEADERBOARD_CORPORA
from danish_asr.scoring.predictions import write_predictions
from danish_asr.scoring.settings import Settings
from danish_asr.text.profiles import profile_version
from tests.score_rows import prediction, write_evaluation

RYE = Settings(profile="rye", row_filter="rye")


def _export(
    path: Path,
    corpora: list[str],
    settings: Settings = RYE,
    model: str | None = "m",
    **about: Any,
) -> None:
    """Score one file with two rows per corpus, 1 of 4 words wrong; ``about`` is its evaluation."""
    folder = path.parent
    rows = [
        prediction(f"{corpus}-{text}", f"{text} er her", f"{text} er hos her", corpus=corpus)
        for corpus in corpora
        for text in ("det", "han")
    ]
    write_predictions(folder / "predictions.jsonl", rows)
    about = {"rows_in_split": {"test": len(rows)}} | about
    write_evaluation(folder / "predictions.jsonl", **about)
    options = ReportOptions(by=[], settings=settings, outputs=[path], model_name=model)
    score_file(folder / "predictions.jsonl", options, console=Console(file=io.StringIO()))


def test_a_model_index_is_read_back_by_the_hub_and_names_all_settings(tmp_path: Path) -> None:
    path = tmp_path / "index.yaml"
    _export(path, ["coral_read_aloud", "ft"], Settings(), "org/m")
    text = path.read_text(encoding="utf-8")
    name, results = model_index_to_eval_results(from_yaml(text)["model-index"])
    assert name == "org/m"
    found = [(r.dataset_name, r.dataset_split, r.metric_type, r.metric_value) for r in results]
    assert found[0] == ("coral_read_aloud", "test", "wer", 33.33)
    assert [each[:3] for each in found[1:]] == [
        ("coral_read_aloud", "test", "cer"), ("ft", "test", "wer"), ("ft", "test", "cer")
    ]  # fmt: skip
    assert results[0].metric_args
    assert results[0].metric_args.items() >= Settings().to_dict().items()
    card = ModelCard(f"---\n{text}---\n# A card")
    assert card.data.to_dict() == from_yaml(text)  # type: ignore[no-untyped-call]


def test_leaderboard_files_are_completed_corpus_by_corpus(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.json"
    _export(path, ["coral_read_aloud", "other"])
    first = json.loads(path.read_text(encoding="utf-8"))
    assert (first["coral_read_aloud_wer"], first["fleurs_da_wer"], first["mean_wer"]) == (
        33.33, None, None
    )  # fmt: skip
    path.write_text(json.dumps(first | {"params_b": 0.3}), encoding="utf-8")
    _export(path, list(LEADERBOARD_CORPORA[:1]) + list(LEADERBOARD_CORPORA[2:]))
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["mean_wer"], document["params_b"]) == (33.33, 0.3)
    assert document["mean_cer"] == pytest.approx(document["ftspeech_cer"])
    with pytest.raises(PredictionsError, match=r"results of 'm'.*'other'"):
        _export(path, ["ftspeech"], model="other")
    assert set(document["scored"]) == set(LEADERBOARD_CORPORA[:1] + LEADERBOARD_CORPORA[2:]) | {
        "coral_read_aloud"
    }
    version = profile_version("rye")
    assert (
        document["scored"]["ftspeech"].items()
        >= {"profile": "rye", "profile_version": version}.items()
    )
    assert len(document["scored"]["ftspeech"]["references_sha256"]) == 64
    document["scored"]["ftspeech"]["profile_version"] = 0
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(PredictionsError, match="version 0 of the profile"):
        _export(path, ["ftspeech"])


def test_the_hashes_of_a_corpus_are_those_of_its_rows(tmp_path: Path) -> None:
    hashes = []
    for number, corpora in enumerate((["ftspeech"], ["ftspeech", "fleurs_da"])):
        (folder := tmp_path / f"{number}").mkdir()
        _export(folder / "leaderboard.json", corpora)
        _export(folder / "index.yaml", corpora)
        document = json.loads((folder / "leaderboard.json").read_text("utf-8"))
        index = from_yaml((folder / "index.yaml").read_text("utf-8"))["model-index"]
        of_index = [
            metric["args"]["references_sha256"]
            for result in index[0]["results"]
            for metric in result["metrics"]
            if result["dataset"]["type"] == "ftspeech"
        ]
        hashes += [document["scored"]["ftspeech"]["references_sha256"], *of_index]
    assert len(hashes) > 2
    assert len({*hashes}) == 1


@pytest.mark.parametrize(
    "content", ["{bro", "[]", "3", '{"scored": 1}', '{"scored": {"x": {}}}', '{"scored": null}']
)
def test_a_broken_leaderboard_is_one_error_and_stays(tmp_path: Path, content: str) -> None:
    (path := tmp_path / "leaderboard.json").write_text(content)
    with pytest.raises(PredictionsError, match=r"leaderboard.json: not the results"):
        _export(path, ["ftspeech"])
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("corpora", "changes", "error", "message"),
    [
        (["ftspeech"], {"profile": "coral"}, ConfigError, "--profile rye --filter rye"),
        (["ftspeech"], {"denominator": "coral"}, ConfigError, "found .*denominator coral"),
        (["ftspeech"], {"remove_fillers": True}, ConfigError, "remove_fillers True"),
        (["nst"], {}, PredictionsError, "corpora: coral_conversation, .* ftspeech"),
    ],
)
def test_what_is_not_of_the_leaderboard_is_refused_before_anything_is_written(
    tmp_path: Path,
    corpora: list[str],
    changes: dict[str, Any],
    error: type[DanishAsrError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        _export(tmp_path / "leaderboard.json", corpora, replace(RYE, **changes))
    assert not (tmp_path / "leaderboard.json").exists()


@pytest.mark.parametrize("name", ["index.yaml", "leaderboard.json"])
def test_partial_predictions_are_not_published(tmp_path: Path, name: str) -> None:
    with pytest.raises(PredictionsError, match=r"partial .2 of 9 rows"):
        _export(tmp_path / name, ["ftspeech"], rows_in_split={"test": 9})


def test_a_part_of_a_split_is_named_in_the_model_index_and_refused_for_the_leaderboard(
    tmp_path: Path,
) -> None:
    about: dict[str, Any] = {"rows_in_split": {"test": 9}, "where": "age > 20"}
    with pytest.raises(PredictionsError, match="2 rows of 9 in the split, where age > 20"):
        _export(tmp_path / "leaderboard.json", ["ftspeech"], **about)
    path = tmp_path / "index.yaml"
    _export(path, ["ftspeech"], **about)
    _, results = model_index_to_eval_results(from_yaml(path.read_text("utf-8"))["model-index"])
    assert results[0].dataset_name == "ftspeech, where age > 20"
    assert results[0].metric_args
    assert results[0].metric_args.items() >= {"rows": 2, "rows_in_split": 9}.items()
