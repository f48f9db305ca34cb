"""Settings are declared once: options, bounds and files follow, and options that a run would not use are refused."""

import dataclasses

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.cli.parser import load
from etalstm.research.compress_settings import CompressSettings
from etalstm.research.translate_settings import TranslationSettings
from etalstm.train.checkpoint import Origin
from etalstm.train.declared import declared, may_differ
from etalstm.train.settings import PANELS, Settings

SMALL = ["--hidden", "4", "--batch", "4", "--iterations", "1", "--evaluation-batches", "1"]
TEXTS = "text,label\n" + "".join(f"good w{n % 3},p\nbad w{n % 3},n\n" for n in range(20))
VECTORS = "sequence,a,label\n" + "".join(f"{n},{t},{'pn'[n % 2]}\n" for n in range(40) for t in range(2))
SOURCES = {
    "digits": ["--dataset", "digits"],
    "texts": ["--task", "classify", "--data", "r.csv"],
    "vectors": ["--task", "classify", "--data", "v.csv"],
    "arrays": ["--task", "classify", "--data", "a.npz"],
    "language": ["--task", "language", "--data", "r.csv", "--steps", "4"],
}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Train in a folder with files of texts and of vectors; give exit code and what is said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text(TEXTS)
    (tmp_path / "v.csv").write_text(VECTORS)
    np.savez(tmp_path / "a.npz", x=np.arange(120).reshape(40, 3) % 5, y=np.arange(40) % 2)

    def start(*arguments):
        capsys.readouterr()
        return run(["train", "--out", "run", *arguments]), capsys.readouterr().err

    return start


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("digits", ["--validation", "v.csv"], "--validation is only used with --task"),
        ("digits", ["--test-share", "0.1"], "--test-share is only used with --task"),
        ("digits", ["--label", "y"], "--label is only used with --task"),
        ("digits", ["--lower"], "--lower is only used with --task"),
        ("digits", ["--embedding", "32"], "--embedding is not used where inputs are vectors"),
        ("vectors", ["--embedding", "9"], "--embedding is not used where inputs are vectors"),
        ("vectors", ["--vocabulary", "9"], "--vocabulary is not used where inputs are vectors"),
        ("arrays", ["--label", "y"], "--label is not used with a file of arrays"),
        ("texts", ["--validation", "r.csv", "--validation-share", "0.3"], "--validation-share is not used with"),
        ("texts", ["--validation", "r.csv", "--test", "r.csv", "--split-seed", "1"], "--split-seed is not used with"),
        ("texts", ["--schedule", "cosine", "--step-epochs", "2"], "--step-epochs is only used with --schedule step"),
        ("language", ["--text", "foo"], "--text is not used with --task language"),
        ("texts", ["--test", "r.csv", "--test-share", "0.3"], "--test-share is not used with --test"),
        ("texts", ["--tokens", "bytes", "--vocabulary", "5"], "--vocabulary is not used with --tokens bytes"),
        ("texts", ["--optimizer", "adam", "--momentum", "0.9"], "--momentum is only used with --optimizer sgd"),
        ("texts", ["--epsilon", "1e-3"], "--epsilon is not used with --optimizer sgd"),
        ("texts", ["--schedule", "cosine", "--decay", "0.5"], "--decay is not used with --schedule cosine"),
        ("texts", ["--floor", "0.5"], "--floor is only used with --schedule cosine"),
        ("texts", ["--patience", "7"], "--patience is only used with --schedule plateau"),
        ("digits", ["--ms2-full-epochs", "1"], "--ms2-full-epochs is only used with --ms2 or --ms2-steps"),
        ("digits", ["--ms2-without", "loss"], "--ms2-without is only used with --ms2 or --ms2-steps"),
        ("texts", ["--resume", "--overwrite"], "--resume goes on with a run, --overwrite begins anew"),
    ],
)
def test_an_option_without_effect_is_refused_and_makes_no_folder(train, tmp_path, source, options, message):
    code, said = train(*SOURCES[source], *SMALL, *options)
    assert code == 2 and message in said, said
    assert not (tmp_path / "run").exists()


