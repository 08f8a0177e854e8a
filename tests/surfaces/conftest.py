from pathlib import Path

import pytest
from cli_stage import Stage


@pytest.fixture
def stage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Stage:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("TREERING_SPACE", "TREERING_ANCHOR", "TREERING_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TREERING_ACTOR", "ada")
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    return Stage(folder, capsys, monkeypatch)
