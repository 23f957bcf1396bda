"""Rows of tables in each of their forms."""

import gzip
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import is_audio
from danish_asr.base.tables import (
    class_name,
    class_names,
    code_page_hint,
    printable,
    read_lines,
    read_rows,
    read_valid_rows,
    suffix_of,
)

ROWS = [{"id": "1", "text": "ja"}, {"id": "2", "text": "nej, tak"}]


def rows_of(folder: Path, name: str, content: bytes) -> list[tuple[int, dict[str, Any] | None]]:
    """The rows of a file, each with its line."""
    (folder / name).write_bytes(content)
    return [(row.line, row.values) for row in read_rows(folder / name, SourceError)]


JSON = b'{"id": "1", "text": "ja"}\n\n{"id": "2", "text": "nej, tak"}\n'


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.jsonl", JSON, [1, 3]),
        ("a.JSONL.gz", gzip.compress(JSON, mtime=0), [1, 3]),
        ("a.json", b'\n [ {"id": "1", "text": "ja"}, {"id": "2", "text": "nej, tak"}]', [1, 2]),
        (
            "a.json",
            b'\xef\xbb\xbf[{"id": "1", "text": "ja"},{"id": "2", "text": "nej, tak"}]',
            [1, 2],
        ),
        ("a.csv", b'\xef\xbb\xbfid, text\n1,ja\n\n2,"nej, tak"\n', [2, 4]),
        ("a.csv", b"id;text\n1;ja\n2;nej, tak\n", [2, 3]),
        ("a.csv", b"\xef\xbb\xbfsep=;\r\nid;text\r\n1;ja\r\n2;nej, tak\r\n", [3, 4]),
        ("a.csv", b'"sep=|"\n\nid|text\n1|ja\n2|nej, tak\n', [4, 5]),
        ("a.csv", b"\n ;;\nid;text\n1;ja\n;;\n \n2;nej, tak;;\n;\n", [4, 7]),
        ("a.tsv", b"\r\nid\ttext\r\n\t\r\n1\tja\r\n2\tnej, tak\t\r\n", [4, 5]),
        ("a.csv", b"id\ttext\n1\tja\n2\tnej, tak\n", [2, 3]),
        ("a.csv", b"id;text\r1;ja\r2;nej, tak\r", [2, 3]),
        ("a.tsv", b"id\ttext\r1\tja\r\r2\tnej, tak\r", [2, 4]),
        ("a.tsv.gz", gzip.compress(b"id\ttext\n1\tja\n2\tnej, tak\n", mtime=0), [2, 3]),
        ("a.trn", b";; a comment\nja (1)\n\nnej, tak (2)\n", [2, 4]),
    ],
)
def test_rows_are_read_with_their_lines(
    tmp_path: Path, name: str, content: bytes, lines: list[int]
) -> None:
    assert rows_of(tmp_path, name, content) == [*zip(lines, ROWS, strict=True)]
    tabs = b"a,b;c,d\ttext\n1\tja\n"
    assert rows_of(tmp_path, "b.tsv", tabs) == [(2, {"a,b;c,d": "1", "text": "ja"})]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"han sagde ""ja"", og gik"', 'han sagde "ja", og gik'),
        ('"""ja"""', '"ja"'),
        *((text, text) for text in ('"ja, tak"', '"ja" og ""nej""', '""', 'et ""ord""')),
    ],
)
def test_of_a_tsv_only_quotes_that_excel_doubled_are_no_text(
    tmp_path: Path, written: str, text: str
) -> None:
    content = f"id\ttext\n1\t{written}\n".encode()
    assert rows_of(tmp_path, "a.tsv", content) == [(2, {"id": "1", "text": text})]


