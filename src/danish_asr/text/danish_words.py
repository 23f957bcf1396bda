"""Words that profile ``danish`` knows: abbreviations, units, months, regents, neuter nouns."""

import re
from collections.abc import Iterator, Mapping
from typing import Final


def _items(table: str) -> list[str]:
    return [item.strip() for item in re.split("[|\n]", table) if item.strip()]


ABBREVIATIONS: Final[Mapping[str, str]] = dict(
    item.split(" ", 1)
    for item in _items("""
    f.eks. for eksempel | fx for eksempel | bl.a. blandt andet | d.v.s. det vil sige
    dvs. det vil sige | osv. og så videre | m.m. med mere | m.fl. med flere | m.v. med videre
    mv. med videre | o.l. og lignende | pga. på grund af | mht. med hensyn til
    ifm. i forbindelse med | iflg. ifølge | jf. jævnfør | vedr. vedrørende | hhv. henholdsvis
    evt. eventuelt | inkl. inklusive | ekskl. eksklusive | ca. cirka | nr. nummer
    pct. procent | kl. klokken | tlf. telefon | maks. maksimalt | tidl. tidligere
    f.kr. før kristus | e.kr. efter kristus
    skt. sankt | stk. styk | etc. et cetera | p.t. for tiden | pr. per | kap. kapitel
    """)
)
"""Those that are read in one way only; the dot is part of them, except of ``fx``."""

_UNITS: Final = """
    % procent: en procent | ‰: en promille | styk: et styk | km: en kilometer | m: en meter
    cm: en centimeter | mm: en millimeter | km²: en kvadratkilometer | m²: en kvadratmeter
    cm²: en kvadratcentimeter | m³: en kubikmeter | ha: en hektar
    km/t: en kilometer i timen | km/l: en kilometer per liter
    m/s: en meter i sekundet | kg: et kilo | g: et gram
    mg: et milligram | µg μg: et mikrogram | l: en liter | dl: en deciliter
    cl: en centiliter | ml: en milliliter | °C: en grad celsius, grader celsius
    °: en grad, grader | °F: en grad fahrenheit, grader fahrenheit
    ms: et millisekund, millisekunder | min.: et minut, minutter | sek.: et sekund, sekunder
    W: en watt | kW: en kilowatt | V: en volt | MW: en megawatt | GW: en gigawatt
    kWh: en kilowatttime, kilowatttimer | Hz: en hertz | kHz: en kilohertz
    MHz: en megahertz | GB: en gigabyte | MB: en megabyte | TB: en terabyte | dB: en decibel
    mio. mio: en million, millioner | mia. mia: en milliard, milliarder | €: en euro
    $: en dollar | £: et pund
"""


def _units() -> Iterator[tuple[str, tuple[str, str]]]:
    for item in _items(_UNITS):
        symbols, _, names = item.partition(": ")
        one, _, several = names.partition(", ")
        for symbol in symbols.split():
            yield symbol, (one, several or one.split(" ", 1)[1])


UNITS: Final[Mapping[str, tuple[str, str]]] = dict(_units())
"""Behind a number, in this case: what 1 of it is called, and what several are."""

MONTHS: Final = {
    name[:3]: name
    for name in (
        *("januar", "februar", "marts", "april", "maj", "juni", "juli", "august", "september"),
        *("oktober", "november", "december"),
    )
}
MONTH: Final = (
    r"(?P<month>jan|feb|mar|apr|maj|jun|jul|aug|sep|okt|nov|dec)"
    r"(?:r?uar|ts|il|i|ust|t(?:ember)?|ober|ember)?\b"
)
REGENTS: Final = (
    "Christian|Frederik|Margrethe|Valdemar|Erik|Knud|Harald|Olav|Haakon|Karl|Carl|Gustav|Gustaf|"
    "Louis|Ludvig|Henrik|George|Georg|Elizabeth|Wilhelm|Pius|Benedikt|Paul|Leo|Nikolaj|Katarina"
)
NEUTER: Final = (
    "år|barn|minut|sekund|kvartal|døgn|årti|århundrede|årtusinde|gram|kilo|ton|mål|point|sæt|hold|"
    "hus|kapitel|led|forsøg|par|bord|rum|værelse|sted|land|menneske|stykke|billede|brev|ord|tal|"
    "dyr|æg|æble|glas|medlem|mandat|spørgsmål|skridt|trin|skud|spil|møde|job|bind|afsnit|semester"
)
"""Common nouns of neuter gender, before which 1 is "et" and 2. is "andet"."""

COUNTED: Final = (
    "nummer|side|kapitel|afsnit|paragraf|klokken|linje|trin|bind|del|kanal|version|fase|gruppe|"
    "type|spor|plads|niveau|formel"
)
"""Words after which 1 is read "et"."""
