"""Upload an export to the Hugging Face hub."""

from pathlib import Path

from danish_asr.base.errors import DanishAsrError


def push(folder: Path, repo: str) -> str:
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
