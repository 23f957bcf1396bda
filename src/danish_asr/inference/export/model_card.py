"""The ``README.md`` of an export: what the model is, how to use it, its scores and its limits."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr import __version__
from danish_asr.base.config_tree import Tree, read_yaml
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.inference.export.usage import LANGUAGE_MODEL, usage
from danish_asr.inference.model import Model
from danish_asr.recipe.models.imported import CACHE
from danish_asr.recipe.run.run_directory import (
    AVERAGES,
    CONFIG_FILE,
    average_name,
    meant_checkpoint,
)
from danish_asr.report.hub import BY_CORPUS, model_index
from danish_asr.report.tables import to_markdown
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY

_LIBRARIES: Final = {"hf": "transformers", "onnx": "onnx", "sherpa-onnx": "sherpa-onnx"}
_TRAINING: Final = (
    "regime.num_steps",
    "optimizer.name",
    "optimizer.config.lr",
    "lr_scheduler.name",
    "dataset.text_profile",
    "dataset.asr_task_config.max_num_elements",
    "trainer.grad_accumulation.num_batches",
    "trainer.freeze_encoder_for_n_steps",
    "common.seed",
)
_OMNI: Final = "omniASR"
_CORAL: Final = (
    "The training data is from CoRal, whose licence OpenRAIL-D forbids, among other things, speech "
    "synthesis and biometric identification. Read it on CoRal's page on Hugging Face."
)

_SYNTHETIC: Final = (
    "The training data is synthetic speech (eSpeak NG): this model shows that the pipeline works, "
    "and nothing else."
)


class _Origin(NamedTuple):
    """The run that a model is from, if it is from one."""

    run: Path | None
    average: str | None
    """Which of the run's averages it is, if it is one."""
    step: int | None
    config: Tree


def model_card(
    model: Model,
    source: str,
    to: str,
    repo: str | None = None,
    *,
    with_lm: bool = False,
    compared: Sequence[str] = (),
) -> str:
    """Return the text of the card; scores are those of the run's evaluation of this checkpoint.

    ``repo`` is the repository of the hub, if there is one; ``compared`` are the lines of `verify`.
    """
    origin = _origin(Path(source).expanduser())
    name = repo or (origin.run or Path(source).expanduser().resolve()).name
    base, dataset = _base(origin, source), _get(origin.config, "dataset.name")
    about: dict[str, Any] = {
        "language": ["da"],
        "library_name": _LIBRARIES[to],
        "pipeline_tag": "automatic-speech-recognition",
        "tags": ["wav2vec2", "ctc", "danish-asr"],
    }
    corpora: list[str] = []
    parts, scores = [_what(model, origin, base, source), usage(to, repo)], None
    if with_lm:
        parts.append(LANGUAGE_MODEL)
    if origin.run:
        parts.append(_training(origin, base))
        if scores := _scores(origin):
            corpora = [str(group.group["corpus"]) for group in scores.groupings[BY_CORPUS].groups]
            if not scores.rows.partial:
                about |= from_yaml(model_index(scores, name))
            parts.append(to_markdown(scores.only(DEFAULT_BY)))
    synthetic = dataset == "danish_asr_demo"
    of_coral = not synthetic and any("coral" in name for name in [*corpora, str(dataset)])
    if of_coral:
        about |= {"license": "openrail"}
    elif base.startswith(_OMNI):
        about |= {"license": "apache-2.0"}
    licence = _SYNTHETIC if synthetic else _licence(base, of_coral=of_coral)
    parts += [f"## Licence\n\n{licence}", _limits(model, table=scores is not None)]
    if compared:
        parts.append("\n".join(["## Comparison", "", *(f"- {line}" for line in compared)]))
    title = f"---\n{to_yaml(about)}---\n\n# {name}\n"
    return "\n".join([title, *(f"{part.strip()}\n" for part in parts)])


def _origin(path: Path) -> _Origin:
    """Find the run of a model as `select_model` does."""
    found, step = meant_checkpoint(path) or (path, None)
    folder = found.resolve()
    if not (folder / CONFIG_FILE).is_file():
        return _Origin(None, None, None, {})
    average = average_name(folder)
    run = folder.parents[1] if average else folder
    return _Origin(run, average, step, read_yaml(folder / CONFIG_FILE))


