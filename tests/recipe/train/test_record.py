"""The checks of a run's numbers, its disk and its tokenizer; what it prints."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from sentencepiece import sentencepiece_model_pb2 as proto
from torch import nn
from torch.nn.functional import log_softmax

from danish_asr.base.config_tree import read_yaml
from danish_asr.base.errors import RunError
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.inference.model import Model, load_model
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train.average import average
from danish_asr.recipe.train.record import (
    check_free_space,
    checkpoint_space,
    model_card,
    sliced_tokenizer,
    write_environment,
    write_model_card,
)
from danish_asr.scoring.predictions import read_predictions
from tests.random_models import CHARACTERS, build_model
from tests.running import evaluate, train


def test_a_disk_without_room_for_the_checkpoints_is_refused(tmp_path: Path) -> None:
    """TRAPS, training: a full quota ends a run without a message, hours after it began."""
    with pytest.raises(RunError, match=r"4 more checkpoints of .* GiB need .* GiB; free some"):
        check_free_space(tmp_path, nn.Linear(10**6, 10**7, device="meta"), AsrConfig())
    check_free_space(tmp_path, nn.Linear(2, 2), AsrConfig())


@pytest.mark.parametrize(
    ("last", "best", "every", "number"),
    [(2, 1, 2_000, 14), (10**9, 1, None, 21), (None, 1, None, 3), (None, None, None, 21)],
)
def test_room_is_for_the_checkpoints_that_are_kept_and_the_one_that_is_written(
    tmp_path: Path, last: int | None, best: int | None, every: int | None, number: int
) -> None:
    config = AsrConfig()
    config.regime.num_steps, config.regime.checkpoint_every_n_steps = 20_000, 1_000
    config.regime.keep_last_n_checkpoints = last
    config.regime.keep_best_n_checkpoints = best
    config.regime.keep_checkpoint_every_n_steps = every
    space = checkpoint_space(None, nn.Linear(2, 2), config)
    assert (space.number, space.total) == (number, number * 72)  # with two moments of 24 bytes
    for written in (1, 2):
        (tmp_path / "checkpoints" / f"step_{written}").mkdir(parents=True)
    assert checkpoint_space(tmp_path, nn.Linear(2, 2), config).number == max(number - 2, 1)


@pytest.mark.parametrize(
    ("model_only", "moments"), [(False, 4), ("all_but_last", 2), ("all", 0), (True, 0)]
)
def test_room_for_the_optimizer_is_for_the_checkpoints_that_hold_it_and_for_what_learns(
    model_only: bool | str,
    moments: int,
) -> None:
    config, module = AsrConfig(), nn.Linear(2, 2)
    config.regime.save_model_only = model_only  # type: ignore[assignment]
    module.bias.requires_grad = False
    space = checkpoint_space(None, module, config)
    assert space == (24 + 32, 24, 4, 4 * 24 + moments * 32)


def test_each_start_of_a_run_is_added_to_those_before(tmp_path: Path) -> None:
    for starts in (1, 2):
        write_environment(tmp_path)
        assert len(json.loads((tmp_path / "environment.json").read_text())) == starts


OTHERS = 10_000  # symbols of other languages
FIRST = 5  # the symbols before them: control symbols, the unknown one, the space


def with_others(tokenizer: bytes) -> bytes:
    model: Any = proto.ModelProto.FromString(tokenizer)  # type: ignore[attr-defined]
    pieces = list(model.pieces)
    others = [type(pieces[-1])(piece=chr(0x4E00 + n), score=-20) for n in range(OTHERS)]
    del model.pieces[:]
    model.pieces.extend([*pieces[:FIRST], *others, *pieces[FIRST:]])
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model ``named`` whose head has symbols of many languages."""
    folder = build_model(tmp_path_factory.mktemp("models") / "named", model_dim=32, dropout_p=0.0)
    card, tokenizer = folder / "cards" / "named.yaml", folder / "cards" / "tokenizer.model"
    tokenizer.write_bytes(with_others(tokenizer.read_bytes()))
    state = torch.load(folder / "cards" / "model.pt")
    torch.manual_seed(1)
    for name in ("final_proj.weight", "final_proj.bias"):
        value = state[name]
        others = 0.1 * torch.randn(OTHERS, *value.shape[1:])
        state[name] = torch.cat([value[:FIRST], others, value[FIRST:]])
    torch.save(state, folder / "cards" / "model.pt")
    content = from_yaml(card.read_text(encoding="utf-8"))
    content["model_config"]["target_vocab_size"] += OTHERS
    card.write_text(to_yaml(content), encoding="utf-8")
    return folder


def options(dataset: Path, named: Path, *more: str) -> tuple[str, ...]:
    return (
        "model={name: named, head: danish, config_overrides: null}",
        f"common.assets.extra_paths=[{dataset}/cards, {named}/cards]",
        "optimizer.config.lr=1e-2",
        *("regime.keep_last_n_checkpoints=2", "regime.keep_best_n_checkpoints=2"),
        *more,
    )