def test_a_malformed_line_of_json_spoils_no_other(tmp_path: Path) -> None:
    """Also one that is two objects: the lines are parsed together."""
    good = [f'{{"id": {number}}}' for number in range(2_500)]
    wrong = {3: '{"id": 1}, {"id": 2}', 1_700: "{", 2_100: r'{"id": "\ud83d"}', 2_400: "[7]"}
    lines = [wrong.get(number, line) for number, line in enumerate(good)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    rows = [*read_rows(tmp_path / "a.jsonl", SourceError)]
    assert [row.line for row in rows] == [*range(1, 2_501)]
    assert [number for number, row in enumerate(rows) if row.values is None] == [*wrong]
    assert rows[2_499].values == {"id": 2_499}


def test_of_parquet_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.pq"
    pq.write_table(pa.Table.from_pylist(ROWS), file)
    assert [*read_valid_rows(file, SourceError)] == [*enumerate(ROWS, 1)]
    rows = read_valid_rows(file, SourceError, columns=["id"])
    assert [*rows] == [(1, {"id": "1"}), (2, {"id": "2"})]


def test_a_text_of_parquet_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    half = pa.array([b"\xed\xa0\x80"], pa.binary()).buffers()
    table = pa.table({"id": pa.Array.from_buffers(pa.string(), 1, half)})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: cannot be read as Parquet"):
        list(read_rows(tmp_path / "a.parquet", SourceError))


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.jsonl", b'{"id": 1}\n{"id": \n', 2),
        ("a.jsonl", b'{"id": 1}\n\n[1]\n', 3),
        ("a.jsonl", b'{"id": 1}\n{"id": "\xe5"}\n', 2),
        ("a.jsonl", rb'{"id": "\uD83d\ude00"}' + b"\n" + rb'{"id": "\ud83d"}', 2),
        ("a.jsonl", b'{"id": 1}\n{"id": ' + b"[" * 100_000, 2),
        ("a.json", rb'[{"id": "\uD83d\ude00"}, {"id": ["\ude00"]}]', 2),
        ("a.csv", b"id,text\n1,a\n2,a,b\n", 3),
        ("a.trn", b"ja (1)\nja\n", 2),
        ("a.trn", b"ja (1)\n{ja / nej} (2)\n", 2),
    ],
)
def test_a_malformed_row_has_its_line_and_the_others_are_read(
    tmp_path: Path, name: str, content: bytes, line: int
) -> None:
    (good, _), (bad, values) = rows_of(tmp_path, name, content)
    assert (good, bad, values) == (line - 1 - (b"\n\n" in content) if line > 2 else 1, line, None)
    with pytest.raises(SourceError, match=f"{name}:{line}"):
        list(read_valid_rows(tmp_path / name, SourceError))


def test_a_short_row_of_csv_is_filled_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;text;age\n1;ja\n2\n")
    (tmp_path / "a.tsv").write_text("id\ttext\n1\n")
    rows = read_rows(tmp_path / "a.csv", SourceError, is_file=is_audio)
    assert [row.values for row in rows] == [
        {"id": "1", "text": "ja", "age": ""},
        {"id": "2", "text": "", "age": ""},
    ]
    assert [row.values for row in read_rows(tmp_path / "a.csv", SourceError)] == [None, None]
    rows = read_rows(tmp_path / "a.tsv", SourceError, is_file=is_audio)
    assert [row.values for row in rows] == [None]


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        ("file;text;age\na.wav;ja\nb.wav;god\ndag;2\nc.wav;nej\n", "a.wav", "c.wav"),
        ("file;age;text\na.wav;1;ja\nb b.wav;2;3.000\ndag\nc.wav;3;nej\n", "a.wav", "c.wav"),
        ("age;text;file\n1;ja;a.wav\n2;god\ndag;b.wav\n3;nej;c.wav\n", "a.wav", "c.wav"),
        # The text that was cut has delimiters.
        ("file;text;age\na.wav;ja;1\nb.wav;god\nd;a;g\nc.wav;nej;3\n", "a.wav", "c.wav"),
        ("age;file;text\n1;a.wav;ja\n2;b.wav;god\nd; a; g\n3;c.wav;nej\n", "a.wav", "c.wav"),
        ("age;text;file\n1;ja;a.wav\n2;god\nd;ag;b.wav\n3;nej;c.wav\n", "a.wav", "c.wav"),
        # A short row may be of either neighbour.
        ("age;file;text\n1;a.wav;ja\n2;b.wav;god\ndag\n3;c.wav;nej\n", "a.wav", None),
        ("text;file;age\nja;a.wav;1\ngod\ndag;b.wav;2\nnej;c.wav\n", None, "c.wav"),
    ],
)
def test_both_parts_of_a_row_that_a_line_break_cut_are_malformed(
    rows: str, first: str | None, last: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(rows)
    read = read_rows(tmp_path / "a.csv", SourceError, is_file=is_audio)
    assert [row.values and row.values["file"] for row in read] == [first, None, None, last]


@pytest.mark.parametrize(
    "rows",
    [
        "file;text;age\na.wav;ja;1\n;nej;2\n",  # no recording
        "age;file;text\n1;a.wav;ja\n2;0002;nej\n",  # a name without its ending
        "file;text;age\na.wav;ja\nb.wav;nej;2\n",
        "file;text;age\n1;se google.com;1\n2;ja tak;2\n",
        "file;text;age\n1;ja tak;1\n2;se google.com;2\n",
    ],
)
def test_a_row_without_a_file_of_its_own_is_no_part_of_another(rows: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(rows)
    read = read_rows(tmp_path / "a.csv", SourceError, is_file=is_audio)
    assert None not in [row.values for row in read]


@pytest.mark.parametrize("name", ["a b.csv", "a.csv.gz"])
def test_a_table_in_a_code_page_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, name: str
) -> None:
    content = "id;text\n" + "1;ja\n" * 9 + "2;på Ærø\n3;rød grød\n4;Åse\n"
    data = content.encode("cp850")
    data = gzip.compress(data) if name.endswith(".gz") else data
    with pytest.raises(SourceError) as error:
        rows_of(tmp_path, name, data)
    message = str(error.value)
    assert f"{name}:11: " in message
    assert "'2;på Ærø', '3;rød grød', '4;Åse'" in message
    subprocess.run(["bash", "-c", message.partition("right: ")[2]], check=True)
    assert (tmp_path / name.removesuffix(".gz")).read_text() == content
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".CP850", ".csv"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"id,id\n1,2\n"),
        ("a.csv", b"\xff\xfei\0d\0"),
        ("a.csv", b'id,text\n1,"a" b\n'),
        ("a.csv", b'id,text\n1,"a\nb.wav,c\n2,b"\n'),
        ("a.csv", b'"id" x,text\n1,a\n'),
        ("a.csv", b"PK\x03\x04"),
        ("a.json", b'[{"id": 1},'),
        ("a.jsonl.gz", gzip.compress(JSON, mtime=0)[:-9]),
        ("a.parquet", b"PAR1"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes
) -> None:
    with pytest.raises(SourceError, match=name):
        rows_of(tmp_path, name, content)


