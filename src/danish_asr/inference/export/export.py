"""``danish-asr export``: write a model for another program, compare it, give it its name."""

import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError, RunError
from danish_asr.base.files import publish_text
from danish_asr.inference.export.model_card import model_card
from danish_asr.inference.export.to_hugging_face import write_hugging_face
from danish_asr.inference.export.to_onnx import write_onnx, write_sherpa_onnx
from danish_asr.inference.export.verify import read_utterances, verify
from danish_asr.inference.model import load_model

FORMATS: Final = ("hf", "onnx", "sherpa-onnx")

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def export_model(
    model: str,
    to: str,
    dest: Path,
    *,
    lm: Path | None = None,
    int8: bool = False,
    audio: Sequence[Path] = (),
    push: str | None = None,
    console: Console | None = None,
) -> None:
    """Export a run, a checkpoint or a named model to a new directory, and print what was compared.

    Args:
        model: As for `load_model`.
        to: One of `FORMATS`.
        dest: The directory, which must not exist; it appears when the export is verified.
        lm: A directory of ``danish-asr lm build``, only for ``hf``.
        int8: Also write ``model.int8.onnx``.
        audio: Files to compare on; see `read_utterances`.
        push: A repository of the Hugging Face hub, OWNER/NAME.
        console: Where to print.

    Raises:
        ConfigError: The options do not fit each other, or there is no such model.
        MissingExtraError: The extra ``export`` is not installed.
        RunError: The model cannot be exported, or the export differs from it.
    """
    console = console or Console()
    _check(to, dest, lm=lm, int8=int8, push=push)
    partial = dest.with_name(f".{dest.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"{dest} cannot be written: {error.strerror}; name another") from error
    try:
        utterances = read_utterances(audio)
        loaded = load_model(model, device="cpu")
        with console.status(f"exporting {model}"):
            if to == "hf":
                write_hugging_face(loaded, partial, lm)
            else:
                write = write_onnx if to == "onnx" else write_sherpa_onnx
                write(loaded, partial, int8=int8)
        lines = verify(loaded, partial, to, utterances)
        if not audio:
            lines.append(
                "these were synthetic sounds, one of them very quiet: the comparison that counts "
                "is on recordings of speech, with --audio"
            )
        card = model_card(loaded, model, to, push, with_lm=lm is not None, compared=lines)
        publish_text(partial / "README.md", card)
        partial.rename(dest)
    except OSError as error:
        raise RunError(f"{dest}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for line in [*lines, f"wrote {dest}"]:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if push:
        console.print(f"pushed to {upload(dest, push)}", soft_wrap=True, highlight=False)


def _check(to: str, dest: Path, *, lm: Path | None, int8: bool, push: str | None) -> None:
    faults = []
    if to not in FORMATS:
        faults.append(f"--to must be one of {', '.join(FORMATS)}, but is '{to}'")
    if lm is not None and to != "hf":
        faults.append("--lm goes along into --to hf only")
    if int8 and to == "hf":
        faults.append("--int8 needs --to onnx or sherpa-onnx")
    if push is not None and not _REPOSITORY.fullmatch(push):
        faults.append(f"--push must be OWNER/NAME, in letters, digits, '-', '_', '.', not '{push}'")
    if dest.exists():
        faults.append(f"{dest} exists; name a new directory, or remove it")
    if faults:
        raise ConfigError(faults, where="danish-asr export")
    needed = ("transformers",) if to == "hf" else ("transformers", "onnx", "onnxruntime")
    if not all(map(find_spec, needed)):
        raise MissingExtraError(f"--to {to}", "export")


def upload(folder: Path, repo: str) -> str:
    """Upload a directory to a model repository, made private if it is new; return its address.

    Raises:
        DanishAsrError: The hub refuses it or cannot be reached; the directory stays.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415 - slow
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    api = HfApi(library_name="danish-asr")
    try:
        address = api.create_repo(repo, private=True, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="danish-asr export")
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        fault = f"{api.endpoint} cannot be reached; check the network"
        if isinstance(error, HfHubHTTPError | HFValidationError):
            fault = f"{error}. Log in with `hf auth login`"
        raise DanishAsrError(
            f"--push {repo}: {fault}, then upload the export, which is complete: "
            f"`hf upload {repo} {folder}`"
        ) from error
    return str(address)
