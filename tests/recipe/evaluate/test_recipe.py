"""What an evaluation measures of each row, also of the rows that were trained on."""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import torch
from fairseq2.device import CPU
from fairseq2.gang import FakeGang
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)
from torch.nn.functional import ctc_loss

from danish_asr.base.config_tree import Tree, merge, read_yaml
from danish_asr.base.errors import EXIT_FAILED, EXIT_STOPPED, RunFailedError
from danish_asr.base.files import sha256_of, to_yaml
from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.inference.model import load_model
from danish_asr.recipe import entry
from danish_asr.recipe.data.audio import decode
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.entry import Request
from danish_asr.recipe.evaluate.recipe import losses_of, write_results
from danish_asr.recipe.run.advice import LOSS
from danish_asr.recipe.run.evaluations import EVALUATION, PREDICTIONS
from danish_asr.recipe.run.run import SCORE_TITLES, Run
from danish_asr.scoring.predictions import COLUMNS, MEASURES, read_predictions
from tests.forks import in_processes
from tests.running import (
    after_each_batch,
    arguments,
    eval_main,
    evaluate,
    metrics,
)


def transcribe_with_omnilingual(args: list[str]) -> None:
    from omnilingual_asr.models.inference.pipeline import (  # noqa: PLC0415 - in a new process
        ASRInferencePipeline,
    )

    pipeline = ASRInferencePipeline(args[0], device="cpu", dtype=torch.float32)
    print(pipeline.transcribe(args[1:], batch_size=1))  # noqa: T201


