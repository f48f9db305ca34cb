"""Reports to other programs: what they are told, and that nobody needs them."""

import importlib
from types import SimpleNamespace

import pytest

from etalstm.device import open_device
from etalstm.errors import RunError
from etalstm.train.loop import Trainer
from etalstm.train.reports import EventFile, numbers, open_service
from etalstm.train.settings import Settings

ITERATION = {"kind": "iteration", "iteration": 3, "epoch": 1, "loss": 0.5, "storage": "ms1", "ms2": None, "first": True,
             "densities": {"i": 0.25, "f": 1}}  # fmt: skip
EPOCH = {"kind": "epoch", "iteration": 3, "epoch": 1, "split": "validation", "loss": 0.75, "accuracy": 0.5}


def test_numbers_are_named_by_split_and_the_rest_is_left_out():
    assert numbers(ITERATION) == {"train/loss": 0.5, "train/densities/i": 0.25, "train/densities/f": 1.0}
    assert numbers(EPOCH) == {"validation/loss": 0.75, "validation/accuracy": 0.5}


def test_tensorboard_has_all_numbers_of_a_run(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    with EventFile(tmp_path) as report:
        report(ITERATION)
        report(EPOCH)
    read = accumulator.EventAccumulator(str(tmp_path)).Reload()
    found = {tag: [(entry.step, entry.value) for entry in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    assert found == {tag: [(3, value)] for tag, value in (numbers(ITERATION) | numbers(EPOCH)).items()}


class FakeService:
    """Stands for the package of a service; notes what it is told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        def call(*values, **options):
            self.told.append((name, *values, options))
            return self

        return call


@pytest.fixture
def service(monkeypatch):
    fake = FakeService()
    monkeypatch.setattr(importlib, "import_module", lambda name: fake)
    return fake


def names(service):
    return [entry[0] for entry in service.told]


def test_wandb_is_told_settings_numbers_and_the_end(service):
    with open_service("wandb", "a", Settings("digits", seed=7)) as report:
        report(EPOCH)
    assert names(service) == ["init", "log", "finish"]
    assert service.told[0][-1]["config"]["seed"] == 7 and service.told[0][-1]["name"] == "a"
    assert service.told[1] == ("log", numbers(EPOCH), {"step": 3})
    assert service.told[2][-1] == {"exit_code": 0}


def test_mlflow_is_told_settings_numbers_and_a_failure(service):
    with pytest.raises(ZeroDivisionError), open_service("mlflow", "a", Settings("digits")) as report:
        report(EPOCH | {"loss": float("inf")})
        raise ZeroDivisionError
    assert names(service) == ["set_experiment", "start_run", "log_params", "log_metrics", "end_run"]
    assert service.told[3] == ("log_metrics", {"validation/accuracy": 0.5}, {"step": 3})
    assert service.told[4] == ("end_run", "FAILED", {})


def test_a_service_that_is_none_or_not_installed_is_told(monkeypatch):
    with pytest.raises(ValueError, match="log must be one of wandb, mlflow, got 'x'"):
        open_service("x", "a", SimpleNamespace())

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(RunError, match="--log wandb needs the package wandb"):
        open_service("wandb", "a", Settings("digits"))


def test_a_run_leaves_event_files_and_overwriting_it_removes_them(tmp_path):
    settings = Settings("digits", iterations=1, batch=8, evaluation_batches=1)
    with open_device("golden") as device:
        Trainer(settings, device, tmp_path).run()
        first = list((tmp_path / "events").iterdir())
        Trainer(settings, device, tmp_path, overwrite=True).run()
    assert len(first) == 1 and first[0].name.startswith("events.out.tfevents.")
    second = list((tmp_path / "events").iterdir())
    assert len(second) == 1 and second[0].stat().st_size > 500
