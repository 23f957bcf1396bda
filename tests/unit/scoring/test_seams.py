"""A text profile and a metric of one's own, as docs/howto shows them."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.metrics import ErrorCounts
from danish_asr.recipe.config.load import load
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.train.validation import ErrorRates
from danish_asr.report import ReportOptions, score_file
from danish_asr.scoring.predictions import write_predictions
from danish_asr.scoring.settings import Settings
from tests.documented import blocks
from tests.score_rows import prediction
from tests.shards import utterance, write_shard

# The modules of the page, together.
MODULE = "\n".join(
    "\n".join(lines)
    for language, lines in blocks("docs/howto/add-a-profile.md")
    if language == "python"
)


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scoring.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_scoring", raising=False)


def test_a_metric_of_ones_own_has_groups_intervals_and_every_output(tmp_path: Path) -> None:
    apart = "vi ser en tog sta tion her"  # of three words
    rows = [
        prediction(f"{speaker}-{n}", "vi ser en togstation her",
                   apart if n < speaker else "vi ser en togstation her",
                   speaker_id=f"s{speaker}", dialect="Fynsk" if speaker % 2 else "Jysk")
        for speaker in range(20) for n in range(20)
    ]  # fmt: skip
    write_predictions(tmp_path / "p.jsonl", rows)
    outputs = [tmp_path / f"out.{end}" for end in ("json", "csv", "md", "html")]
    settings = Settings(profile="my_scoring:lower", metrics=["my_scoring:Saerskrivning"])
    options = ReportOptions(by=["dialect"], settings=settings, outputs=outputs)
    console = Console(record=True, width=160, file=io.StringIO())
    scores = score_file(tmp_path / "p.jsonl", options, console=console)
    estimate = scores.overall.rates["saerskrivning"]
    assert estimate.value == sum(range(20)) / 400
    assert estimate.interval
    assert estimate.interval.low < estimate.value < estimate.interval.high
    document = json.loads(outputs[0].read_text(encoding="utf-8"))
    assert document["settings"]["profile"] == "my_scoring:lower"
    assert document["settings"]["profile_version"] is None
    assert document["groupings"]["dialect"]["groups"][0]["compounds"]["substitutions"] == 100
    assert "saerskrivning_low" in outputs[1].read_text(encoding="utf-8")
    for text in (console.export_text(), *(path.read_text("utf-8") for path in outputs[2:])):
        assert "Særskrivning" in text
        assert "47.50" in text


def test_training_and_validation_take_the_profile_too(tmp_path: Path) -> None:
    profile = "my_scoring:lower"
    load({"dataset": {"name": "d", "text_profile": profile}}, where="the test")
    with pytest.raises(ConfigError, match=r"dataset\.text_profile"):
        load({"dataset": {"name": "d", "text_profile": "my_scoring:nothing"}}, where="the test")
    write_shard(tmp_path, [utterance(0, text="Rødgrød")])
    index = DanishAsrDataset(tmp_path).read_index("train").with_targets(profile)
    assert index.rows["target"].to_list() == ["rødgrød"]
    rates = ErrorRates((), profile)
    counts = rates.update(["Ja Tak"], ["ja tak"], [()]).compute().tolist()[0]
    assert ErrorCounts.from_tuple(counts).wer() == 0
