"""The configuration: sections, keys, defaults, and what each key may be.

The keys are upstream's (omnilingual-asr's recipe of the same name) with ours beside them. The text
below a field is its help. No PyTorch and no fairseq2 is imported, so that faults and help come at
once: `fairseq2.py` turns these sections into those of fairseq2.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, Field, Strict

from danish_asr.recipe.config.training_sections import (
    AboveZero,
    AtLeastOne,
    Bool,
    Count,
    DataType,
    File,
    GangSection,
    OptimizerSection,
    Profile,
    RegimeSection,
    ScheduleSection,
    Section,
    Share,
    TrainerSection,
)

FULL: Final = "full"


@dataclass(kw_only=True)
class ModelSection(Section):
    """The model to train: ``name`` fine-tunes a checkpoint, ``arch`` alone starts from scratch."""

    name: str | None = None
    """A model's card, such as omniASR_CTC_300M_v2: `danish-asr fetch` says how to look one up."""

    path: File | None = None
    """A run, one of its checkpoints, or a directory of Hugging Face, instead of a name."""

    arch: str | None = None
    """An architecture without weights, such as tiny or 300m."""

    config_overrides: dict[str, Any] | None = None
    """Changes to the architecture, such as other dropout."""

    head: Literal["full", "danish"] = FULL
    """`danish` keeps those rows of a trained head whose symbols the training text uses."""

    keep_layers: Annotated[list[Count], AfterValidator(sorted)] = field(default_factory=list)
    """Take these encoder layers alone, counted from 0: `[0, 2, 4]`. Empty: all."""


@dataclass(kw_only=True)
class EncoderSection(Section):
    """With `model.arch`: a pretrained encoder below a new head."""

    name: str | None = ""
    """A model's card, such as omniASR_W2V_300M."""


@dataclass(kw_only=True)
class MaskingSection(Section):
    """Which share of the encoder's input is masked in training; null: as the model has it."""

    time: Share | None = None
    """Spans are drawn for this share of the frames; as they overlap, 0.5 masks about 0.4."""

    time_span: AtLeastOne | None = None
    """Frames in a span; 10 in wav2vec 2.0."""

    channel: Share | None = None
    """The same for channels."""

    channel_span: AtLeastOne | None = None
    """Channels in a span; 64 in wav2vec 2.0."""


@dataclass(kw_only=True)
class StorageSection(Section):
    """How the shares of corpora are balanced."""

    beta_corpus: Share | None = None
    """0: equal shares, 1: by hours, 0.5: by their square root, null: all rows once in an epoch."""


@dataclass(kw_only=True)
class TaskSection(Section):
    """Filters, batching, shuffling and SpecAugment. Lengths are in samples at 16 kHz."""

    min_audio_len: AtLeastOne = 1
    """Shorter training utterances are left out."""

    max_audio_len: AtLeastOne = 800_000
    """Longer training utterances are left out."""

    max_num_elements: AtLeastOne = 3_200_000
    """Samples in a batch, padding included; they set the memory of a step."""

    num_seqs_multiple_of: AtLeastOne = 8
    """A batch with more rows than this has a multiple of it."""

    min_samples_per_char: Count = 160
    """Training rows with fewer samples for each character, text of other audio, are left out."""

    normalize_audio: Bool = True
    """Give each waveform a mean of 0 and a variance of 1, as omniASR's models were trained."""

    spec_aug_p: Share | None = None
    """The share of training rows with SpecAugment. Null: none."""

    example_shuffle_window: Literal[0, 1] = 0
    """0: shuffle the rows of an epoch, 1: only its row groups."""

    batch_shuffle_window: Literal[0, 1, 1000] = 1000
    """1: batches come in the order of their first rows. Others: they are shuffled."""