def _base(origin: _Origin, source: str) -> str:
    """What the training started from."""
    places = _get(origin.config, "common.assets.extra_paths") or ()
    added = "-hf" if any(Path(place).parent.name == CACHE for place in places) else ""
    for key in ("model.name", "model.path", "pretrained_encoder.name"):
        if name := _get(origin.config, key):
            return Path(str(name)).name.removesuffix(added)  # by `import_model`
    return "" if origin.run else source


def _what(model: Model, origin: _Origin, base: str, source: str) -> str:
    encoder = model.settings.encoder_config
    size = sum(p.numel() for p in model.module.parameters())
    shown = f"{size / 1e6:,.1f} million" if size >= 1e6 else f"{size:,}"
    start = "trained from scratch" if not base else f"fine-tuned from {base}"
    if not origin.run:
        place = Path(source).expanduser()
        start = f"of the directory {place.resolve().name}" if place.is_dir() else "as released"
    return (
        f"A wav2vec 2.0 model with a CTC head for Danish speech recognition, {start}: {shown} "
        f"parameters, {encoder.num_encoder_layers} layers, "
        f"{model.settings.target_vocab_size} symbols (characters). It takes 16 kHz mono audio and "
        "gives a text without times; each frame of its output is 20 ms. Exported by danish-asr "
        f"{__version__}, and compared with the original's output as it was written."
    )


def _training(origin: _Origin, base: str) -> str:
    dataset = _get(origin.config, "dataset.name") or _get(origin.config, "dataset.family")
    lines = [f"- start: {base or _get(origin.config, 'model.arch')}", f"- dataset: {dataset}"]
    if origin.run and origin.step is not None:
        average = f"{origin.run.name}/{AVERAGES}/{origin.average}"
        of = f", an average of weights up to it: {average}" if origin.average else ""
        lines.append(f"- checkpoint: step {origin.step}{of}")
    values = ((key, _get(origin.config, key)) for key in _TRAINING)
    lines += [f"- `{key}`: {value}" for key, value in values if value is not None]
    return "\n".join(["## Training", "", *lines])


def _scores(origin: _Origin) -> Scores | None:
    """Score the greedy predictions of this checkpoint: of the split test, if it was evaluated."""
    found = dict(_evaluations(origin))
    split = "test" if "test" in found else next(iter(found), None)
    if split is None:
        return None
    path, rows = found[split]
    predictions = list(read_predictions(path))
    by = [*DEFAULT_BY, BY_CORPUS]
    return score_predictions(predictions, by=by, rows_in_split=rows)


def _evaluations(origin: _Origin) -> Iterator[tuple[str, tuple[Path, int]]]:
    assert origin.run is not None
    # An average can also have been evaluated as a run of its own.
    places = (origin.run / "eval", origin.run / AVERAGES)
    for file in (file for place in places for file in sorted(place.rglob("evaluation.json"))):
        about, predictions = json.loads(file.read_text("utf-8")), file.parent / "predictions.jsonl"
        # The run may have been moved or renamed since.
        scored = average_name(Path(about.get("run", "")).parent), about.get("step")
        whole = not {"decoder", "where"} & {*about}
        if scored == (origin.average, origin.step) and whole and predictions.is_file():
            rows = about["rows_in_split"]
            yield ",".join(rows), (predictions, sum(rows.values()))


def _licence(base: str, *, of_coral: bool) -> str:
    own = f"{base} is licensed under Apache 2.0 by Meta. " if base.startswith(_OMNI) else ""
    other = "The licences of the training data apply too; add them before you publish this model."
    return own + (_CORAL if of_coral else other)


def _limits(model: Model, *, table: bool) -> str:
    shortest = model.frames.shortest_input() / 16
    longest = model.cutting.longest + 2 * model.cutting.overlap
    shown = ", as far as the table above shows them" if table else ""
    return f"""\
## Limits

- Error rates differ between dialects, ages and genders{shown}.
  They are higher for noise, music, distant microphones and several people at once.
- The text has the symbols that the model was trained on, which may exclude capitals, digits and
  punctuation. It can be wrong with great confidence; have it read before decisions rest on it.
- Audio of another rate must be resampled to 16 kHz, several channels mixed to one, and long
  recordings cut into parts of up to about {longest:.0f} s. Less than {shortest:.0f} ms fails.
  Amplify audio of an RMS below 0.01 (-40 dBFS), which is recognised worse.
- It is not made to identify people, nor to rate them by the way they speak."""


def _get(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree
