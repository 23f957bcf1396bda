"""The guide "CTC Finetuning Recipe": its YAML files and its two commands, with a small model.

Cards for the environment ``user`` give the names of the model and its tokenizer to stand-ins.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.base.config_tree import merge, read_yaml
from danish_asr.base.errors import EXIT_REFUSED
from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.convert import convert
from tests.builders import TEXTS, coral_row, tone, write_parquet
from tests.forks import in_processes
from tests.recipe.config.test_fairseq2 import NAMED, PLAIN, Tree
from tests.running import ROOT, train_main

DANISH: Tree = merge(
    NAMED,
    PLAIN,
    from_yaml("""
dataset:
  name: coral_v2_danish
  mixture_parquet_storage_config:
    dataset_summary_path: data/parquet/language_distribution_0.tsv
  asr_task_config: {max_audio_len: 480_000, max_num_elements: 3_840_000}
optimizer: {config: {lr: 1e-05}}
trainer: {grad_accumulation: {num_batches: 8}}
regime:
  num_steps: 5_000
  validate_every_n_steps: 500
  checkpoint_every_n_steps: 500
  publish_metrics_every_n_steps: 100
"""),
)

PLACEHOLDER = "workflows/recipes/wav2vec2/asr/configs/ctc-finetune.yaml"

TRAIN_DANISH = r"""python -m workflows.recipes.wav2vec2.asr $OUTPUT_DIR \
    --config-file printed.yaml --config regime.num_steps=3 gang.timeout=86400"""

EVALUATE = """workflows.recipes.wav2vec2.asr.eval.recipe OUTPUT_DIR
    --config-file workflows/recipes/wav2vec2/asr/configs/ctc-finetune-danish.yaml"""

EVALUATE_AS_UPSTREAM = """workflows.recipes.wav2vec2.asr.eval OUTPUT_DIR
    --config-file workflows/recipes/wav2vec2/asr/eval/configs/ctc-finetune-danish.yaml
    --config evaluator.split=dev"""


def write_stand_ins(folder: Path, finished: Path) -> None:
    """Write cards of a small model and of a tokenizer of lower-case letters, in upstream's names.

    The letters are filled up with Greek ones to the size of the model's head.
    """
    card = read_yaml(finished / "cards" / "finished.yaml")
    letters = {char for char in "".join(TEXTS).lower() if char.isalpha()}
    missing = card["model_config"]["target_vocab_size"] - len(letters) - 5
    letters |= {chr(ord("α") + number) for number in range(missing)}
    (folder / "tokenizer.model").write_bytes(build_char_tokenizer(letters))
    checkpoint = str(finished / "cards" / card["checkpoint"])
    model = {"model_config": card["model_config"], "checkpoint": checkpoint}
    (folder / "model.yaml").write_text(to_yaml({"name": "omniASR_CTC_300M@user", **model}))
    tokenizer = {"name": "omniASR_tokenizer_v1@user", "tokenizer": "tokenizer.model"}
    (folder / "tokenizer.yaml").write_text(to_yaml(tokenizer))


def write_clone(folder: Path) -> None:
    """Write modules of the recipes' names, which print nothing and end with status 0."""
    asr = folder / "workflows" / "recipes" / "wav2vec2" / "asr"
    (asr / "eval").mkdir(parents=True)
    for name in ("__init__", "__main__", "eval/__init__", "eval/__main__", "eval/recipe"):
        (asr / f"{name}.py").touch()


@pytest.fixture
def project(tmp_path: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with ``workflows``, a converted dataset and the stand-ins."""
    (tmp_path / "workflows").symlink_to(ROOT / "workflows")
    for split in ("train", "val", "test"):
        rows = [coral_row(n, split=split, audio=tone(2.0 + n / 10)) for n in range(4)]
        write_parquet(tmp_path / "source" / "read_aloud" / f"{split}-0.parquet", rows)
    options = ConvertOptions(name="coral_v2_danish")
    convert(tmp_path / "source", tmp_path / "data/parquet", options)
    (tmp_path / "cards").mkdir()
    write_stand_ins(tmp_path / "cards", finished_run)
    write_clone(tmp_path / "clone")
    # As the environment file of the guide's project sets it.
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'clone'}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("DANISH_ASR_ASSETS", str(tmp_path / "cards"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def status_and_output(command: str, output_dir: Path) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path, "OUTPUT_DIR": str(output_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout


def run_module(words: list[str]) -> None:
    """Do what `python -m` does in a process that has imported PyTorch."""
    sys.path[:0] = [str(Path.cwd()), *os.environ["PYTHONPATH"].split(os.pathsep)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "workflows"]:
        del sys.modules[name]
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def test_the_guides_commands_run_with_upstreams_clone_on_the_path(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TRAPS, names: the printed YAML trains on capitals, which the v1 tokenizer does not know."""
    run = project / "run"
    with pytest.raises(SystemExit) as refused:
        train_main([str(run), "--config-file", PLACEHOLDER])
    assert refused.value.code == EXIT_REFUSED
    (name,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("  - "))
    assert "dataset.name: /path/to/your/dataset" in name
    assert "set dataset.name to another one, available: coral_v2_danish" in name

    (project / "printed.yaml").write_text(to_yaml(DANISH))
    status, output = status_and_output(TRAIN_DANISH, run)
    assert status == 0, output
    assert "dataset.text_profile=coral" in output
    assert output.count(" step 2: ") == 1  # also where an epoch ends with it
    assert f"Next: danish-asr evaluate {run}" in output

    for command in (EVALUATE, EVALUATE_AS_UPSTREAM):
        output = in_processes(1, run_module, command.replace("OUTPUT_DIR", str(run)).split())
        assert "4 predictions written" in output
        assert f"{run}/eval/" in output