def test_a_name_in_trn_has_the_speaker_before_its_first_hyphen_or_underscore(
    tmp_path: Path,
) -> None:
    content = "ja (a%2Db-1_2)\n（ja） (a_b-1)\n(c-1)\n".encode()
    assert [values for _, values in rows_of(tmp_path, "a.trn", content)] == [
        {"id": "a-b-1_2", "text": "ja", "speaker_id": "a-b"},
        {"id": "a_b-1", "text": "(ja)", "speaker_id": "a"},
        {"id": "c-1", "text": "", "speaker_id": "c"},
    ]


def test_lines_are_text_and_a_suffix_is_that_before_gz(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("å\nø".encode())
    assert [*read_lines(tmp_path / "a.txt", SourceError)] == ["å\n", "ø"]
    for content, coding in ((b"\xff\xfei\0", "UTF-16"), (b"\xe5", "CP1252")):
        (tmp_path / "a.txt").write_bytes(b"a\n" + content)
        with pytest.raises(SourceError, match=rf"a\.txt:2: .*-f {coding} "):
            list(read_lines(tmp_path / "a.txt", SourceError))
    assert [suffix_of(Path(name)) for name in ("A.CSV", "a.tsv.GZ", "a")] == [".csv", ".tsv", ""]


DANISH = "rødgrød\nmed fløde\nja\npå Ærø — «så»\nÅse"


@pytest.mark.parametrize(
    ("codec", "page"),
    [("cp1252", "CP1252"), ("mac_roman", "MACINTOSH"), ("cp850", "CP850"), ("utf-16", "UTF-16")],
)
def test_the_code_page_with_the_most_danish_letters_is_advised(codec: str, page: str) -> None:
    data = DANISH.replace("—", "-").encode(codec)
    hint = code_page_hint(data)
    assert f"{page} 8" in hint
    assert "'rødgrød', 'med fløde', 'på Ærø - «så»'. " in hint
    assert hint.endswith(f"iconv -f {page} -t UTF-8 FILE > NEW")
    assert code_page_hint(b"x", data, command=str.lower).endswith(f": {page.lower()}")


def test_a_class_has_its_name_and_none_has_none() -> None:
    features = b'{"info": {"features": {"g": {"_type": "ClassLabel", "names": ["f", "m"]}, '
    features += b'"x": {"_type": "Value"}, "y": [1]}}}'
    names = class_names({b"huggingface": features})
    assert names == {"g": ["f", "m"]}
    assert [class_name(names["g"], value) for value in (0, 1, -1, 2, None)] == [
        *("f", "m", None, None, None)
    ]
    assert class_names({}) == {}
    assert printable("å\x1b[1m") == "å\\x1b[1m"


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (
            "taler;fil;tekst",
            ['Anna H;0.wav;"nu er', "Anna H;1.wav;det", 'Bo;2.wav;ja"', "Bo;3.wav;nej"],
        ),
        (
            "tekst;taler;fil",
            ['"nu er;Anna H;0.wav', "det;Anna H;1.wav", 'ja";Bo;2.wav', "nej;Bo;3.wav"],
        ),
        ("fil;tekst", ['0.wav;"nu er', "1.wav;det", '2.wav;ja"', "3.wav;nej"]),
        ("id,reference,hypothesis", ['1,ja det er,"ja', "2,nej,nej", '3,hej,hej"', "4,vi,vi"]),
    ],
)
def test_a_quote_that_nobody_closed_in_its_row_swallows_no_other_row(
    tmp_path: Path, header: str, rows: list[str]
) -> None:
    file = tmp_path / "table.csv"
    file.write_text("\n".join([header, *rows]))
    with pytest.raises(SourceError, match=r"table\.csv:2: .*like a row"):
        [*read_rows(file, SourceError)]


def test_a_text_of_several_lines_in_quotes_is_one_row(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text('path,text\na.wav,"ja, det er\nnej, nej, nej"\nb.wav,ja\n')
    texts = [row.values["text"] for row in read_rows(file, SourceError) if row.values]
    assert texts == ["ja, det er\nnej, nej, nej", "ja"]
