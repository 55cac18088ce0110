"""Deployments: manifests and Dockerfiles held to schemas, linted, read back, and asked for."""

import copy
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from converter import plugins
from converter.options.recipe import make_request
from converter.protocols.deployment import Deployable
from converter.serving import environments
from converter.serving.asking import answers
from converter.serving.ports import bound, free
from emitters.deploying import checks, docker, schemas
from tests.acceptance.cli import images, refused, small_cnn, typed
from tests.serving.boxes import script

SERVERS = ("bentoml", "kserve", "litserve", "mlserver", "ovms", "rayserve", "torchserve", "triton")
CONVERT = "convert cnn.onnx --samples samples.npz --to onnx,openvino --bench-seconds 0.02"
PLAIN = "convert cnn.onnx --no-check --no-bench"
KINDS = ["Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"]

Document = dict[str, Any]


def _folder(path: Path) -> Path:
    small_cnn(path / "cnn.onnx")
    images(path / "samples.npz")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = _folder(tmp_path_factory.mktemp("deploy"))
    typed(f"{CONVERT} --serve {','.join(SERVERS)} --deploy docker,k8s,kserve", folder)
    return folder / "build/cnn"


def documents(path: Path) -> list[Document]:
    return list(yaml.safe_load_all(path.read_text()))


def _manifests(made: Path, server: str) -> list[Document]:
    return documents(made / f"deploy/k8s/{server}/cnn/base/resources.yaml")


@pytest.mark.parametrize("server", SERVERS)
def test_manifests_keep_to_kubernetes_schemas(made: Path, server: str) -> None:
    found = _manifests(made, server)
    assert [item["kind"] for item in found] == KINDS
    overlay = made / f"deploy/k8s/{server}/cnn/overlays/gpu/kustomization.yaml"
    (kustomization,) = documents(overlay)
    (patch,) = kustomization["patches"]
    merged = copy.deepcopy(found[0])  # as kustomize merges it: containers by name
    own = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]
    spec = merged["spec"]["template"]["spec"]
    (base,), (added,) = spec["containers"], own.pop("containers")
    assert base["name"] == added["name"]
    base["resources"]["limits"] |= added["resources"]["limits"]
    spec |= own
    assert [line for item in (*found, merged) for line in schemas.problems_of(item)] == []
    assert checks.problems_of([merged, *found[1:]]) == []
    spec["securityContext"]["seccompProfil"] = {}
    assert "seccompProfil" in " ".join(schemas.problems_of(merged))


@pytest.mark.skipif(not os.environ.get(schemas.CRDS), reason=f"{schemas.CRDS} names no folder")
def test_inference_services_keep_to_kserves_definition(made: Path) -> None:
    for server in SERVERS:
        (service,) = documents(made / f"deploy/kserve/{server}/cnn/cnn.yaml")
        assert list(schemas.problems_of(service)) == []
    service["spec"]["predictor"]["storageURL"] = "s3://models"
    assert "storageURL" in " ".join(schemas.problems_of(service))


@pytest.mark.parametrize(("change", "says"), [
    (lambda d: d[0]["spec"]["template"]["metadata"]["labels"].pop("app.kubernetes.io/name"),
     "Service: selector matches no pod's labels"),
    (lambda d: d[1]["spec"]["ports"][0].update(targetPort="web"), "Service: no port 'web'"),
    (lambda d: d[2]["spec"]["scaleTargetRef"].update(name="net"), "there is no Deployment 'net'"),
    (lambda d: d[4]["spec"]["ingress"][0]["ports"][0].update(port=1), "nobody listens on 1"),
    (lambda d: d[0]["metadata"].update(name="My_Net"), "'My_Net' isn't a label of DNS-1123"),
    (lambda d: _server(d)["volumeMounts"][0].update(name="var"), "there is no volume 'var'"),
    (lambda d: _server(d)["resources"]["limits"].update(memory="1Mi"), "may take 1Mi"),
    (lambda d: _server(d)["livenessProbe"]["httpGet"].update(port="web"), "livenessProbe: no port"),
    (lambda d: _server(d)["ports"].append({"name": "http", "containerPort": 1}), "two ports have"),
])  # fmt: skip
def test_what_schemas_do_not_see_is_found(
    made: Path, change: Callable[[list[Document]], Any], says: str
) -> None:
    found = _manifests(made, "triton")
    assert checks.problems_of(found) == []
    change(found)
    assert says in "\n".join(checks.problems_of(found))


