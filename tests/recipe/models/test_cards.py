"""A finished run: a model with a name, and a record of its environment."""

import re
import shutil
from pathlib import Path
from urllib.request import url2pathname

import pytest
import torch
from fairseq2.assets import AssetCard
from fairseq2.models.wav2vec2 import Wav2Vec2Config
from fairseq2.models.wav2vec2.factory import create_wav2vec2_model
from fairseq2.utils.structured import StandardValueConverter

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.recipe.config.schema import (
    AsrConfig,
    AssetsConfig,
    DatasetSection,
    ModelSection,
    TokenizerSection,
)
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.models.cards import (
    Assets,
    open_model,
    open_tokenizer,
    speech_of,
    tokenizer_of,
    with_named_model,
)
from danish_asr.recipe.run.run import Run
from tests.running import copy_until, evaluate, metrics, train, weights


@pytest.fixture
def assets(dataset: Path, finished_run: Path, tmp_path: Path) -> Assets:
    """The cards of a dataset, of a model, and of one whose weights may run code."""
    (tmp_path / "own").mkdir()
    card = {"name": "unsafe", "model_family": "wav2vec2_asr", "restrict": False}
    (tmp_path / "own" / "unsafe.yaml").write_text(to_yaml(card))
    paths = [dataset / "cards", finished_run / "cards", tmp_path / "own"]
    return Assets(AssetsConfig(extra_paths=paths))


@pytest.mark.parametrize(
    ("key", "name", "part"),
    [
        ("model.name", "tiny", "finished"),
        ("dataset.name", "finished", "convert SOURCE --name finished"),
        ("dataset.name", "coral_v3", "convert hf:CoRal-project/coral-v3"),
        ("tokenizer.name", "nope", "own"),
        ("pretrained_encoder.name", "omniASR_LLM_300M", "omniASR_W2V_300M"),
        ("model.name", "unsafe", "restrict: False"),
    ],
)
def test_a_name_without_a_safe_card_of_its_kind_is_refused_with_what_there_is(
    assets: Assets, key: str, name: str, part: str
) -> None:
    with pytest.raises(ConfigError, match=f"{key}(.|\n)*{part}"):
        assets.find(key, name)


def test_a_card_says_what_a_dataset_a_model_and_a_tokenizer_are(
    assets: Assets, dataset: Path, finished_run: Path
) -> None:
    own, model = assets.find("dataset.name", "tiny"), assets.find("model.name", "finished")
    assert assets.open_dataset(DatasetSection(), own).root == dataset.resolve()
    moved = DatasetSection(config_overrides={"data": finished_run})
    assert assets.open_dataset(moved, own).path == finished_run
    others = {*assets.available("model.name", "unsafe").split(", ")}
    assert others & {"finished", "unsafe", "tiny"} == {"finished"}
    assert [tokenizer_of(card) for card in (own, model, None)] == ["tiny_char", "finished", None]
    described = assets.describe_model(ModelSection(config_overrides={"use_masking": True}), model)
    assert (described.config.use_masking, described.has_new_head) == (True, False)
    assert assets.describe_model(ModelSection(arch="tiny"), None).has_new_head
    file = finished_run / "cards" / "tokenizer.model"
    assert assets.tokenizer_file(TokenizerSection(path=file, name="nope")) == file
    assert assets.tokenizer_file(TokenizerSection(name="finished")) == file
    for fault, call in (
        ("--dataset", lambda: assets.open_dataset(DatasetSection(), None)),
        ("tiny", lambda: assets.describe_model(ModelSection(arch="nope"), None)),
        ("nope", lambda: assets.describe_model(ModelSection(config_overrides={"nope": 1}), model)),
        ("tokenizer.name", lambda: assets.tokenizer_file(TokenizerSection())),
        ("config.yaml", lambda: open_tokenizer(finished_run / "config.yaml")),
    ):
        with pytest.raises(ConfigError, match=fault):
            call()


