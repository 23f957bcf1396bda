import json
from pathlib import Path
from typing import Any

from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.advice import CHANCE, LOSS
from tests.hostile import HOSTILE
from tests.score_rows import prediction, write_evaluation, write_rows

WER = "Word Error Rate (WER)"


def _lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make_run(folder: Path, config: dict[str, Any], rates: list[float], loss: float = 1.0) -> Path:
    """A run of four steps that is validated at each; complete if it got so far."""
    folder.mkdir(parents=True)
    regime = {"num_steps": 4, "publish_metrics_every_n_steps": 10} | config.pop("regime", {})
    (folder / "config.yaml").write_text(to_yaml(config | {"regime": regime}))
    (folder / "environment.json").write_text("[]")
    dialect = f"wer/dialect/{HOSTILE}"
    rows = [{"Step": n, WER: wer, dialect: wer, LOSS: loss} for n, wer in enumerate(rates, 1)]
    _lines(folder / "metrics" / "valid.jsonl", rows)
    if len(rates) == 4:
        (folder / "checkpoints" / "step_4" / "trainer").mkdir(parents=True)
        (folder / "cards").mkdir()
        (folder / "cards" / f"{folder.name}.yaml").touch()
    return folder


def _report(run: Path) -> None:
    report = {CHANCE: 9.0, "Learning Rate": 1e-3, "Gradient Norm": 2.0, "Data Time": 1.0}
    report |= {"Lapse Time": 900.0, "Number of Source Elements": 5.76e8}
    report["Peak Reserved Device Memory"] = 2**31
    _lines(run / "metrics" / "train.jsonl", [{"Step": n, LOSS: 1.0, **report} for n in range(1, 5)])


def _evaluation(run: Path, name: str, hypothesis: str, **about: Any) -> None:
    folder = run / "eval" / "best" / name
    folder.mkdir(parents=True)
    split = name.partition("@")[0].partition("/")[0]
    write_rows(folder / "predictions.jsonl", [prediction("x", "ja nej", hypothesis, split=split)])
    usual = {"model": "m", "checkpoint": "best", "step": 4, "rows_in_split": {split: 1}}
    own = {key: value for key, value in (usual | about).items() if value is not None}
    write_evaluation(folder / "predictions.jsonl", **own)