@pytest.mark.parametrize("text", ["en bil", "En Bil 7", "日本 bil", "bil", "xyz ø"])
def test_the_sliced_tokenizer_writes_what_the_full_one_writes(text: str) -> None:
    full = with_others(build_char_tokenizer(CHARACTERS + CHARACTERS.upper() + "?é"))
    new = sliced_tokenizer(full, text.split())
    old, kept = (sentencepiece.SentencePieceProcessor(model_proto=model) for model in (full, new))
    assert kept.encode(text, out_type=str) == old.encode(text, out_type=str)
    assert kept.decode(kept.encode(text)) == text
    for number in range(FIRST - 1):
        assert kept.id_to_piece(number) == old.id_to_piece(number)
    # Letters that this text lacks are kept with the others, and digits with digits.
    assert kept.unk_id() not in kept.encode("vinden blæser åøq")
    assert (kept.unk_id() in kept.encode("3 ZÅ")) == (text != "En Bil 7")
    assert kept.unk_id() in kept.encode("é")
    assert kept.get_piece_size() < 90


def test_the_kept_rows_are_the_same_bits_and_the_text_is_that_of_a_masked_head(
    tmp_path: Path, dataset: Path, named: Path
) -> None:
    """The loss differs by the normalisation, and nothing else does."""
    run = tmp_path / "run"
    still = options(dataset, named, "optimizer.config.lr=1e-30", "regime.num_steps=1")
    assert train(run, dataset, *still) == 0
    small, full = load_model(run, device="cpu"), load_model(named, device="cpu")
    pieces, every = symbols(small), symbols(full)
    assert len(pieces) < 50 < OTHERS < len(every)
    kept = [every.index(piece) for piece in pieces]
    for name in ("weight", "bias"):
        new, old = (m.module.get_parameter(f"final_proj.{name}") for m in (small, full))
        assert torch.equal(new, old[kept])
    audio = np.random.default_rng(1).normal(size=48_000).astype(np.float32)
    (logits,), (before,) = small.log_probs([audio]), full.log_probs([audio])
    torch.testing.assert_close(logits, log_softmax(before[:, kept], dim=-1))
    masked = torch.full_like(before, -torch.inf)
    masked[:, kept] = before[:, kept]
    assert small.decoder([logits]) == full.decoder([masked]) != [""]


def symbols(model: Model) -> list[str]:
    size = model.tokenizer.vocab_info.size
    assert size == model.settings.target_vocab_size
    inner: Any = getattr(model.tokenizer, "_model")  # noqa: B009
    return [inner.index_to_token(number) for number in range(size)]


def test_whatever_takes_a_run_takes_a_sliced_one(
    tmp_path: Path, dataset: Path, named: Path
) -> None:
    twice = "trainer.grad_accumulation.num_batches=2"
    assert train(tmp_path / "sliced", dataset, *options(dataset, named, twice)) == 0
    run = (tmp_path / "sliced").rename(tmp_path / "moved")
    # A configuration may name the tokenizer of the full head.
    full = options(dataset, named, "tokenizer.name=named", "evaluator.split=dev")
    assert evaluate(run, dataset, *full) == 0
    texts = read_predictions(run / "eval" / "best" / "dev" / "predictions.jsonl")["hypothesis"]
    assert any(texts)
    assert set("".join(texts)) <= {*CHARACTERS, " "}
    step = load_model(run / "checkpoints" / "step_2", device="cpu")
    assert symbols(load_model(average(run, 2).folder, device="cpu")) == symbols(step)


@pytest.mark.parametrize(
    ("steps", "stopped", "epochs"),
    [(None, None, 2), (9, None, 2), (4, None, None), (None, "patience", None)],
)
def test_a_card_has_the_epochs_that_ended_its_run(
    steps: int | None,
    stopped: str | None,
    epochs: int | None,
    tmp_path: Path,
    finished_run: Path,
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    regime = {"num_steps": steps, "num_data_epochs": 2}
    (run / "config.yaml").write_text(to_yaml({"regime": regime}))
    card = read_yaml(model_card(Run(run), "run", stopped) / "run.yaml")
    assert card.get("data_epochs") == epochs


def test_the_model_of_a_run_is_named_with_its_score(
    tmp_path: Path, finished_run: Path, logged: list[str]
) -> None:
    """It may be a model that writes nothing."""
    run = Run(shutil.copytree(finished_run, tmp_path / "run"))
    run.score_file(2).write_text("-100.0\n")
    run.score_file(4).write_text("-101.5\n")
    write_model_card(run)
    assert "step 2, Word Error Rate (WER) 100.00" in logged[0]


def test_a_smaller_model_has_the_layers_that_it_keeps_and_is_used_like_any_other(
    tmp_path: Path, dataset: Path
) -> None:
    """Weights that do not move, so that they are those of the kept layers of the larger model."""
    name = build_model(tmp_path / "named", num_encoder_layers=4, model_dim=32).name
    assets = f"common.assets.extra_paths=[{dataset}/cards, {tmp_path}/named/cards]"
    own = ("model={name: named, keep_layers: [0, 2, 3], config_overrides: null}", assets)
    still = (*own, "optimizer.config.lr=1e-30", "trainer.freeze_encoder_layers=1")
    run = tmp_path / name / "run"
    assert train(run, dataset, *still, "regime.num_steps=2") == 0
    assert train(run, dataset, *still) == 0  # and it continues
    small, large = (load_model(model, device="cpu").module for model in (run, tmp_path / "named"))
    kept = [large.encoder.layers[number] for number in (0, 2, 3)]
    for mine, theirs in zip(small.encoder.layers, kept, strict=True):
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
    assert evaluate(run, dataset, *still) == 0
