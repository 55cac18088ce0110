"""What is exported for other tools, in their own readers."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from converter.ir.model import TensorSpec
from converter.protocols.server import Environment
from converter.serving.address import parse
from converter.serving.environments import set_up
from converter.serving.export import export

ANALYZER = Environment("model-analyzer", ("triton-model-analyzer==1.58.0",), 250)

READS = """
import json, sys
from model_analyzer.cli.cli import CLI
from model_analyzer.config.input.config_command_profile import ConfigCommandProfile
config, cli = ConfigCommandProfile(), CLI()
cli.add_subcommand(cmd="profile", help="", config=config)
cli.parse()
(model,) = config.profile_models
print(json.dumps([model.model_name(), model.parameters(), dict(model.perf_analyzer_flags()),
                  config.client_protocol, config.triton_grpc_endpoint, config.triton_metrics_url]))
"""
"""As its entry point reads the command line and the file; no profile is run."""

LOADS = {"batches": [1, 8], "concurrency": [1, 4], "rates": [], "seconds": 1.0, "p95": 20.0}


@pytest.mark.slow
def test_model_analyzer_reads_its_configuration(tmp_path: Path) -> None:
    home = set_up(ANALYZER, lambda text: None)
    repository = tmp_path / "repository"
    repository.mkdir()
    spec = TensorSpec("x", "float32", ("batch", 2))
    config, _ = export(
        "model-analyzer", tmp_path, parse("grpc://127.0.0.1:8001/net"), [spec],
        [{"x": np.zeros((1, 2), np.float32)}], {**LOADS, "repository": str(repository)},
    )  # fmt: skip

    def read() -> "subprocess.CompletedProcess[str]":
        line = [home / "bin" / "python", "-c", READS, "profile", "-f", config]
        line += ["--perf-analyzer-path", "/bin/true"]  # it has to be there
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = read()
    assert done.returncode == 0, done.stderr
    name, parameters, flags, *places = json.loads(done.stdout.splitlines()[-1])
    assert name == "net"
    assert places == ["grpc", "127.0.0.1:8001", "http://127.0.0.1:8002/metrics"]
    assert parameters["concurrency"] == [1, 4] and parameters["batch_sizes"] == [1, 8]
    assert flags["input-data"] == "input_data.json" and str(flags["latency-threshold"]) == "20"
    config.write_text(config.read_text().replace("concurrency:", "callers:"))
    assert 'Key "callers" should not be specified' in read().stderr
