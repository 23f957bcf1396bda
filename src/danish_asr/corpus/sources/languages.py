"""Other languages of the synthetic corpus: eSpeak NG's voices, and words that make sentences."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class SyntheticLanguage(NamedTuple):
    """A voice of eSpeak NG, and the words and the patterns of its sentences."""

    voice: str
    words: Mapping[str, tuple[str, ...]]
    patterns: tuple[str, ...]


def _language(voice: str, patterns: str, **words: str) -> SyntheticLanguage:
    lists = {kind: tuple(text.split(" | ")) for kind, text in words.items()}
    lists |= {"other": lists["name"], "price": lists["numeral"]}
    return SyntheticLanguage(voice, lists, tuple(patterns.split(" | ")))


LANGUAGES: Final[Mapping[str, SyntheticLanguage]] = {
    "nob_Latn": _language(
        "nb",
        "{name} {verb} {numeral} {adjective} {noun} | {name} {verb} {adjective} {noun} {place} | "
        "{name} og {other} {verb} {numeral} {noun} | "
        "{numeral} {adjective} {noun} koster {price} kroner",
        name="Anna | Bjørn | Kari | Håkon | Åse | Ola | Ingrid | Lars",
        verb="kjøper | selger | finner | henter | teller | maler | vasker | låner",
        numeral="to | tre | fire | fem | seks | sju | åtte | ni | ti | tolv | tjue",
        adjective="røde | små | gamle | nye | blå | grønne | store | fine",
        noun="epler | biler | bøker | båter | hester | kuer | pærer | stoler | kaker | sauer",
        place="i Oslo | i Bergen | på Hamar | i Tromsø | på Røros | i Ålesund | i Bodø | på Jæren",
    ),
    "swe_Latn": _language(
        "sv",
        "{name} {verb} {numeral} {adjective} {noun} | {name} {verb} {adjective} {noun} {place} | "
        "{name} och {other} {verb} {numeral} {noun} | "
        "{numeral} {adjective} {noun} kostar {price} kronor",
        name="Anna | Björn | Karin | Håkan | Åsa | Lars | Ingrid | Örjan",
        verb="köper | säljer | hittar | hämtar | räknar | målar | tvättar | lånar",
        numeral="två | tre | fyra | fem | sex | sju | åtta | nio | tio | tolv | tjugo",
        adjective="röda | små | gamla | nya | blå | gröna | stora | fina",
        noun="äpplen | bilar | böcker | båtar | hästar | kor | päron | stolar | kakor | får",
        place="i Stockholm | i Göteborg | i Malmö | på Öland | i Umeå | på Gotland | i Växjö",
    ),
    "fao_Latn": _language(
        "is",  # espeakng-loader 0.2.4 lists a Faroese voice and lacks its dictionary
        "{name} {verb} {numeral} {adjective} {noun} | {name} {verb} {adjective} {noun} {place} | "
        "{name} og {other} {verb} {numeral} {noun}",
        name="Anna | Jógvan | Marjun | Hákun | Sólrun | Páll | Eyðun | Bjørg",
        verb="keypir | selur | finnur | heintar | telur | málar | vaskar | lænir",
        numeral="fýra | fimm | seks | sjey | átta | níggju | tíggju | tólv | tjúgu",
        adjective="reyð | smá | gomul | nýggj | blá | grøn | stór | hvít",
        noun="súrepli | hús | skip | borð | brøv | egg | bløð | dýr | kort | lond",
        place="í Havn | í Klaksvík | á Tvøroyri | í Vági | á Sandi | í Fuglafirði | á Eiði",
    ),
}
"""The words of a sentence agree in number and gender: nouns are plural, Faroese ones neuter."""
