from pathlib import Path
from typing import Any

from tests.builders import build_dataset
from tests.forks import in_processes


def load(args: list[str]) -> None:
    from fairseq2 import init_fairseq2  # noqa: PLC0415 - in a new process
    from fairseq2.assets import get_asset_store  # noqa: PLC0415
    from fairseq2.data.tokenizers import load_tokenizer  # noqa: PLC0415

    init_fairseq2()
    metadata: Any = get_asset_store().retrieve_card(args[0]).metadata
    tokenizer = load_tokenizer(metadata["tokenizer_ref"], progress=False)
    print(metadata["dataset_config"]["data"])  # noqa: T201
    print(tokenizer.create_decoder()(tokenizer.create_encoder()(args[1])))  # noqa: T201


def test_fairseq2_finds_the_dataset_and_its_tokenizer_by_name(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds")
    text, cards = "Åse drikker 3 kopper te", str(tmp_path / "ds" / "cards")
    printed = in_processes(1, load, ["tiny", text], DANISH_ASR_ASSETS=cards)
    assert printed.splitlines() == [str((tmp_path / "ds" / "version=0").resolve()), text]