def test_a_model_says_how_its_recordings_and_texts_were_prepared(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = AssetsConfig(extra_paths=[finished_run / "cards"])
    for opened in (open_model(finished_run), open_model("finished", section)):
        assert opened[4:] == ("coral", True, 320_000, None)
    assert capsys.readouterr().err.count(f"{finished_run} is step") == 1
    open_model(finished_run / "checkpoints" / "step_4")
    assert not capsys.readouterr().err
    assert speech_of(AsrConfig())["amp_dtype"] == "bfloat16"
    run = copy_until(4, finished_run, tmp_path / "run")
    (run / "checkpoints" / "tokenizer.model").write_bytes(build_char_tokenizer("abc"))
    with pytest.raises(ConfigError, match=f"model {run}(.|\n)*8 symbols"):
        open_model(run)
    with pytest.raises(ConfigError, match=r"model nope(.|\n)*available: ") as refused:
        open_model("nope")
    assert "model.name" not in str(refused.value)  # nobody gave this key
    bare = {"name": "bare", "model_family": "wav2vec2_asr"}
    (own := tmp_path / "own").mkdir()
    (own / "bare.yaml").write_text(to_yaml(bare))
    with pytest.raises(ConfigError, match=r"model bare(.|\n)*encoder without a head"):
        open_model("bare", AssetsConfig(extra_paths=[own]))
    with pytest.raises(ConfigError, match=r"model\.path"):
        with_named_model(AsrConfig(model=ModelSection(path=tmp_path)))


def test_checkpoints_of_an_earlier_run_have_the_names_of_fairseq2(
    finished_run: Path, tmp_path: Path
) -> None:
    checkpoints = finished_run / "checkpoints"
    step = Run(finished_run).last
    card = Assets(AssetsConfig(prev_checkpoint_dir=checkpoints)).find(
        "model.name", f"checkpoint_step_{step}"
    )
    assert str(checkpoints / f"step_{step}") in str(card.field("checkpoint").value)
    with pytest.raises(ConfigError, match=f"prev_checkpoint_dir {tmp_path} has no model.yaml"):
        Assets(AssetsConfig(prev_checkpoint_dir=tmp_path))


@pytest.mark.slow
def test_a_later_run_starts_from_the_finished_model_by_name(
    tmp_path: Path, dataset: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAPS, names: checkpoints of a run have neither a tokenizer nor a name."""
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(finished_run / "cards"))
    run = tmp_path / "run"
    named = ["model={name: finished}", "regime.num_steps=2", "trainer.freeze_encoder_for_n_steps=2"]
    assert train(run, dataset, *named) == 0
    card = read_yaml(finished_run / "cards" / "finished.yaml")
    step = int(Path(card["checkpoint"]).parent.name.removeprefix("step_"))
    before, after = weights(finished_run, step), weights(run, 2)
    encoder = "encoder.layers.0.ffn.inner_proj.weight"
    assert torch.equal(before[encoder], after[encoder])
    assert not torch.equal(before["final_proj.weight"], after["final_proj.weight"])
    assert read_yaml(run / "config.yaml")["tokenizer"]["name"] == "finished"


def weight_files(run: Path) -> dict[Path, int]:
    """The files of a run's weights and their inodes: the same weights may be in a new file."""
    return {file: file.stat().st_ino for file in run.rglob("sdp_*.pt")}


@pytest.mark.slow
def test_a_finished_run_of_models_only_is_complete_and_not_trained_over(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, models = tmp_path / "run", "regime.save_model_only=true"
    assert train(run, dataset, models) == 0
    before, rows = weight_files(run), [metrics(run, kind) for kind in ("train", "valid")]
    tokenizer = (run / "checkpoints" / "tokenizer.model").stat().st_ino
    capsys.readouterr()
    assert train(run, dataset, models, "optimizer.config.lr=1e-2") == 2
    refused = capsys.readouterr().err
    assert f"model.path={run}" in refused
    assert "optimizer.config.lr" in refused
    assert train(run, dataset, models) == 0
    assert f"model.path={run}" in capsys.readouterr().err
    assert weight_files(run) == before
    assert [metrics(run, kind) for kind in ("train", "valid")] == rows
    assert (run / "checkpoints" / "tokenizer.model").stat().st_ino == tokenizer


def start_of_a_training(model: Path) -> AssetCard:
    """The card of what ``model.path`` means."""
    config, placed = with_named_model(AsrConfig(model=ModelSection(path=model)))
    return Assets(config.common.assets, placed).find("model.name", config.model.name or "")


def place_of_weights(card: AssetCard) -> Path:
    return Path(url2pathname(card.field("checkpoint").as_uri().path)).resolve()


def write_card(run: Path, name: str, **values: str) -> None:
    """Another card of a copy of the finished run."""
    card = read_yaml(run / "cards" / "finished.yaml") | {"name": name, **values}
    (run / "cards" / f"{name}.yaml").write_text(to_yaml(card))


@pytest.mark.parametrize(
    ("change", "step"),
    [("score", 2), ("gone", 2), ("export", 4), ("longer", 2), ("other cards", 4)],
)
def test_a_model_path_means_the_checkpoint_that_is_transcribed_with(
    tmp_path: Path, finished_run: Path, change: str, step: int
) -> None:
    run = copy_until(2 if change == "gone" else 4, finished_run, tmp_path / "run")
    if change in {"score", "longer"}:  # the card names step 4
        (run / "checkpoints" / "scores" / "step_2.txt").write_text("0\n")
    if change == "longer":
        write_card(run, "longer", checkpoint="../checkpoints/step_2/model")
    elif change == "other cards":
        write_card(run, "a")
        write_card(run, "run")
    elif change == "export":
        (run / "config.json").write_text("{}")
    for card in (start_of_a_training(run), open_model(run).card):
        assert place_of_weights(card) == run / "checkpoints" / f"step_{step}" / "model"


@pytest.mark.slow
def test_a_finished_run_and_each_of_its_checkpoints_is_a_model_path(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    """TRAPS, names: upstream refuses a path without a family, and takes 32 symbols for granted."""
    own = [f"model={{path: {finished_run}/checkpoints/step_2}}", "regime.num_steps=2"]
    run, head = tmp_path / "run", "final_proj.weight"
    assert train(run, dataset, *own) == 0
    assert evaluate(run, dataset, *own, "evaluator.checkpoint=last") == 0
    assert weights(run, 2)[head].shape == weights(finished_run, 2)[head].shape


def test_a_dataset_is_refused_as_a_model_path(dataset: Path) -> None:
    config = AsrConfig(model=ModelSection(path=dataset))
    with pytest.raises(ConfigError, match=re.escape(str(dataset))):
        with_named_model(config)


def test_a_tokenizer_that_does_not_fit_the_head_is_refused(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, names: nothing upstream holds a tokenizer's symbols against the model's head."""
    file = tmp_path / "other.model"
    file.write_bytes(build_char_tokenizer("abc"))
    other = [f"tokenizer.path={file}", "tokenizer.family=char_tokenizer"]
    own = [f"model={{path: {finished_run}}}", *other]
    assert train(tmp_path / "run", dataset, *own) == 2
    error = capsys.readouterr().err
    assert re.search(
        r"tokenizer has \d+ symbols, but the head of '[^']*finished[^']*' has \d+", error
    )
    shutil.copytree(finished_run, tmp_path / "changed")
    shutil.copyfile(file, tmp_path / "changed" / "checkpoints" / "tokenizer.model")
    with pytest.raises(ConfigError, match=r"model .*changed(.|\n)*head has \d+"):
        open_model(tmp_path / "changed")


def write_encoder(folder: Path) -> dict[str, torch.Tensor]:
    """Save a wav2vec2 model with the encoder of ``tiny``, and its card ``pretrained``."""
    config = Wav2Vec2Config(
        encoder_config=tiny().encoder_config, final_dim=32, quantized_dim=32, num_codebook_entries=8
    )
    torch.manual_seed(3)
    state = create_wav2vec2_model(config).state_dict()
    file = folder / "model" / "pp_00" / "tp_00" / "sdp_00.pt"
    file.parent.mkdir(parents=True)
    torch.save(state, file, pickle_protocol=2)
    card = {
        "name": "pretrained",
        "model_family": "wav2vec2",
        "model_config": StandardValueConverter().unstructure(config),
        "checkpoint": str(folder / "model"),
    }
    (folder / "pretrained.yaml").write_text(to_yaml(card))
    return dict(state)


@pytest.mark.slow
def test_a_pretrained_encoder_gives_its_weights_below_a_new_head(
    tmp_path: Path, dataset: Path
) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    run = tmp_path / "run"
    status = train(
        run,
        dataset,
        f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/encoder]",
        "pretrained_encoder.name=pretrained",
        "model.config_overrides=null",
        "trainer.freeze_encoder_for_n_steps=2",
        "masking.time=0.5",
        "regime.num_steps=4",
    )
    assert status == 0
    at_2, at_4 = weights(run, 2), weights(run, 4)
    inner = "encoder.layers.0.ffn.inner_proj.weight"
    first_convolution = "encoder_frontend.feature_extractor.layers.0.conv.weight"
    assert torch.equal(at_2[inner], encoder[inner])
    mask = "masker.temporal_mask_embed"
    assert torch.equal(at_2[mask], encoder[mask])
    assert not torch.equal(at_4[inner], encoder[inner])
    # Pretrained convolutions stay frozen when the encoder is freed.
    assert torch.equal(at_4[first_convolution], encoder[first_convolution])
    assert not torch.equal(at_2["final_proj.weight"], at_4["final_proj.weight"])
