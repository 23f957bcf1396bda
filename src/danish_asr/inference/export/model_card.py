"""The ``README.md`` of an export: what the model is, how to use it, its scores and its limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr import __version__
from danish_asr.base.config_tree import Tree, read_yaml, value_of
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.base.schema import STATISTICS_FILE, card_directories
from danish_asr.corpus.cards import hub_code
from danish_asr.inference.export.usage import LANGUAGE_MODEL, usage
from danish_asr.inference.model import Model
from danish_asr.recipe.run.run_directory import (
    CONFIG_FILE,
    EVALUATION,
    PREDICTIONS,
    evaluation_of,
    meant_checkpoint,
    read_evaluation,
)
from danish_asr.scoring.digests import digests_by_corpus
from danish_asr.scoring.hub import BY_CORPUS, DigestsByCorpus, model_index
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import GroupScore, Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY
from danish_asr.text.profiles import PROFILES

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
_DEMO: Final = "danish_asr_demo"
_CORAL: Final = (
    "The training data is from CoRal, whose licence OpenRAIL-D forbids, among other things, speech "
    "synthesis and biometric identification. Read it on CoRal's page on Hugging Face."
)
_SYNTHETIC: Final = (
    "The training data is synthetic speech (eSpeak NG): this model shows that the pipeline works, "
    "and nothing else. Its corpora and dialects have the names of CoRal's."
)
_OTHER_DATA: Final = (
    "The licences of the training data apply too; add them before you publish this model."
)


class _Origin(NamedTuple):
    """The run that a model is from, if it is from one."""

    run: Path | None
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
    path = Path(source).expanduser()
    origin = _origin(path)
    name = repo or (origin.run or path.resolve()).name
    base = _base(origin, source)
    scores, hashes = _scores(origin) or (None, {})
    about: dict[str, Any] = {
        "language": _languages(origin.config),
        "library_name": _LIBRARIES[to],
        "pipeline_tag": "automatic-speech-recognition",
        "tags": ["wav2vec2", "ctc", "danish-asr"],
    }
    corpora = [str(value_of(origin.config, "dataset.name"))]
    parts = [_description(model, origin, base, path), usage(to, repo)]
    if with_lm:
        parts.append(LANGUAGE_MODEL)
    if origin.run:
        parts.append(_training(origin, base))
    if scores:
        corpora += [str(group.group["corpus"]) for group in scores.groupings[BY_CORPUS].groups]
        parts.append(_evaluation(scores))
        if not scores.rows.partial and _DEMO not in corpora:  # its corpora have CoRal's names
            about |= from_yaml(model_index(scores, name, hashes)) | {"language": about["language"]}
    if _DEMO in corpora:
        data = _SYNTHETIC
    elif any("coral" in corpus for corpus in corpora):
        about["license"] = "openrail"
        data = _CORAL
    else:
        data = _OTHER_DATA
    licence = data
    if base.startswith(_OMNI):
        about.setdefault("license", "apache-2.0")
        licence = f"{base} is licensed under Apache 2.0 by Meta. {data}"
    parts += [f"## Licence\n\n{licence}", _limits(model)]
    if compared:
        parts.append("\n".join(["## Comparison", "", *(f"- {line}" for line in compared)]))
    title = f"---\n{to_yaml(about)}---\n\n# {name}\n"
    return "\n".join([title, *(f"{part.strip()}\n" for part in parts)])


def _origin(path: Path) -> _Origin:
    run, step = meant_checkpoint(path) or (path, None)
    run = run.resolve()
    if not (run / CONFIG_FILE).is_file():
        return _Origin(None, None, {})
    return _Origin(run, step, read_yaml(run / CONFIG_FILE))


def _languages(config: Tree) -> list[str]:
    """Return the languages of the training data, Danish if it is not here any more."""
    card = f"{value_of(config, 'dataset.name')}.yaml"
    paths = value_of(config, "common.assets.extra_paths") or ()
    for folder in [*map(Path, paths), *card_directories()]:
        table = folder.parent / STATISTICS_FILE
        if (folder / card).is_file() and table.is_file():
            lines = table.read_text(encoding="utf-8").splitlines()[1:]
            return sorted({hub_code(line.split("\t")[1]) for line in lines}) or ["da"]
    return ["da"]


def _base(origin: _Origin, source: str) -> str:
    """Return the name of the model that the training started from, '' for none."""
    if not origin.run:
        return source
    for key in ("model.name", "model.path", "pretrained_encoder.name"):
        if name := value_of(origin.config, key):
            return Path(str(name)).name
    return ""


def _description(model: Model, origin: _Origin, base: str, path: Path) -> str:
    encoder = model.settings.encoder_config
    size = sum(parameter.numel() for parameter in model.module.parameters())
    if origin.run:
        start = f"fine-tuned from {base}" if base else "trained from scratch"
    else:
        start = f"of the directory {path.resolve().name}" if path.is_dir() else "as released"
    return (
        f"A wav2vec 2.0 model with a CTC head for Danish speech recognition, {start}: {size:,} "
        f"parameters, {encoder.num_encoder_layers} layers, "
        f"{model.settings.target_vocab_size} symbols (characters). It takes 16 kHz mono audio and "
        "gives characters; each frame of its output is 20 ms. Exported by danish-asr "
        f"{__version__}, and compared with the original's output as it was written."
    )


def _training(origin: _Origin, base: str) -> str:
    dataset = value_of(origin.config, "dataset.name") or value_of(origin.config, "dataset.family")
    lines = [f"- start: {base or value_of(origin.config, 'model.arch')}", f"- dataset: {dataset}"]
    if origin.step is not None:
        lines.append(f"- checkpoint: step {origin.step}")
    for key in _TRAINING:
        value = value_of(origin.config, key)
        if value is not None:
            lines.append(f"- `{key}`: {value}")
    profile = str(value_of(origin.config, "dataset.text_profile"))
    if profile in PROFILES:
        lines += [
            "",
            f"The text profile `{profile}` is how the training texts were written, and so ",
        ]
        lines[-1] += f"how the model writes: {PROFILES[profile].about}."
    return "\n".join(["## Training", "", *lines])


def _scores(origin: _Origin) -> tuple[Scores, DigestsByCorpus] | None:
    """Score the greedy predictions of this checkpoint: of the split test, if it was evaluated.

    Returns the hashes of each corpus and split as well.
    """
    if origin.run is None:
        return None
    evaluations = _evaluations(origin.run, origin)
    if not evaluations:
        return None
    split = "test" if "test" in evaluations else next(iter(evaluations))
    predictions, rows_in_split = evaluations[split]
    by, found = [*DEFAULT_BY, BY_CORPUS], read_predictions(predictions)
    scores = score_predictions(found, by=by, rows_in_split=rows_in_split)
    evaluation_of(predictions, scores.rows.digests)  # refuses predictions that were changed
    return scores, digests_by_corpus(found)


def _evaluations(run: Path, origin: _Origin) -> dict[str, tuple[Path, int]]:
    """Return predictions and rows of each split on which this checkpoint was evaluated."""
    evaluations = {}
    for file in sorted((run / "eval").rglob(EVALUATION)):
        about = read_evaluation(file)
        predictions = file.with_name(PREDICTIONS)
        if about.get("step") != origin.step or {"decoder", "where"} & {*about}:
            continue
        if predictions.is_file():
            rows = about["rows_in_split"]
            evaluations[",".join(rows)] = predictions, sum(rows.values())
    return evaluations


def _evaluation(scores: Scores) -> str:
    rows = scores.rows
    lines = ["## Evaluation", "", f"{rows.scored:,} rows{rows.of_split()}.", ""]
    if rows.partial:
        lines += [f"**Warning:** {rows.partial_warning()}.", ""]
    lines += ["| grouping | group | WER % | 95 % interval | CER % | rows | speakers |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|", _table_row("all", scores.overall)]
    for name in DEFAULT_BY:
        lines += [_table_row(name, group) for group in scores.groupings[name].groups]
    settings = ", ".join(f"{name} {value}" for name, value in scores.settings.to_dict().items())
    lines += ["", f"Rates are micro-averages, intervals are over speakers. Settings: {settings}."]
    return "\n".join(lines)


def _table_row(grouping: str, group: GroupScore) -> str:
    interval = "not resolvable"
    if group.wer.interval:
        low, high = group.wer.interval
        interval = f"{100 * low:.2f}-{100 * high:.2f}"
    label = group.label.replace("|", "\\|")
    return (
        f"| {grouping} | {label} | {100 * group.wer.value:.2f} | {interval} | "
        f"{100 * group.cer.value:.2f} | {group.rows:,} | {group.speakers:,} |"
    )


def _limits(model: Model) -> str:
    shortest = model.frames.shortest_input() / 16
    longest = model.cutting.longest + 2 * model.cutting.overlap
    return f"""\
## Limits

- Error rates differ between dialects, ages and genders.
  They are higher for noise, music, distant microphones and several people at once.
- The text has the symbols that the model was trained on, which may exclude capitals, digits and
  punctuation. It can be wrong with great confidence; have it read before decisions rest on it.
- Audio of another rate must be resampled to 16 kHz, several channels mixed to one, and long
  recordings cut into parts of up to about {longest:.0f} s. Less than {shortest:.0f} ms fails.
  Amplify audio of an RMS below 0.01 (-40 dBFS), which is recognised worse.
- It is not made to identify people, nor to rate them by the way they speak."""
