import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection, TokenizerSection
from danish_asr.recipe.data.targets import UnknownSymbols
from danish_asr.recipe.train.readers import check_symbols


def test_unknown_symbols_are_named_and_refused_above_the_limit() -> None:
    """TRAPS, names: v1 maps capitals to UNK; nothing checks agreement."""
    unknown = UnknownSymbols(0.05, [("Æ", 3), ("1", 2)])
    section = DatasetSection(name="d", max_unknown_share=0.04)
    config = AsrConfig(dataset=section, tokenizer=TokenizerSection(name="t"))
    with pytest.raises(ConfigError, match=r"5.00% of the training text.*'t': 'Æ' '1'"):
        check_symbols(unknown, config)
    check_symbols(unknown._replace(share=0.04), config)