@dataclass(kw_only=True)
class WeightConfig(Section):
    """How often an epoch shows the rows that fulfil a condition."""

    where: Annotated[str, MinLen(1)]
    """An SQL condition, as `dataset.train_where`: `corpus = 'ftspeech'`."""

    factor: Annotated[float, Strict(), Gt(0), Le(1000)]
    """So many times as often as without it; the factors of several conditions multiply."""


def names_of_splits(text: str | None) -> list[str]:
    """The names in a comma-separated list of splits, each once."""
    return [*dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip())]


Multiple = Annotated[str, Field(pattern=r"^\d+(\.\d+)?x$")]
SpeedFactor = Annotated[float, Strict(), Ge(0.5), Le(2)]


@dataclass(kw_only=True)
class DatasetSection(Section):
    """Which utterances are read, and how they become batches."""

    name: str | None = None
    """The dataset's card, as `danish-asr convert --name` wrote it; `--dataset DIR` sets it."""

    config_overrides: dict[Literal["data"], File] | None = None
    """`{data: DIRECTORY}` in place of the card's directory."""

    train_split: str = "train"
    """The split to train on; `train_<corpus>` is one corpus."""

    train_where: str | None = None
    """Train on the rows that fulfil this SQL condition: `dialect = 'Fynsk' and age >= 60`."""

    train_subset: AtLeastOne | None = None
    """Train on about this many rows, each dialect in its share. Null: all."""

    train_share: Annotated[float, Strict(), Gt(0), Le(1)] | None = None
    """Train on this share of each dialect's hours, of speakers that `common.seed` draws."""

    weights: list[WeightConfig] = field(default_factory=list)
    """Show rows more or less often: `[{where: "corpus = 'ftspeech'", factor: 0.3}]`."""

    valid_split: str | None = "dev"
    """The splits to validate on, separated by commas; `test_<corpus>` is one corpus."""

    valid_where: str | None = None
    """Validate on the rows that fulfil this SQL condition. Null: all rows."""

    valid_subset: AtLeastOne | None = None
    """Validate on about this many rows of each split, always the same. Null: all."""

    quadratic_seconds: AboveZero | None = None
    """q: an utterance of L seconds counts as L + L²/q in `max_num_elements`. Null: as L."""

    valid_max_num_elements: AtLeastOne | Multiple | None = None
    """`max_num_elements` of validation and evaluation, or a multiple of it. `3x` is safe."""

    mixture_parquet_storage_config: StorageSection = field(default_factory=StorageSection)
    asr_task_config: TaskSection = field(default_factory=TaskSection)

    text_profile: Profile = "raw"
    """The normalisation of targets, or `package.module:function`; v1 tokenizers need `coral`."""

    speed_factors: Annotated[list[SpeedFactor], MaxLen(255)] = field(default_factory=list)
    """Speeds to draw from for each training row in each epoch: 1.1 is 10 % faster and higher."""

    transforms: list[dict[str, Any]] = field(default_factory=list)
    """Other changes to training waveforms: each a `name` and its settings."""

    max_unknown_share: Share = 0.2
    """Refuse to train if a larger share of the target text is unknown to the tokenizer."""

    @property
    def valid_elements(self) -> int | None:
        """``valid_max_num_elements`` as a number."""
        value = self.valid_max_num_elements
        if not isinstance(value, str):
            return value
        return int(float(value.removesuffix("x")) * self.asr_task_config.max_num_elements)


@dataclass(kw_only=True)
class TokenizerSection(Section):
    """The tokenizer; if none is named, the one in the model's or the dataset's card."""

    name: str | None = None
    """A tokenizer's card. Null: that of the model, else of the dataset."""

    path: File | None = None
    """The file of a tokenizer of characters, instead of a name."""


