"""Countries of birth in any spelling to codes.

The codes are those of ISO 3166-1, the names the Danish and English ones of CLDR (of most countries
with more than a million people) and other common ones. ``NA`` is missing: tables write it
for "not available" more often than for Namibia.
"""

from typing import Final

DENMARK: Final = "DK"

_CODES: Final = """
ADAND AEARE AFAFG AGATG AIAIA ALALB AMARM AOAGO AQATA ARARG ASASM ATAUT AUAUS AWABW AXALA AZAZE
BABIH BBBRB BDBGD BEBEL BFBFA BGBGR BHBHR BIBDI BJBEN BLBLM BMBMU BNBRN BOBOL BQBES BRBRA BSBHS
BTBTN BVBVT BWBWA BYBLR BZBLZ CACAN CCCCK CDCOD CFCAF CGCOG CHCHE CICIV CKCOK CLCHL CMCMR CNCHN
COCOL CRCRI CUCUB CVCPV CWCUW CXCXR CYCYP CZCZE DEDEU DJDJI DKDNK DMDMA DODOM DZDZA ECECU EEEST
EGEGY EHESH ERERI ESESP ETETH FIFIN FJFJI FKFLK FMFSM FOFRO FRFRA GAGAB GBGBR GDGRD GEGEO GFGUF
GGGGY GHGHA GIGIB GLGRL GMGMB GNGIN GPGLP GQGNQ GRGRC GSSGS GTGTM GUGUM GWGNB GYGUY HKHKG HMHMD
HNHND HRHRV HTHTI HUHUN IDIDN IEIRL ILISR IMIMN ININD IOIOT IQIRQ IRIRN ISISL ITITA JEJEY JMJAM
JOJOR JPJPN KEKEN KGKGZ KHKHM KIKIR KMCOM KNKNA KPPRK KRKOR KWKWT KYCYM KZKAZ LALAO LBLBN LCLCA
LILIE LKLKA LRLBR LSLSO LTLTU LULUX LVLVA LYLBY MAMAR MCMCO MDMDA MEMNE MFMAF MGMDG MHMHL MKMKD
MLMLI MMMMR MNMNG MOMAC MPMNP MQMTQ MRMRT MSMSR MTMLT MUMUS MVMDV MWMWI MXMEX MYMYS MZMOZ NCNCL
NENER NFNFK NGNGA NINIC NLNLD NONOR NPNPL NRNRU NUNIU NZNZL OMOMN PAPAN PEPER PFPYF PGPNG PHPHL
PKPAK PLPOL PMSPM PNPCN PRPRI PSPSE PTPRT PWPLW PYPRY QAQAT REREU ROROU RSSRB RURUS RWRWA SASAU
SBSLB SCSYC SDSDN SESWE SGSGP SHSHN SISVN SJSJM SKSVK SLSLE SMSMR SNSEN SOSOM SRSUR SSSSD STSTP
SVSLV SXSXM SYSYR SZSWZ TCTCA TDTCD TFATF TGTGO THTHA TJTJK TKTKL TLTLS TMTKM TNTUN TOTON TRTUR
TTTTO TVTUV TWTWN TZTZA UAUKR UGUGA UMUMI USUSA UYURY UZUZB VAVAT VCVCT VEVEN VGVGB VIVIR VNVNM
VUVUT WFWLF WSWSM YEYEM YTMYT ZAZAF ZMZMB ZWZWE
"""
"""alpha-2 and alpha-3 codes"""