def test_a_file_of_settings_counts_where_it_is_not_the_default(train, tmp_path):
    assert train(*SOURCES["digits"], *SMALL, "--optimizer", "adam", "--beta1", "0.8")[0] == 0
    settings = (tmp_path / "run" / "settings.toml").read_text()
    (tmp_path / "c.toml").write_text(settings)
    assert train("--config", "c.toml", "--overwrite")[0] == 0, "it names every setting, momentum among them"
    code, said = train("--config", "c.toml", "--overwrite", "--optimizer", "sgd")
    assert code == 2 and "--beta1 is not used with --optimizer sgd" in said
    (tmp_path / "c.toml").write_text('schedule = "plateau"\ndataset = "digits"\n')
    code, said = train("--config", "c.toml", "--overwrite")
    assert (
        code == 2 and "c.toml, line 1, with the options on top: decay must be below 1 with the schedule plateau" in said
    )


def test_a_run_goes_on_with_settings_that_it_no_longer_uses(train):
    assert train(*SOURCES["texts"], *SMALL, "--decay", "0.5", "--step-epochs", "2")[0] == 0
    assert train("--resume", "--iterations", "2", "--schedule", "cosine")[0] == 0
    code, said = train("--resume", "--iterations", "3", "--decay", "0.5")
    assert code == 2 and "--decay is not used with --schedule cosine" in said


def test_every_setting_is_declared_and_stands_in_a_group_of_the_help():
    settings = declared(Settings)
    assert [*settings] == [field.name for field in dataclasses.fields(Settings)]
    assert {one.setting.panel for one in settings.values()} == set(PANELS)


@pytest.mark.parametrize(
    ("command", "module", "kind"),
    [
        ("train", "train", Settings),
        ("compress", "research.compress", CompressSettings),
        ("train", "research.translate", TranslationSettings),
    ],
)
def test_every_setting_is_an_option_with_its_help_and_default(command, module, kind):
    options = {option.name: option for option in load(command, module).params}
    for name, one in declared(kind).items():
        option, setting = options[name], one.setting
        assert (option.opts, option.help, option.rich_help_panel) == ([one.option], setting.help, setting.panel)
        expected = one.default if setting.shown is None else setting.shown
        assert option.default == (None if setting.depends else expected) and not option.required


def test_what_may_differ_where_a_run_goes_on_is_declared():
    expected = {"data", "engine", "preset", "rounds", "target", "start", "profile", "input_profile"}
    assert set(may_differ(CompressSettings)) == expected


def test_what_a_checkpoint_compares_is_what_the_settings_declare():
    weights_are_float32 = {"weight_format", "arithmetic", "delta_bits"}  # whatever the passes read
    assert {*Origin.model_fields} & {*may_differ(Settings)} == {"batch"} | weights_are_float32
    assert {*Origin.model_fields} & {*may_differ(Settings, between_epochs=False)} == weights_are_float32
    fixed = {one.name for one in dataclasses.fields(Settings)} - {*may_differ(Settings)}
    of_the_model = {"cell", "task", "hidden", "layers", "embedding", "tied"}
    assert fixed <= {*Origin.model_fields} | of_the_model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# mine\n\nhidden = 4\nhiden = 5\n", "c.toml, line 4: hiden is unknown here; is it hidden?"),
        ("hidden = 4\nzzz = 5\n", "c.toml, line 2: zzz is unknown here\n"),
        ("epochs = 1\n'hidden' = 'many'\n", "c.toml, line 2: hidden: Input should be a valid integer, got 'many'"),
        ("epochs = 1\nhidden = 0\n", "c.toml, line 2, with the options on top: hidden must be above 0, got 0"),
        ("epochs = 1\nms2 = 0.5\nms2_steps = 3\n", "c.toml, line 3, with the options on top: ms2_steps stands in"),
        ('task = "classify"\ndataset = "digits"\n', "c.toml, line 1, with the options on top: task classify is for"),
        ("hidden = 4\nhidden = 5\n", "c.toml: not TOML: Cannot overwrite a value (at line 2, column 11)"),
    ],
)
def test_a_wrong_key_of_a_file_is_named_with_its_line(train, tmp_path, text, message):
    (tmp_path / "c.toml").write_text(text)
    code, said = train("--config", "c.toml")
    assert code == 2 and message in said and said.count("\n") == 1, said


def test_a_runs_own_settings_are_read_with_lines_too(train, tmp_path):
    assert train(*SOURCES["digits"], *SMALL)[0] == 0
    settings = tmp_path / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace("hidden = 4", "hidden = 4\nhiddn = 4"))
    code, said = train("--resume", "--iterations", "2")
    line = settings.read_text().splitlines().index("hiddn = 4") + 1
    assert code == 2 and f"settings.toml, line {line}: hiddn is unknown here; is it hidden?" in said
