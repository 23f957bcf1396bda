"""Which requests the server answers: by the site, by the size, with or without a length."""

import re
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.inference.guard import allowed_names
from tests.served import make_app, refused, send, serving

FOREIGN = [
    ({"Origin": "http://evil.example"}, 403),
    ({"Host": "evil.example"}, 403),
    ({"Host": "127.0.0.1.evil.org"}, 403),
    ({"Host": "["}, 400),
    ({"Host": ""}, 400),
]


@pytest.mark.parametrize(("headers", "status"), FOREIGN)
def test_pages_of_other_sites_are_refused(
    address: str, headers: dict[str, str], status: int
) -> None:
    assert refused(address, headers=headers)[0] == status
    with pytest.raises(HTTPError, match=str(status)):
        urlopen(Request(address, headers=headers))  # noqa: S310


def test_names_and_origins_that_were_allowed_are_answered() -> None:
    hosts, origin = allowed_names(["Asr.Local:8000"]), "app://notes.example"
    with serving(make_app(hosts=hosts, origins=[origin])) as address:
        assert send(address, headers={"Host": "asr.local"})
        assert send(address, headers={"Host": "asr.local", "Origin": "https://asr.local"})
        request = Request(f"{address}v1/models", headers={"Origin": origin})  # noqa: S310
        with urlopen(request) as response:  # noqa: S310
            assert response.headers["Access-Control-Allow-Origin"] == origin
        assert refused(address, headers={"Origin": "app://other.example"})[0] == 403
    with pytest.raises(ConfigError, match="--allow-host"):
        allowed_names(["["])


@pytest.mark.parametrize("kind", ["audio/wav", "multipart/form-data"])
def test_a_client_that_sends_no_form_reads_why(kind: str) -> None:
    """A connection that is closed before it has sent all would be broken for it."""
    with serving(make_app(max_mb=20)) as address:
        code, message = refused(address, audio=bytes(10_000_000), headers={"Content-Type": kind})
    assert (code, re.search("file|boundary", message) is not None) == (400, True)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_file_of_the_largest_size_is_the_largest(address: str, *, chunked: bool) -> None:
    assert send(address, audio=b"RIFF" + bytes(1_000_000 - 4), chunked=chunked)
    status, message = refused(address, audio=bytes(1_011_000), chunked=chunked)
    assert (status, "--max-mb" in message) == (413, True)
