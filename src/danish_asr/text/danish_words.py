"""Words that profile ``danish`` knows: abbreviations, units, months, regents, nouns."""

import re
from collections.abc import Iterator, Mapping
from typing import Final


def _items(table: str) -> Iterator[tuple[str, str]]:
    """Yield each form before a ": " with what stands behind it."""
    for item in re.split("[|\n]", table):
        forms, _, words = item.strip().partition(": ")
        yield from ((form, words) for form in forms.split())


ABBREVIATIONS: Final[Mapping[str, str]] = dict(
    _items("""
    f.eks. fx: for eksempel | bl.a.: blandt andet | dvs d.v.s.: det vil sige
    osv o.s.v.: og så videre | m.m.: med mere | m.fl.: med flere | mv. m.v.: med videre
    o.l.: og lignende | lign.: lignende | e.l.: eller lignende | pga p.g.a.: på grund af
    pba p.b.a.: på baggrund af | mht m.h.t.: med hensyn til | mhp m.h.p.: med henblik på
    ifm i.f.m.: i forbindelse med | ift i.f.t.: i forhold til | iht i.h.t.: i henhold til
    vha v.h.a.: ved hjælp af | m.a.o.: med andre ord | f.o.m.: fra og med | t.o.m.: til og med
    mvh: med venlig hilsen | iflg: ifølge | jf. jvf.: jævnfør | vedr.: vedrørende
    ang.: angående | hhv: henholdsvis | evt: eventuelt | inkl incl.: inklusive
    ekskl excl.: eksklusive | ca.: cirka | omtr.: omtrent | nr.: nummer | pct.: procent
    kl.: klokken | tlf.: telefon | tlf.nr. tlfnr.: telefonnummer | reg.nr.: registreringsnummer
    maks.: maksimalt | tidl.: tidligere | nuv.: nuværende | fhv.: forhenværende
    vejl.: vejledende | tilsv.: tilsvarende | adm.: administrerende | dir.: direktør
    prof.: professor | afd.: afdeling | bd.: bind | fig.: figur | pkt.: punkt
    adr.: adresse | kbh.: københavn | kgs.: kongens | f.v.t.: før vor tidsregning
    f.kr.: før kristus | e.kr.: efter kristus | årh.: århundrede
    årg.: årgang | afsn.: afsnit | m.o.h.: meter over havet
    udg.: udgave | gns.: gennemsnit | d.d.: dags dato | p.a.: pro anno
    skt. sct.: sankt | stk.: styk | etc: et cetera | p.t.: for tiden | pr.: per | kap.: kapitel
    """)
)
"""Those that are read in one way only. A dot is part of a form; behind an inner dot there may be a
space, and then the last dot may be missing: ``f. eks``."""

_UNITS: Final = """
    %: en procent | ‰: en promille | stk. stk styk: et styk | km: en kilometer | m: en meter
    cm: en centimeter | mm: en millimeter | dm: en decimeter | µm μm: en mikrometer
    nm: en nanometer | km²: en kvadratkilometer | m²: en kvadratmeter | cm²: en kvadratcentimeter
    mm²: en kvadratmillimeter | m³: en kubikmeter | dm³: en kubikdecimeter
    cm³: en kubikcentimeter | ha: en hektar | km/t km/h: en kilometer i timen
    km/s: en kilometer i sekundet | km/l: en kilometer per liter | m/s: en meter i sekundet
    m/s²: en meter per sekund i anden | kg: et kilo | g gr.: et gram
    mg: et milligram | µg μg: et mikrogram | l: en liter | dl: en deciliter
    cl: en centiliter | ml: en milliliter | mmol: en millimol
    °C: en grad celsius, grader celsius
    °: en grad, grader | °F: en grad fahrenheit, grader fahrenheit
    ms: et millisekund, millisekunder | min. min: et minut, minutter | sek. sek: et sekund, sekunder
    t.: en time, timer | md. mdr. md mdr: en måned, måneder | pers.: en person, personer
    tsk. tsk: en teske, teskeer | spsk. spsk: en spiseske, spiseskeer | pk.: en pakke, pakker
    W: en watt | kW: en kilowatt | V: en volt | MW: en megawatt | GW: en gigawatt
    Wh: en watttime, watttimer | kWh: en kilowatttime, kilowatttimer
    MWh: en megawatttime, megawatttimer | GWh: en gigawatttime, gigawatttimer
    TWh: en terawatttime, terawatttimer | Ω: en ohm
    mAh: en milliamperetime, milliamperetimer | hPa: en hektopascal | kJ: en kilojoule
    kcal: en kilokalorie, kilokalorier | hk: en hestekraft, hestekræfter | Hz: en hertz
    kHz: en kilohertz | MHz: en megahertz | GHz: en gigahertz | kB KB: en kilobyte
    GB: en gigabyte | MB: en megabyte | TB: en terabyte | Mbit/s: en megabit per sekund
    dB: en decibel | mio. mio mill.: en million, millioner | mia. mia: en milliard, milliarder
    kr. kr DKK: en krone, kroner | tkr. tkr t.kr.: et tusind kroner, tusind kroner
    € EUR: en euro | $ USD US$: en dollar | £ GBP: et pund
    SEK: en svensk krone, svenske kroner | NOK: en norsk krone, norske kroner
"""