@dataclass(kw_only=True)
class EvaluatorSection(Section):
    """What the evaluation recipe scores."""

    amp: Bool = True
    """Evaluate with autocast on a GPU."""

    amp_dtype: DataType = "bfloat16"
    """Its type; float16 on GPUs without bfloat16."""

    checkpoint: str | None = None
    """`best` (default), `last` or `step_<n>` of the run in OUTDIR, or `none`: `model.name` itself
    (default without a run)."""

    split: str | None = None
    """The splits to score, separated by commas. Null: `test`, of upstream's evaluation files
    `dataset.valid_split`."""

    where: str | None = None
    """Score the rows that fulfil this SQL condition, in the directory of `label`. Null: all."""

    label: Annotated[str, Field(pattern=r"^\w[\w.+-]*$")] | None = None
    """The directory of the results, for a part of the rows or another configuration. Null: the
    decoder's name."""


@dataclass(kw_only=True)
class DecoderSection(Section):
    """From log-probabilities to text, when validating and scoring (docs/howto/extend.md)."""

    name: str = "greedy"
    """`greedy`, `beam`, or `package.module:name` of your own."""

    config: dict[str, Any] = field(default_factory=dict)
    """Its settings; those of `beam` are in docs/howto/language-model.md."""


@dataclass(kw_only=True)
class TorchConfig(Section):
    """Threads and precision."""

    num_threads: AtLeastOne | None = None
    """CPU threads of PyTorch. Null: OMP_NUM_THREADS, else the CPUs at hand."""


@dataclass(kw_only=True)
class WandbConfig(Section):
    """Curves in Weights & Biases."""

    enabled: Bool = False
    """Write curves to Weights & Biases; needs the extra wandb."""

    entity: str | None = None
    """The user or team there."""

    project: str | None = None
    """The project there."""


@dataclass(kw_only=True)
class RecordersConfig(Section):
    """Where curves are written, beside OUTDIR/metrics and OUTDIR/tb."""

    wandb: WandbConfig = field(default_factory=WandbConfig)


@dataclass(kw_only=True)
class AssetsConfig(Section):
    """Where cards are searched."""

    extra_paths: list[File] = field(default_factory=list)
    """Directories of cards, beside those of $DANISH_ASR_ASSETS."""

    prev_checkpoint_dir: File | None = None
    """The checkpoints of a run of upstream, whose names are `checkpoint_step_<n>`."""


@dataclass(kw_only=True)
class CommonSection(Section):
    """Threads, curves, traces, cards and the seed."""

    torch: TorchConfig = field(default_factory=TorchConfig)
    metric_recorders: RecordersConfig = field(default_factory=RecordersConfig)
    assets: AssetsConfig = field(default_factory=AssetsConfig)

    seed: Annotated[int, Strict(), Ge(0), Lt(4_000_000_000)] = (
        2  # fairseq2 takes 32 bits, and adds to it
    )
    """The seed of weights, batches and transforms."""


@dataclass(kw_only=True)
class AsrConfig(Section):
    """The configuration of training and evaluation: one file serves both."""

    model: ModelSection = field(default_factory=ModelSection)
    pretrained_encoder: EncoderSection = field(default_factory=EncoderSection)
    masking: MaskingSection = field(default_factory=MaskingSection)
    dataset: DatasetSection = field(default_factory=DatasetSection)
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    gang: GangSection = field(default_factory=GangSection)
    trainer: TrainerSection = field(default_factory=TrainerSection)
    optimizer: OptimizerSection = field(default_factory=OptimizerSection)
    lr_scheduler: ScheduleSection = field(default_factory=ScheduleSection)
    regime: RegimeSection = field(default_factory=RegimeSection)
    evaluator: EvaluatorSection = field(default_factory=EvaluatorSection)
    decoder: DecoderSection = field(default_factory=DecoderSection)
    common: CommonSection = field(default_factory=CommonSection)

    def stages(self) -> "dict[int, AsrConfig]":
        """The configuration of each stage of training, by the steps before it, from 0 on."""
        stages = {0: self}
        for first, stage in sorted(self.trainer.stages.items()):
            rows = replace(self.dataset, train_where=stage.where, train_subset=stage.subset)
            stages[first] = replace(self, dataset=rows)
        return stages
