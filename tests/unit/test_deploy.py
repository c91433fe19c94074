"""The files under deploy/: they parse, their commands are ours, and their times fit together."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import jsonschema
import kubernetes_validate
import pytest
import yaml

from runner.cli.root import root
from runner.cli.settings import Settings
from runner.config import FleetConfig
from runner.supervisor.staff import LAST_WORDS_SECONDS
from runner.units import parse_duration

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("runner*"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}


def having(required: dict[str, Any], **others: Any) -> dict[str, Any]:
    """An object with these fields and no more."""
    fields = {"type": "object", "properties": required | others, "additionalProperties": False}
    return fields | {"required": list(required)}


TRIGGER = having(
    {
        "type": {"const": "postgresql"},
        "metadata": having(
            {"query": TEXT, "targetQueryValue": TEXT},
            connectionFromEnv=TEXT,
            activationTargetQueryValue=TEXT,
        ),
    },
    name=TEXT,
    metricType={"enum": ["AverageValue", "Value"]},
)
REPLICAS = {f"{which}ReplicaCount": NUMBER for which in ("min", "max", "idle")}
SPEC = having(
    {
        "scaleTargetRef": having({"name": TEXT}, kind=TEXT, apiVersion=TEXT),
        "triggers": {"type": "array", "items": TRIGGER},
    },
    pollingInterval=NUMBER,
    cooldownPeriod=NUMBER,
    **REPLICAS,
)
SCALED_OBJECT = having(
    {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object"},
        "spec": SPEC,
    }
)


def unit(name: str) -> dict[str, str]:
    """The settings of a unit, whatever their section."""
    text = (DEPLOY / "systemd" / name).read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())
    return found


def options(words: list[str]) -> dict[str, Any]:
    """The options of a command of ours, parsed as we parse them."""
    settings = Settings()
    with root.make_context("runner", list(words), obj=settings) as context:
        verb, command, rest = root.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert command is not None
        with command.make_context(verb, rest, parent=context) as inner:
            return inner.params


def least_stop_seconds(grace: float) -> float:
    """The grace, the kill after it, and giving back what is left."""
    return grace + FleetConfig("", "app").kill_grace + LAST_WORDS_SECONDS


def pod(name: str) -> dict[str, Any]:
    spec = manifest(name)["spec"]
    if name == "cronjob":
        spec = spec["jobTemplate"]["spec"]
    found: dict[str, Any] = spec["template"]["spec"]
    return found


def test_the_fleet_as_a_service() -> None:
    service = unit("runner.service")
    given = options(shlex.split(service["ExecStart"])[1:])
    assert float(service["TimeoutStopSec"]) > least_stop_seconds(given["grace"])
    started = given["connect_wait"] + given["boot_timeout"]
    assert float(service["TimeoutStartSec"]) > started
    assert (service["Type"], service["KillMode"]) == ("notify", "mixed")
    assert (service["Restart"], service["RestartSec"]) == ("on-failure", "3s")
    assert service["RestartPreventExitStatus"].split() == ["2", "78"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["WatchdogSec"]) >= 10


def test_instances_differ_from_the_service_in_their_name_alone() -> None:
    """But for what they say of themselves on top."""

    def lines(name: str) -> list[str]:
        text = (DEPLOY / "systemd" / name).read_text()
        return text[text.index("[Unit]") :].splitlines()

    differing = [
        other
        for one, other in zip(lines("runner.service"), lines("runner@.service"), strict=True)
        if one != other
    ]
    assert [line.partition("=")[0] for line in differing] == ["Description", "EnvironmentFile"]
    assert all("%i" in line for line in differing)
    named = re.findall(
        r"^#   (RUNNER_\w+)=", (DEPLOY / "systemd" / "runner@.service").read_text(), re.M
    )
    start = root.get_command(click.Context(root), "start")
    assert start is not None
    long = [name[2:] for param in start.params for name in param.opts if name.startswith("--")]
    known = {f"RUNNER_START_{name.replace('-', '_').upper()}" for name in long}
    assert named
    assert set(named) <= known


def test_the_drain_as_a_service() -> None:
    service = unit("runner-drain.service")
    given = options(shlex.split(service["ExecStart"])[1:])
    grace = least_stop_seconds(given["grace"])
    assert float(service["TimeoutStartSec"]) > given["connect_wait"] + given["max_time"] + grace
    assert float(service["TimeoutStopSec"]) > grace
    assert unit("runner-drain.timer")["OnCalendar"] == "minutely"
    assert given["max_time"] < 60


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """Verified with a command and a directory that are there: nothing else is to be said of them."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    for path in UNITS:
        text = path.read_text().replace("/srv/app/.venv/bin/runner", "/bin/true")
        text = text.replace("User=runner", "User=root").replace("Group=runner", "Group=root")
        (tmp_path / path.name).write_text(text)
    result = subprocess.run(
        [analyze, "verify", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_LOG_LEVEL": "warning", "PATH": "/usr/bin:/bin"},
    )
    told = [line for line in result.stderr.splitlines() if "runner" in line]
    assert (result.returncode, told) == (0, []), result.stderr


def test_systemd_would_say_what_is_wrong(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    (tmp_path / "wrong.service").write_text("[Service]\nExecStart=/bin/true\nKilMode=mixed\n")
    result = subprocess.run(
        [analyze, "verify", str(tmp_path / "wrong.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "KilMode" in result.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_have_the_published_shape(path: Path) -> None:
    found = yaml.safe_load(path.read_text())
    if found["apiVersion"].startswith("keda.sh/"):
        return  # of a project of its own: its schema is not among those of Kubernetes
    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)


def test_the_scaled_object_has_the_fields_of_keda() -> None:
    """By hand: names and types of keda.sh/v1alpha1, and what its scaler for PostgreSQL reads. The file
    was also held once against the definition that KEDA publishes, which says more than this."""
    jsonschema.validate(manifest("scaledobject"), SCALED_OBJECT)
    wrong = manifest("scaledobject")
    wrong["spec"]["maxReplicas"] = 8
    with pytest.raises(jsonschema.ValidationError, match="maxReplicas"):
        jsonschema.validate(wrong, SCALED_OBJECT)
    unquoted = manifest("scaledobject")
    unquoted["spec"]["triggers"][0]["metadata"]["targetQueryValue"] = 20
    with pytest.raises(jsonschema.ValidationError, match="20 is not of type 'string'"):
        jsonschema.validate(unquoted, SCALED_OBJECT)


@pytest.mark.parametrize("name", ["deployment", "cronjob"])
def test_pods_run_our_command_without_rights_and_have_time_to_stop(name: str) -> None:
    spec = pod(name)
    (container,) = spec["containers"]
    given = options(container["args"])
    assert spec["terminationGracePeriodSeconds"] > least_stop_seconds(given["grace"])
    assert spec["securityContext"]["runAsNonRoot"] is True
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_manifests_speak_of_one_fleet() -> None:
    deployment = manifest("deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert manifest("poddisruptionbudget")["spec"]["selector"]["matchLabels"] == labels
    scaled = manifest("scaledobject")["spec"]
    assert scaled["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaled["triggers"][0]["metadata"]["query"] == "select runner.backlog('default')"
    (container,) = pod("deployment")["containers"]
    (port,) = container["ports"]
    assert options(container["args"])["metrics"] == ("0.0.0.0", port["containerPort"])
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": port["name"]}


def test_the_image_runs_our_command_as_nobody_in_particular() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    words = {line.split()[0]: line.partition(" ")[2] for line in lines if line[:1].isupper()}
    assert words["USER"].isdigit()
    assert int(words["USER"]) > 999
    entry, command = yaml.safe_load(words["ENTRYPOINT"]), yaml.safe_load(words["CMD"])
    assert entry == ["runner"]
    assert options(command)["grace"] == parse_duration("25s")