def _units() -> Iterator[tuple[str, tuple[str, str]]]:
    for symbol, names in _items(_UNITS):
        one, _, several = names.partition(", ")
        yield symbol, (one, several or one.split(" ", 1)[1])


UNITS: Final[Mapping[str, tuple[str, str]]] = dict(_units())
"""Behind a number, in this case: what 1 of it is called, and what several are."""

UNITS_ALONE: Final = r"km/[th]|[kc]?m²|c?m³|m/s|spsk\.|tsk\.|mi[oa]\."
WORDS_OF_UNITS: Final = "km|cm|kg|kWh|mdr"
"""Units that are read without a number too: ``hvor mange kg``; the words wherever they stand."""

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
WEEKDAYS: Final = {
    name[:2]: name
    for name in ("mandag", "tirsdag", "onsdag", "torsdag", "fredag", "lørdag", "søndag")
}
REGENTS: Final = (
    "Christian|Frederik|Margrethe|Valdemar|Erik|Knud|Harald|Olav|Haakon|Karl|Carl|Gustav|Gustaf|"
    "Louis|Ludvig|Henrik|George|Georg|Elizabeth|Wilhelm|Pius|Benedikt|Paul|Leo|Nikolaj|Katarina|"
    "Frans|Charles|Svend"
)
KIN: Final = (
    "far|mor|bror|søster|mand|kone|søn|datter|farfar|farmor|morfar|mormor|oldefar|oldemor|onkel|"
    "tante|faster|moster|fætter|kusine|familie|ven|veninde|kæreste|svigerfar|svigermor"
)
"""Behind "min", which is then no minute: "i 1945 min far"."""

PARTED: Final = r" (?:af|\w*liter|\w*meter|kilo|gram|sekund|minut|time|døgn|uge|måned|år)\b"
"""Behind "2/3", which is then no date."""

NEUTER: Final = (
    "år|barn|minut|sekund|kvartal|døgn|årti|århundrede|årtusinde|gram|kilo|ton|mål|point|sæt|hold|"
    "hus|kapitel|led|forsøg|par|bord|rum|værelse|sted|land|menneske|stykke|billede|brev|ord|tal|"
    "dyr|æg|æble|glas|medlem|mandat|spørgsmål|skridt|trin|skud|spil|møde|job|bind|afsnit|semester|"
    "styk|pund|kvarter|problem|eksempel|firma|selskab|parti|slag|skib|fly|tog|telt|træ|blad|stop|"
    "løb|ben|bud|træk|kontor|hotel|svar|nummer|lån|procentpoint|bad|liv|besøg|bryllup|kamera"
)
"""Common nouns of neuter gender, before which 1 is "et" and 2. is "andet"."""

ORDERED: Final = (
    "division|verdenskrig|klasse|sal|halvleg|runde|etape|sæson|plads|præmie|behandling|afdeling|"
    "mosebog|kongebog|samuelsbog|krønikebog|juledag|påskedag|pinsedag|søndag|etage|udgave|akt"
)
"""Nouns that have a number before them, also with a capital: ``1. Division``, ``3.klasse``."""

COUNTED: Final = (
    "nummer|side|kapitel|afsnit|paragraf|klokken|linje|trin|bind|del|kanal|version|fase|gruppe|"
    "type|spor|plads|niveau|formel|stykke|uge|dag|bus|sæson|runde|zone|bilag|figur|tabel|artikel|"
    "opgave|spørgsmål|punkt|lokale|perron|terminal|ring|rute|etape|episode|vers|bog|"
    r"\w+gade|\w*vej|\w*allé|\w+stræde|\w+boulevard"
)
"""Words after which 1 is read "et"."""

RESULTS: Final = (
    "vandt|vundet|vinder|tabte|tabt|taber|slog|slået|førte|fører|foran|bagud|sejrede|endte|"
    "stillingen|resultatet|uafgjort|nederlag|sejr|udlignede|reducerede|øgede"
)
"""Words after which "2-3" is the result of a match."""

NAMED: Final = "[Tt]elefon|[Mm]obil|CVR|CPR|EAN|ISBN|IBAN|(?:[Pp]in|[Aa]dgangs)?kode|Kode"
"""Words after which a number is a name, which is read digit by digit; so are other ``-nummer``."""