_NAMES: Final = """
AD Andorra; AE De Forenede Arabiske Emirater, United Arab Emirates, UAE; AF Afghanistan; AL
Albanien, Albania; AM Armenien, Armenia; AO Angola; AR Argentina; AT Østrig, Austria; AU
Australien, Australia; AZ Aserbajdsjan, Azerbaijan; BA Bosnien-Hercegovina, Bosnia & Herzegovina,
Bosnien, Bosnia; BD Bangladesh; BE Belgien, Belgium; BF Burkina Faso; BG Bulgarien, Bulgaria; BH
Bahrain; BI Burundi; BJ Benin; BO Bolivia; BR Brasilien, Brazil; BT Bhutan; BW Botswana; BY
Belarus, Hviderusland; CA Canada; CH Schweiz, Switzerland; CI Elfenbenskysten, Côte d'Ivoire; CL
Chile; CM Cameroun, Cameroon; CN Kina, China; CO Colombia; CR Costa Rica; CU Cuba; CV Kap Verde,
Cape Verde, Cabo Verde; CY Cypern, Cyprus; CZ Tjekkiet, Czechia, Czech Republic; DE Tyskland,
Germany; DJ Djibouti; DK Danmark, Denmark, Kongeriget Danmark, Kingdom of Denmark, Dansk, Danish,
da, dan, Dänemark, Danemark, Dinamarca; DO Den Dominikanske Republik, Dominican Republic; DZ
Algeriet, Algeria; EC Ecuador; EE Estland, Estonia; EG Egypten, Egypt; ER Eritrea; ES Spanien,
Spain; ET Etiopien, Ethiopia; FI Finland; FJ Fiji; FO Færøerne, Faroe Islands; FR Frankrig, France;
GA Gabon; GB Storbritannien, United Kingdom, Great Britain, UK, England, Skotland, Scotland, Wales,
Nordirland, Northern Ireland; GE Georgien, Georgia; GH Ghana; GL Grønland, Greenland; GM Gambia; GN
Guinea; GR Grækenland, Greece; GT Guatemala; GW Guinea-Bissau; HN Honduras; HR Kroatien, Croatia;
HT Haiti; HU Ungarn, Hungary; ID Indonesien, Indonesia; IE Irland, Ireland; IL Israel; IN Indien,
India; IQ Irak, Iraq; IR Iran; IS Island, Iceland; IT Italien, Italy; JM Jamaica; JO Jordan; JP
Japan; KE Kenya; KG Kirgisistan, Kyrgyzstan; KH Cambodja, Cambodia; KP Nordkorea, North Korea; KR
Sydkorea, South Korea, Korea; KW Kuwait; KZ Kasakhstan, Kazakhstan; LA Laos; LB Libanon, Lebanon;
LK Sri Lanka; LR Liberia; LS Lesotho; LT Litauen, Lithuania; LU Luxembourg; LV Letland, Latvia; LY
Libyen, Libya; MA Marokko, Morocco; MC Monaco; MD Moldova; ME Montenegro; MG Madagaskar,
Madagascar; MK Nordmakedonien, North Macedonia, Makedonien, Macedonia; ML Mali; MM Myanmar, Burma;
MN Mongoliet, Mongolia; MR Mauretanien, Mauritania; MT Malta; MU Mauritius; MV Maldiverne,
Maldives; MW Malawi; MX Mexico; MY Malaysia; MZ Mozambique; NA Namibia; NE Niger; NG Nigeria; NI
Nicaragua; NL Nederlandene, Netherlands, Holland, The Netherlands; NO Norge, Norway; NP Nepal; NZ
New Zealand; OM Oman; PA Panama; PE Peru; PH Filippinerne, Philippines; PK Pakistan; PL Polen,
Poland; PS De palæstinensiske områder, Palestinian Territories, Palæstina, Palestine; PT Portugal;
PY Paraguay; QA Qatar; RO Rumænien, Romania; RS Serbien, Serbia; RU Rusland, Russia, Russian
Federation; RW Rwanda; SA Saudi-Arabien, Saudi Arabia; SD Sudan; SE Sverige, Sweden; SG Singapore;
SI Slovenien, Slovenia; SK Slovakiet, Slovakia; SL Sierra Leone; SN Senegal; SO Somalia; SS
Sydsudan, South Sudan; SV El Salvador; SY Syrien, Syria; SZ Eswatini; TD Tchad, Chad; TG Togo; TH
Thailand; TJ Tadsjikistan, Tajikistan; TM Turkmenistan; TN Tunesien, Tunisia; TR Tyrkiet, Türkiye,
Turkey; TT Trinidad og Tobago, Trinidad & Tobago; TW Taiwan; TZ Tanzania; UA Ukraine; UG Uganda; US
USA, United States, United States of America, Amerika, America; UY Uruguay; UZ Usbekistan,
Uzbekistan; VE Venezuela; VN Vietnam, Viet Nam; XK Kosovo; YE Yemen; ZA Sydafrika, South Africa; ZM
Zambia; ZW Zimbabwe
"""
"""alpha-2 codes, and names"""

_CODE_OF: Final = {
    spelling.casefold(): code
    for code, spellings in (
        *((pair[:2], [pair[:2], pair[2:]]) for pair in _CODES.split()),
        *((entry[:2], entry[3:].split(", ")) for entry in " ".join(_NAMES.split()).split("; ")),
    )
    for spelling in spellings
}


def country_code(country: str | None) -> str | None:
    """The ISO 3166-1 alpha-2 code of a country's code or name; None for any other text."""
    return _CODE_OF.get(" ".join((country or "").casefold().split()))
