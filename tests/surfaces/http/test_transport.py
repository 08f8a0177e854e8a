import ssl
import subprocess

import httpx
import pytest
from rest_parts import running

from treering.core.errors import InvalidInput
from treering.extensions.server.serving import Certificate, Transport, proxies_of
from treering.surfaces.cli import run


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """A certificate for this machine that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("pem")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    of = ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*made, *of, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl here that could make a certificate")
    return cert, key


def test_a_server_speaks_tls_with_the_certificate_it_was_given(tmp_path, pem):
    trusting = ssl.create_default_context(cafile=str(pem[0]))
    with running(tmp_path, Transport(Certificate.of(*pem)), trusting) as client:
        assert client.base_url.scheme == "https"
        own = str(client.base_url).rstrip("/")
        assert client.get("/health", headers={"Origin": own}).status_code == 200
        assert client.get("/health", headers={"Origin": own.replace("https", "http")}).status_code == 403
        with pytest.raises(httpx.HTTPError):
            httpx.get(own.replace("https", "http") + "/health", trust_env=False)
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(own + "/health", trust_env=False)


def test_files_that_are_no_certificate_and_its_key_are_refused(tmp_path, pem, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cert, key = map(str, pem)
    (tmp_path / "text.pem").write_text("no key")
    for files in ((cert, "missing.pem"), (cert, "text.pem"), (key, cert), ("text.pem", key)):
        assert run(["serve", "--port", "0", "--tls-cert", files[0], "--tls-key", files[1]]) == 2
    assert run(["serve", "--port", "0", "--tls-cert", cert]) == 2
    assert "--tls-key" in capsys.readouterr().err


FORWARDED = {"X-Forwarded-Proto": "https", "Host": "127.0.0.1", "Origin": "https://127.0.0.1"}


def test_a_proxy_that_is_named_says_how_it_was_asked(tmp_path):
    with running(tmp_path, Transport(proxies=proxies_of(["127.0.0.1"]))) as client:
        assert client.get("/health", headers=FORWARDED).status_code == 200


@pytest.mark.parametrize("named", [(), ("10.0.0.0/24",)])
def test_nobody_else_says_how_it_was_asked(tmp_path, named):
    with running(tmp_path, Transport(proxies=proxies_of(named))) as client:
        assert client.get("/health", headers=FORWARDED).status_code == 403


@pytest.mark.parametrize("named", ["*", "0.0.0.0/0", "::/0", "proxy.example.org", "10.0.0.1/33", ""])
def test_who_is_trusted_as_a_proxy_is_named_exactly(named):
    with pytest.raises(InvalidInput, match="--behind-proxy"):
        proxies_of([named])


def test_a_server_behind_a_proxy_needs_keys(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["serve", "--port", "0", "--behind-proxy", "127.0.0.1"]) == 2
    assert "treering key create" in capsys.readouterr().err