def test_omnilinguals_own_pipeline_gives_the_hypotheses_of_the_evaluation(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = tmp_path / "finished"
    shutil.copytree(finished_run, run)
    assert evaluate(run, dataset) == 0
    file = run / "eval" / "best" / "test" / "predictions.jsonl"
    rows = read_predictions(file)
    hypotheses = dict(zip(rows["id"], rows["hypothesis"], strict=True))
    index = DanishAsrDataset(dataset).read_index("test")
    identifier = index.rows["id"][0]
    audio = tmp_path / "speech.flac"
    audio.write_bytes(bytes(index.audio.read(0)))
    assert soundfile.info(audio).samplerate == 16_000
    cards, args = str(run / "cards"), ["finished", str(audio)]
    printed = in_processes(1, transcribe_with_omnilingual, args, DANISH_ASR_ASSETS=cards)
    assert printed.splitlines()[-1] == repr([hypotheses[identifier]])


def test_each_evaluation_writes_every_row_once_with_its_id_and_raw_text(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, validation: upstream writes no ids and decodes references from tokens."""
    run, two = tmp_path / "run", tmp_path / "two"
    for copy in (run, two):
        shutil.copytree(finished_run, copy)
    for split, count in {"dev": 12, "test": 16, "test_coral_conversation": 8}.items():
        assert evaluate(run, dataset, f"evaluator.split={split}") == 0
        predictions = read_predictions(run / "eval" / "best" / split / "predictions.jsonl")
        index = DanishAsrDataset(dataset).read_index(split)
        expected = dict(index.rows.select("id", "text").iter_rows())
        assert dict(zip(predictions["id"], predictions["reference"], strict=True)) == expected
        assert len(predictions) == count
        assert {*predictions["split"]} == {split}
        assert any(predictions["reference"] != predictions["reference"].str.lower())
    # Two processes score the same rows as one, also in other batches.
    other = "dataset.valid_max_num_elements=100x"
    in_processes(2, eval_main, arguments(two, dataset, other))
    file = Path("eval", "best", "test", "predictions.jsonl")
    assert (run / file).read_bytes() == (two / file).read_bytes()
    rows = [metrics(copy / file.parent, "eval") for copy in (run, two)]
    for name in ("wer", "cer", "loss"):
        one, both = (row[SCORE_TITLES[name]] for (row,) in rows)
        assert one == pytest.approx(both)


def test_a_process_may_have_no_rows_and_what_one_that_was_killed_has_left_goes(
    tmp_path: Path,
) -> None:
    row = {"id": "a", "reference": "en", "hypothesis": "en", "corpus": "c", "split": "dev"}
    (tmp_path / f"{PREDICTIONS}.3").write_text(json.dumps(row | {"id": "b"}))
    for rank, predictions in ((1, []), (0, [row])):
        gang = FakeGang(CPU, rank=rank, size=2)
        write_results(tmp_path, gang, predictions, {"rows": {"dev": 1}})
    assert {path.name for path in tmp_path.iterdir()} == {PREDICTIONS, EVALUATION}
    assert list(read_predictions(tmp_path / PREDICTIONS)["id"]) == ["a"]


def test_another_dataset_of_the_same_name_is_evaluated_beside_the_runs_own(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(finished_run, run)
    shutil.copytree(dataset, other)
    config = read_yaml(run / "config.yaml")
    config["dataset"]["config_overrides"] = {"data": f"{dataset}/version=0"}
    (run / "config.yaml").write_text(to_yaml(config))
    assert evaluate(run, dataset, f"dataset.config_overrides={{data: {other}/version=0}}") == 0
    assert [path.name for path in (run / "eval" / "best").iterdir()] == ["test@other"]


def test_a_model_of_a_run_that_is_evaluated_elsewhere_is_still_that_of_the_run(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    model = (f"model.path={finished_run}", "model.config_overrides=null")
    assert evaluate(tmp_path / "new", dataset, *model) == 0
    results = tmp_path / "new" / "eval" / finished_run.name / "test"
    about = json.loads((results / EVALUATION).read_text())
    best = Run(finished_run).named()["best"]
    assert (about["checkpoint"], about["step"]) == ("none", best.step)
    assert Path(about["run"]).samefile(finished_run / "checkpoints")
    assert about["weights"] == best.digest()
    assert json.loads((results / "scores.json").read_text())["rows"]["trained_rows"] == 0


def evaluate_alone(run: Path, *overrides: str) -> Path:
    """Evaluate with the run's own configuration; returns the directory of the results."""
    own = Request(output_dir=run, run_config=run / "config.yaml", overrides=overrides)
    results = entry.run(entry.EVALUATE, own)
    assert results is not None
    return results


def change_configuration(run: Path, changes: Tree) -> None:
    """Change what a run says of its training."""
    file = run / "config.yaml"
    file.write_text(to_yaml(merge(read_yaml(file), changes)))


def test_an_evaluation_needs_nothing_of_a_training(tmp_path: Path, finished_run: Path) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    missing = [{"name": "noise", "folder": "gone"}, {"name": "gone.module:Transform"}]
    training: Tree = {
        "dataset": {"transforms": missing, "train_split": "gone", "weights": []},
        "optimizer": {"name": "adamw_offload"},
        "trainer": {"data_parallelism": "fsdp", "freeze_encoder_layers": 99},
        "model": {"name": "gone"},
        "tokenizer": {"name": "gone"},
    }
    change_configuration(run, training)
    there = evaluate_alone(run)
    expected = evaluate_alone(shutil.copytree(finished_run, tmp_path / "other"))
    assert (there / PREDICTIONS).read_bytes() == (expected / PREDICTIONS).read_bytes()


def written_losses(folder: Path) -> list[float]:
    return read_predictions(folder / PREDICTIONS)["loss"].fillna(-1).tolist()


def test_a_model_is_prepared_as_its_card_says_unless_the_user_writes_a_key(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    by_card = written_losses(evaluate_alone(run))
    assert Run(run).best_in_words in capsys.readouterr().err
    change_configuration(
        run, {"dataset": {"text_profile": "raw", "asr_task_config": {"normalize_audio": False}}}
    )
    assert written_losses(evaluate_alone(run)) == by_card
    assert "normalize_audio" not in capsys.readouterr().err
    written = "dataset.asr_task_config.normalize_audio=false"
    results = evaluate_alone(run, written)
    assert written_losses(results) != by_card
    assert capsys.readouterr().err.count("normalize_audio=False") == 1
    task = read_yaml(results / "config.yaml")["dataset"]["asr_task_config"]
    assert task["normalize_audio"] is False


def test_a_row_without_a_loss_has_none_and_one_that_is_nan_ends_the_evaluation() -> None:
    log_probs = list(torch.randn(4, 5, 7).log_softmax(dim=-1))
    targets = [torch.tensor(tokens) for tokens in ([1, 2, 2], [], [3, 3, 3], [4])]
    losses = losses_of(log_probs, [tokens.long() for tokens in targets], ["a", "b", "c", "d"])
    nats = ctc_loss(log_probs[0], targets[0], torch.tensor(5), torch.tensor(3), reduction="sum")
    assert losses[0] == pytest.approx(nats.item() / 3, rel=1e-4)
    assert losses[1] is None  # the text is empty
    assert losses[2] is not None  # three symbols and two blanks fit five frames
    assert losses_of([log_probs[2][:4]], [targets[2]], ["c"]) == [None]
    log_probs[3][2] = torch.nan
    with pytest.raises(RunFailedError, match="of d is"):
        losses_of(log_probs, [tokens.long() for tokens in targets], ["a", "b", "c", "d"])


FOLDER = Path("eval", "best", "train")

TRAIN = "evaluator.split=train"


def predictions(run: Path) -> pd.DataFrame:
    return read_predictions(run / FOLDER / "predictions.jsonl")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, dataset: Path, finished_run: Path) -> Path:
    """A run with an evaluation of its training split, which has two more columns."""
    folder = tmp_path_factory.mktemp("runs")
    run = shutil.copytree(finished_run, folder / "evaluated")
    root = shutil.copytree(dataset, folder / "tiny")
    for path in root.glob("version=0/*/split=train/**/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        places = pa.array(f"place {number}" for number in range(len(table)))
        table = table.append_column("place", places).append_column("_row", places)
        pq.write_table(table, path)
    assert evaluate(run, dataset, TRAIN, f"dataset.config_overrides={{data: {root}}}") == 0
    return run


def test_a_column_of_the_dataset_passes_through_to_the_predictions(evaluated: Path) -> None:
    rows = predictions(evaluated)
    assert {*rows} == {*COLUMNS, *MEASURES, "place"}
    assert "place 1" in {*rows["place"]}


def test_an_evaluation_says_what_was_scored(evaluated: Path, finished_run: Path) -> None:
    about = json.loads((evaluated / FOLDER / "evaluation.json").read_text())
    root = evaluated.with_name("tiny")
    step = about["step"]
    assert about["share_people"] == [["coral_conversation", "coral_read_aloud"]]
    assert (about["dataset"], Path(about["dataset_root"])) == ("tiny", root)
    assert (about["checkpoint"], step) == ("best", Run(finished_run).best)
    assert about["weights"] == Run(evaluated).at(step).digest() != ""
    assert about["rows"]["train"] == about["rows_in_split"]["train"] == 48
    assert not {"where", "decoder"} & {*about}


def test_an_evaluation_is_recorded_with_what_its_predictions_have(evaluated: Path) -> None:
    """Upstream's evaluation has its curves too."""
    folder = evaluated / FOLDER
    (recorded,), rows = metrics(folder, "eval"), predictions(evaluated)
    document = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    overall = document["groups"][0]
    for name in ("wer", "cer"):
        assert recorded[SCORE_TITLES[name]] == pytest.approx(100 * overall[name])
    tokens = (rows["duration"] / rows["seconds_per_character"])[rows["loss"].notna()]
    mean = (rows["loss"] * tokens).sum() / tokens.sum()
    assert recorded[LOSS] == pytest.approx(mean, rel=1e-3)
    assert recorded["Step"] == json.loads((folder / "evaluation.json").read_text())["step"]
    curves = EventAccumulator(str(folder / "tb" / "eval")).Reload()
    assert [event.step for event in curves.Scalars(LOSS)] == [recorded["Step"]]


def test_the_texts_of_an_evaluation_are_those_of_the_models_log_probs(
    evaluated: Path, dataset: Path
) -> None:
    """transcribe and evaluate have one forward pass; they once read different audio."""
    index = DanishAsrDataset(dataset).read_index("train")
    waveforms = [np.empty(samples, np.float32) for samples in index.lengths]
    for row, waveform in enumerate(waveforms):
        decode(index.audio.read(row), waveform)
    model = load_model(evaluated, device="cpu")
    texts = GreedyDecoder(model.tokenizer)(model.log_probs(waveforms))
    rows = predictions(evaluated)
    expected = dict(zip(rows["id"], rows["hypothesis"], strict=True))
    assert dict(zip(index.rows["id"], texts, strict=True)) == expected


def test_an_evaluation_is_written_again_also_of_another_checkpoint(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    file = run / "eval" / "best" / "test" / EVALUATION
    assert evaluate(run, dataset) == 0
    first = json.loads(file.read_text())
    assert first["predictions_sha256"] == sha256_of(file.with_name(PREDICTIONS))
    assert file.with_name("report.html").is_file()
    scores = run / "checkpoints" / "scores"
    best, other = (2, 4) if first["step"] == 2 else (4, 2)
    (scores / f"step_{best}.txt").write_text("-1000\n")
    (scores / f"step_{other}.txt").write_text("0\n")
    assert evaluate(run, dataset, "regime.score_profile=plain") == 0
    again = json.loads(file.read_text())
    assert again["step"] == other
    document = json.loads(file.with_name("scores.json").read_text(encoding="utf-8"))
    assert document["settings"]["profile"] == "plain"


FILE = Path("eval", "best", "dev,test", PREDICTIONS)

FEW_ROWS = (
    *("evaluator.split='dev,test'", "dataset.asr_task_config.max_audio_len=16000"),
    "dataset.asr_task_config.max_num_elements=32000",
)


@pytest.fixture
def run(tmp_path: Path, finished_run: Path) -> Path:
    shutil.copytree(finished_run, tmp_path / "run")
    return tmp_path / "run"


def test_a_stopped_evaluation_ends_with_the_predictions_of_an_undisturbed_one(
    run: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, validation: upstream ends with 0 at SIGUSR1, without predictions."""
    undisturbed = shutil.copytree(run, tmp_path / "undisturbed")
    assert evaluate(undisturbed, dataset, *FEW_ROWS) == 0

    def stop(count: int) -> None:
        if count == 5:
            signal.raise_signal(signal.SIGUSR1)

    with monkeypatch.context() as patch:
        after_each_batch(patch, stop)
        assert evaluate(run, dataset, *FEW_ROWS) == EXIT_STOPPED
    assert not (run / FILE).exists()
    again: list[int] = []
    after_each_batch(monkeypatch, again.append)
    assert evaluate(run, dataset, *FEW_ROWS) == 0
    assert (run / FILE).read_bytes() == (undisturbed / FILE).read_bytes()
    assert len(again) == 12


def test_a_time_limit_stops_an_evaluation(
    run: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command would stop there again, so it is none of those that a job repeats."""
    assert evaluate(run, dataset, *FEW_ROWS, "trainer.max_wall_minutes=1e-6") == EXIT_FAILED
    assert "trainer.max_wall_minutes" in capsys.readouterr().err
    assert not (run / FILE).exists()