def _server(found: list[Document]) -> Document:
    (server,) = found[0]["spec"]["template"]["spec"]["containers"]
    return dict(server)


@pytest.mark.parametrize("server", SERVERS)
def test_dockerfiles(made: Path, server: str) -> None:
    """hadolint has nothing to say; every file of the package is in one layer, the model first."""
    file = made / f"deploy/docker/{server}/cnn/Dockerfile"
    lint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([lint, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    copied = [json.loads(line[5:])[:-1] for line in file.read_text().splitlines()
              if line.startswith("COPY ")]  # fmt: skip
    flat = [Path(item).name for layer in copied for item in layer]
    assert sorted(flat) == sorted(item.name for item in (made / f"serving/{server}/cnn").iterdir())
    locked = ["requirements.txt", "requirements.lock"]
    model = next(name for name in flat if name not in locked)
    assert model in ("model.onnx", "model_store", "1")
    assert "\nUSER 1000\n" in file.read_text() or server == "ovms"
    (compose,) = documents(file.with_name("compose.yaml"))
    build = compose["services"]["cnn"]["build"]
    context = (file.parent / build["context"]).resolve()
    assert context == made / "serving" / server
    assert (context / build["dockerfile"]).resolve() == file


def test_the_report_and_the_readme_say_what_happened(made: Path) -> None:
    report = json.loads((made / "report.json").read_text())
    (artifact,) = (item for item in report["artifacts"] if item["target"] == "onnx")
    took = max(phase["resident"] for phase in artifact["memory"]["phases"])
    (package,) = (item for item in report["packages"] if item["server"] == "litserve")
    for item in package["deployments"]:
        assert list(item["checks"]) == ["schema", "build", "run", "answer"]
        assert all(item["checks"][name].startswith("no: ") for name in ("build", "run", "answer"))
        assert "the most memory of the artifact's process" in item["decisions"][0]
        assert (made / item["path"]).is_dir()
    kubernetes = package["deployments"][1]["checks"]
    assert "Kubernetes" in kubernetes["schema"] and "kubectl apply was not" in kubernetes["run"]
    limits = _server(_manifests(made, "litserve"))["resources"]["limits"]
    assert int(limits["memory"].removesuffix("Mi")) << 20 > took
    readme = (made / "serving/litserve/cnn/README.md").read_text()
    lines = re.findall(r"## Deploy: (\w+)\nIn the output's folder:\n```\n(.+)\n(.+)\n```", readme)
    assert [name for name, *_ in lines] == ["docker", "k8s", "kserve"]
    assert "kubectl apply was not tried" in (made / "report.html").read_text()


@pytest.mark.parametrize(("options", "says"), [
    ("--serve litserve --deploy k8s --name net-", "isn't a valid DNS name"),
    ("--serve litserve --deploy docker --name 3d-net", "isn't a valid DNS name"),
    (f"--serve litserve --deploy kserve --name {'n' * 51}", "isn't a valid DNS name"),
    ("--serve litserve --deploy k8s --model-from nfs:models", "has to be image, pvc:NAME or a URL"),
    ("--serve litserve --deploy k8s --replicas 3,2", "MIN at least 1"),
    ("--serve litserve --deploy kserve --canary 101", "a percentage"),
    ("--serve litserve --deploy docker --base-image python", "no tag and no digest"),
    ("--serve litserve --deploy docker --registry Registry/x", "in lower case"),
    ("--serve litserve --deploy k8s --memory-limit 1 --no-check", "cnn needs 2 MiB"),
    ("--serve litserve --deploy docker --port 65536", "127.0.0.1:65536 (http) can't be"),
    ("--serve litserve --deploy helm", "no deployment 'helm'"),
    ("--deploy k8s", "--deploy needs --serve"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, options: str, says: str
) -> None:
    if "--memory-limit" in options:
        small_cnn(tmp_path / "cnn.onnx", channels=160)  # of 0.9 MB
    else:
        small_cnn(tmp_path / "cnn.onnx")
    refused(2, says, tmp_path, "cnn.onnx", *options.split())


def test_a_port_that_is_taken_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """Of any of the server's ports; by the process that listens there."""
    (tmp_path / "net.onnx").write_bytes(b"no model at all")
    port = free("127.0.0.1", 2)
    with bound("127.0.0.1", port + 1) as taken:
        taken.listen()
        options = ("--serve", "triton", "--deploy", "docker", "--port", str(port))
        said = refused(2, f"127.0.0.1:{port + 1} (grpc) can't be", tmp_path, "net.onnx", *options)
    assert f"(process {os.getpid()}) listens there" in said.err and "another --port" in said.err


def test_a_base_image_that_is_not_there_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a docker that has no image and reaches no registry; test_images.py asks a real podman."""
    script(tmp_path / "bin" / "docker", '#!/bin/sh\n[ "$1" = info ]\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "net.onnx").write_bytes(b"no model at all")
    options = "--serve litserve --deploy docker --try-image --base-image localhost/none:1"
    refused(5, "docker couldn't pull localhost/none:1", tmp_path, "net.onnx", *options.split())


def test_ports_are_published_where_it_was_asked_for(tmp_path: Path) -> None:
    folder, port = _folder(tmp_path), free("127.0.0.1", 8)
    typed(f"{PLAIN} --serve triton --deploy docker --port {port}", folder)
    (compose,) = documents(folder / "build/cnn/deploy/docker/triton/cnn/compose.yaml")
    inside = plugins.load("servers", "triton").ports.values()
    assert compose["services"]["cnn"]["ports"] == [
        f"127.0.0.1:{port + at}:{number}" for at, number in enumerate(inside)
    ]
    readme = (folder / "build/cnn/serving/triton/cnn/README.md").read_text()
    assert f"--publish 127.0.0.1:{port}:8000 " in readme


def test_a_limit_below_what_was_measured_is_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    measured = CONVERT.replace(",openvino", "")
    said = typed(f"{measured} --serve litserve --deploy k8s --memory-limit 20", folder, 2)
    assert "--memory-limit 20: cnn needs" in said.err and "during the run" in said.err
    assert not (folder / "build").exists()


@pytest.mark.parametrize("source", ["pvc:models", "s3://bucket/models"])
def test_a_model_from_elsewhere(tmp_path: Path, source: str) -> None:
    """A volume is mounted, and a URL fetched; KServe's own runtime takes it where one fits."""
    folder = _folder(tmp_path)
    more = f"--model-from {source} --registry eu.example/team --canary 10 --replicas 1,3"
    typed(f"{PLAIN} --serve litserve,triton --deploy k8s,kserve --name my_cnn {more}", folder)
    place = folder / "build/my_cnn/deploy"
    deployment, *_, policy = documents(place / "k8s/triton/my_cnn/base/resources.yaml")
    spec = deployment["spec"]["template"]["spec"]
    assert deployment["metadata"]["name"] == "my-cnn"
    assert spec["containers"][0]["image"] == "eu.example/team/my-cnn-triton:1"
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in _mounts(spec)
    uri = source.replace("pvc:", "pvc://")
    if source.startswith("pvc"):
        assert spec["volumes"][-1]["persistentVolumeClaim"]["claimName"] == "models"
        assert policy["spec"]["egress"] == []
    else:
        assert spec["initContainers"][0]["args"] == [source, "/models"]
        assert policy["spec"]["egress"]
    (service,) = documents(place / "kserve/triton/my_cnn/my-cnn.yaml")
    predictor = service["spec"]["predictor"]
    assert (predictor["canaryTrafficPercent"], predictor["maxReplicas"]) == (10, 3)
    assert predictor["model"]["runtime"] == "kserve-tritonserver"
    assert predictor["model"]["storageUri"] == uri
    (service,) = documents(place / "kserve/litserve/my_cnn/my-cnn.yaml")
    (own,) = service["spec"]["predictor"]["containers"]
    fetched = {"name": "STORAGE_URI", "value": source} in own["env"]
    assert fetched == source.startswith("s3")
    assert own["workingDir"] == ("/mnt/models/my_cnn" if fetched else "/models/my_cnn")


def test_a_flow_has_a_graph(made: Path) -> None:
    package = made / "serving/litserve/cnn"
    served = plugins.load("servers", "litserve").deployed(package)
    asked = make_request({"source": "cnn.onnx", "canary": 5})
    what = Deployable("cnn", "litserve", served, package, (), True, made, None, asked)
    deployed = plugins.load("deployments", "kserve").deploy(what)  # held to what schemas are here
    service, graph = yaml.safe_load_all(deployed.files["cnn.yaml"])
    (step,) = graph["spec"]["nodes"]["root"]["steps"]
    assert step["serviceName"] == service["metadata"]["name"] == "cnn"
    assert service["spec"]["predictor"]["canaryTrafficPercent"] == 5


def test_tensorflow_serving_reads_what_the_package_says(tmp_path: Path) -> None:
    package = tmp_path / "net"
    (package / "1").mkdir(parents=True)
    facts = {"artifact": "1/saved_model.pb", "tags": ["serve", "gpu"], "wire": {"ready": "/v1/net"}}
    (package / "modelyard.json").write_text(json.dumps(facts))
    (package / "batching.config").touch()
    served = plugins.load("servers", "tfserving").deployed(package)
    assert "--model_config_file=/models/net/models.config" in served.command
    assert "--batching_parameters_file=/models/net/batching.config" in served.command
    assert "--saved_model_tags=serve,gpu" in served.command
    assert (served.ready, served.model, served.python) == ("/v1/net", ["1"], False)


def _mounts(spec: Document) -> list[Document]:
    return list(spec["containers"][0]["volumeMounts"])


@pytest.mark.slow
def test_the_server_answers_its_probes_and_ends_as_it_is_told(made: Path) -> None:
    """Started by the image's own line: probes and health checks ask it, its signal ends it."""
    server, package = plugins.load("servers", "litserve"), made / "serving/litserve/cnn"
    home = environments.set_up(server.environment(package), print)
    served = server.deployed(package)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, *rest = served.command
    line = [str(home / "bin" / program), *(item.replace("8000", str(port)) for item in rest)]
    text = (made / "deploy/docker/litserve/cnn/Dockerfile").read_text()
    health = json.loads(re.search(r"^HEALTHCHECK .* CMD (.+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    probed = _server(_manifests(made, "litserve"))
    paths = {
        probed[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")
    }
    shell = docker.health_in_bash(port, served.ready)
    signals = text.split("STOPSIGNAL ")[1].split()[0]
    with subprocess.Popen(line, cwd=package, start_new_session=True) as running:
        try:
            until = time.monotonic() + 120
            while not all(answers(f"http://127.0.0.1:{port}{path}") for path in paths):
                assert running.poll() is None and time.monotonic() < until
                time.sleep(0.2)
            for tried in (health, shell, docker.health_in_bash(port, "/nowhere")):
                own = [item.replace("8000", str(port)) for item in tried]
                done = subprocess.run(own, check=False, capture_output=True, timeout=20)
                assert (done.returncode == 0) == ("nowhere" not in own[-1]), done
            running.send_signal(getattr(signal, signals))
            running.wait(30)
            until = time.monotonic() + 20
            with pytest.raises(ProcessLookupError):  # nothing of it is left
                while time.monotonic() < until:
                    os.killpg(running.pid, 0)
                    time.sleep(0.1)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
