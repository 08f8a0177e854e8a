"""What `deploy` has for those who run a server: checked as far as that goes without a container engine."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import yaml
from typer.main import get_command

import treering
from treering.core.errors import NotFound
from treering.spaces.wiring import open_access_keys
from treering.surfaces.cli.commands import command_line
from treering.system.address import parse_address

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICE = DEPLOY / "treering.service"
SECRETS = {"ADMIN_PASSWORD": "admin", "TREERING_PASSWORD": "it's $secret"}


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def unit_value(name):
    return re.findall(rf"^{name}=(.*)$", SERVICE.read_text(encoding="utf-8"), re.MULTILINE)


def containerfile(word):
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(rf"^{word} (.*)$", text, re.MULTILINE)


def commands():
    """Return the command lines that start a server, without the program."""
    return {
        "unit": shlex.split(unit_value("ExecStart")[0])[1:],
        "image": yaml.safe_load(containerfile("CMD")[-1]),
        "compose": compose()["services"]["treering"]["command"],
    }


@pytest.mark.parametrize("where", commands())
def test_server_start_command_is_valid(where):
    name, *arguments = commands()[where]
    command = get_command(command_line()).commands[name]
    with command.make_context(name, arguments, resilient_parsing=False) as context:
        assert context.params["host"] == "0.0.0.0"


def test_the_image_installs_extras_that_there_are_and_copies_what_there_is():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    (asked,) = re.findall(r"'\.\[(.*?)\]'", "\n".join(containerfile("RUN")))
    assert set(asked.split(",")) <= extras
    copied = [name for line in containerfile("COPY") if "--from" not in line for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert "src" in copied


def test_the_settings_that_are_given_are_settings_that_there_are():
    given = " ".join(containerfile("ENV")) + " ".join(unit_value("Environment"))
    given += " ".join(compose()["services"]["treering"]["environment"])
    known = set(re.findall(r"`(TREERING_[A-Z_]+)`", (ROOT / "docs/reference/settings.md").read_text()))
    assert set(re.findall(r"TREERING_[A-Z_]+", given)) == {"TREERING_DATA_DIR", "TREERING_SPACE"} <= known


def test_whoever_stops_a_server_waits_longer_than_it_takes_to_stop():
    with get_command(command_line()).commands["serve"].make_context("serve", []) as context:
        takes = context.params["stopping"] + 10
    assert int(unit_value("TimeoutStopSec")[0]) > takes
    assert int(compose()["services"]["treering"]["stop_grace_period"].removesuffix("s")) > takes


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path):
    units = [tmp_path / unit.name for unit in (SERVICE, SERVICE.with_suffix(".socket"))]
    for unit in units:
        unit.write_text((DEPLOY / unit.name).read_text().replace("/opt/treering/bin/treering", sys.executable))
    checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_takes_the_file_and_needs_both_passwords():
    def config(**secrets):
        return subprocess.run(
            ["docker-compose", "--file", DEPLOY / "compose.yaml", "config", "--quiet"],
            env={"PATH": os.environ["PATH"], **secrets},
            capture_output=True,
            text=True,
            check=False,
        )

    assert config(**SECRETS).returncode == 0
    for name in SECRETS:
        told = config(**{other: value for other, value in SECRETS.items() if other != name})
        assert told.returncode != 0
        assert "set a password" in told.stderr


@pytest.fixture
def made_role(server):
    """Run the script of the database's image; the role and its database are gone afterwards."""
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("psql is not installed")
    environment = {"PATH": os.environ["PATH"], "PGHOST": str(server.folder), "POSTGRES_USER": "postgres", **SECRETS}
    subprocess.run([DEPLOY / "make-role.sh"], env=environment, check=True, capture_output=True)
    yield
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE treering WITH (FORCE)")
        connection.execute("DROP ROLE treering")


@pytest.mark.usefixtures("made_role")
def test_the_role_that_compose_makes_owns_what_the_server_needs(server, tmp_path):
    services = compose()["services"]["treering"]
    places = [services["environment"]["TREERING_SPACE"], services["command"][-1]]
    for place in places:
        address = place.replace("@database/treering?", f"@/treering?host={server.folder}&")
        with treering.open(address, background=False) as space:
            assert space.query("recent").status == "empty"
        keys = parse_address(address, named=tmp_path)
        with closing(open_access_keys(keys, create=True)) as kept:
            assert list(kept.all()) == []

    with psycopg.connect(server.url("treering", "postgres")) as connection:
        said = connection.execute("SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'treering'").fetchone()
    assert said == (False, False)


@pytest.mark.nightly
def test_a_server_that_is_started_as_the_image_starts_it_asks_for_a_key_first(tmp_path):
    environment = {"PATH": os.environ["PATH"], "TREERING_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "treering", *commands()["image"], "--port", "0"]
    told = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "treering key create" in told.stderr
    with pytest.raises(NotFound):
        open_access_keys(parse_address(f"sqlite:{tmp_path / 'keys.db'}", named=tmp_path), create=False)
