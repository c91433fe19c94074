"""What is said about the package in several places is said alike, and nothing is left out of it."""

import configparser
import fnmatch
import re
import sys

import pytest

import runner
from tests.docs import ROOT

CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
PACKAGE = ROOT / "runner"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if not line.startswith("#")]


def test_the_hard_dependencies_are_four() -> None:
    found = [re.split(r"[\[<>=]", line)[0] for line in lines(CONFIG["options"]["install_requires"])]
    assert found == ["click", "psycopg-pool", "psycopg", "rich"]


@pytest.mark.parametrize("extra", ["", *CONFIG["options.extras_require"]])
def test_every_dependency_has_two_bounds(extra: str) -> None:
    text = (
        CONFIG["options.extras_require"][extra] if extra else CONFIG["options"]["install_requires"]
    )
    for line in lines(text):
        if not line.startswith(CONFIG["metadata"]["name"]):  # one extra that contains another
            assert re.fullmatch(r"[\w-]+(\[\w+\])?>=[\d.]+,<[\d.]+", line), line


def test_the_lower_bounds_are_those_that_tox_tries() -> None:
    """Each as a full version: `8.1` is `8.1.0`."""
    tried = configparser.ConfigParser()
    tried.read(ROOT / "tox.ini")
    bounds = [
        line.split(",")[0].split(">=") for line in lines(CONFIG["options"]["install_requires"])
    ]
    pins = [f"{name}=={bound}{'.0' * (2 - bound.count('.'))}" for name, bound in bounds]
    assert lines(tried["testenv:lowest"]["deps"]) == pins


def test_the_version_is_said_once() -> None:
    assert CONFIG["metadata"]["version"] == "attr: runner._version.__version__"
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    said = [path.name for path, text in texts.items() if f'"{runner.__version__}"' in text]
    assert said == ["_version.py"]
    for name in ("setup.cfg", "pyproject.toml", "tox.ini"):
        assert runner.__version__ not in re.findall(r"\d+\.\d+\.\d+", (ROOT / name).read_text())


def test_the_pythons_are_the_same_everywhere() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", CONFIG["metadata"]["classifiers"])
    assert listed == PYTHONS
    assert CONFIG["options"]["python_requires"] == f">={PYTHONS[0]}"
    tox = re.findall(r"py\{([\d,]+)\}", (ROOT / "tox.ini").read_text("utf-8"))
    assert tox == [",".join(version.replace(".", "") for version in PYTHONS)]
    tried = re.findall(r"python(3\.\d+)", (ROOT / "scripts" / "venv.sh").read_text("utf-8"))
    assert sorted(set(tried)) == PYTHONS
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS


def test_every_file_of_the_package_is_packed() -> None:
    patterns = lines(CONFIG["options.package_data"]["runner"])
    names = [path.relative_to(ROOT / "runner").as_posix() for path in PACKAGE.rglob("*")
             if path.is_file() and path.suffix not in (".py", ".pyc")]  # fmt: skip
    assert "store/queries/claim.sql" in names
    assert [one for one in names if not any(fnmatch.fnmatch(one, each) for each in patterns)] == []


def test_the_schema_is_one_file() -> None:
    assert (ROOT / "runner" / "schema.sql").resolve() == ROOT / "schema.sql"


def test_the_changelog_is_kept() -> None:
    """A heading for what is not released, and below each version only the kinds that the form knows."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version), version
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds
