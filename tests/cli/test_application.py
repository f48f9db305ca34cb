"""The command line itself: its help, what it imports, and how it ends."""

import importlib.metadata
import itertools
import json
import re
import resource
import subprocess
import sys

import pytest

from etalstm.cli import TREE, Group
from etalstm.cli.catalogue import NEW_NAMES
from etalstm.cli.main import run

MAIN = "from etalstm.cli.main import main; main()"
MOST_CPU_SECONDS = 0.5  # of the help, on a processor that has nothing else to do


def groups(group=TREE, words=()):
    yield words, group
    for name, entry in group.commands.items():
        if isinstance(entry, Group):
            yield from groups(entry, (*words, name))


GROUPS = dict(groups())
EVERY = [[*words, name] for words, group in GROUPS.items() for name in group.commands]


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_help_needs_no_command(words):
    program = f"import sys; from etalstm.cli.main import run; run({[*words, '-h']}); print(*sys.modules)"
    shown, loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.rsplit("\n", 2)[:2]
    assert all(f"\n  {name} " in shown for name in GROUPS[words].commands)
    heavy = {"numpy", "numba", "amaranth", "rich", "scipy"}
    assert not heavy & set(loaded.split()) or GROUPS[words].module  # has a function of its own


def test_the_first_level_is_short_and_its_help_fast():
    assert len(TREE.commands) <= 15
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", MAIN, "--help"], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < MOST_CPU_SECONDS, spent


@pytest.mark.parametrize("columns", ["60", "100", "150"])
def test_help_is_as_wide_as_the_terminal_and_cuts_no_sentence(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["train", "-h"]) == run(["research", "-h"]) == run(["-h"]) == 0
    shown = capsys.readouterr().out
    assert int(columns) - 12 < max(map(len, shown.splitlines())) <= int(columns)
    assert "..." not in shown.replace("[ARGS]...", "") and "…" not in shown


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_is_where_it_is_named(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    assert run([*words, "-h"]) == 0
    own = " ".join(capsys.readouterr().out.split())
    assert run([*words[:-1], "--help"]) == 0
    listed = itertools.dropwhile(lambda line: line != "Commands:", capsys.readouterr().out.splitlines())
    line = next(line for line in listed if line.split()[:1] == words[-1:])
    assert line.split(maxsplit=1)[1] in own


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_command_is_in_the_module_of_its_name(words):
    entry = GROUPS[tuple(words[:-1])].commands[words[-1]]
    module = entry.module if isinstance(entry, Group) else entry
    allowed = {"_".join(words[-2:]), words[-1], words[-2] if len(words) > 1 else "using"}
    assert not module or module.split(".")[-1] in allowed


@pytest.mark.parametrize("old", NEW_NAMES)
def test_an_old_name_works_and_says_the_new_one(old, capsys):
    new = NEW_NAMES[old].split()
    assert run([*new, "-h"]) == 0
    expected = capsys.readouterr().out
    assert run([*old.split(), "-h"]) == 0
    shown = capsys.readouterr()
    assert shown.out == expected
    assert shown.err == f"eta-lstm {old} is eta-lstm {NEW_NAMES[old]} now\n"


@pytest.mark.parametrize(
    ("old", "code"),
    [
        (["compare", "--devices", "golden,golden", "--json"], 0),
        (["--debug", "compare", "--devices", "golden,golden", "--hidden", "0"], 2),
        (["plan", "--preset", "test", "--check", "--steps", "2"], 0),
        (["study", "density", "--runs", ""], 2),
    ],
    ids=str,
)
def test_an_old_name_has_the_options_and_exit_code_of_the_new_one(old, code, capsys):
    assert run(old) == code
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("eta-lstm ") and first.endswith(" now") and bool(others) == bool(code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "eta-lstm has no command 'trian'; did you mean eta-lstm train?"),
        (["golden"], "eta-lstm has no command 'golden'; did you mean eta-lstm bench golden?"),
        (["bench", "faults_"], "eta-lstm bench has no command 'faults_'; did you mean eta-lstm verify faults?"),
        (["bench", "zzz"], "eta-lstm bench has no command 'zzz'; see eta-lstm bench --help"),
        (["plan", "--hiden", "3"], "eta-lstm plan has no option --hiden; did you mean --hidden?"),
        (["plan", "--theta", "3"], "eta-lstm plan has no option --theta, which is one of eta-lstm "),
        (["plot", "--dataset", "digits"], "eta-lstm plot has no option --dataset, which is one of eta-lstm train, "),
        (["plan", "check", "--json"], "eta-lstm plan check has no option --json, which is one of eta-lstm evaluate, "),
        (["--zzz"], "eta-lstm has no option --zzz; see eta-lstm --help"),
        (["plan", "--hidden", "3", "check"], "--hidden stands before check: options stand behind the command"),
        (["plan", "shape"], "eta-lstm plan has no command 'shape'"),
    ],
    ids=str,
)
def test_a_wrong_name_is_one_line_with_what_may_be_meant(arguments, message, capsys):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


@pytest.mark.parametrize("words", [[], ["bench"], ["research", "study"], ["research", "profile"]], ids=str)
def test_without_a_command_the_help_is_shown_once(words, capsys):
    assert run(words) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("Usage:") == shown.err.count("Commands:") == 1


def test_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"eta-lstm {importlib.metadata.version('etalstm')}\n"


def test_debug_shows_where_an_error_comes_from(capsys):
    wrong = ["verify", "compare", "--hidden", "0"]
    assert run(wrong) == 2
    plain = capsys.readouterr().err
    assert run(["--debug", *wrong]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in plain and "in check_size" in shown and shown.endswith(plain)


@pytest.mark.parametrize("given", [["--hidden", "many"], ["--hidden=many"]], ids=str)
def test_a_value_that_is_no_number_is_shown(given, capsys):
    assert run(["plan", "--layers", "2", *given]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "'--hidden'" in error and error.endswith(", got 'many'\n")


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_ctrl_c_during_imports_is_quiet(module, tmp_path):
    interrupting = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    (tmp_path / f"{module}.py").write_text(interrupting)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {MAIN}"
    ended = subprocess.run([sys.executable, "-c", program, "plan"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["train", "--dataset", "digits", "--out", ""], "--out"),
        (["hw", "verilog", "--preset", "test", "-o", ""], "-o"),
        (["plan", "--storage="], "--storage"),
        (["research", "study", "density", "--runs", ""], "--runs"),
        ([""], "the first argument"),
        (["bench", ""], "the first argument"),
        (["predict", "run", ""], "TEXTS must not be empty, got ''"),
    ],
    ids=str,
)
def test_an_empty_value_is_no_default(arguments, name, capsys):
    assert run(arguments) == 2
    name, got, values = name.partition(" must not be empty, got ")
    assert capsys.readouterr().err == f"eta-lstm: {name} must not be empty{', got ' * bool(got)}{values}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--storage", "all", "--disassemble"], "--disassemble is not used with --storage all"),
        (["plan", "--benchmark", "ptb", "--hidden", "32"], "--hidden is not used with --benchmark"),
        (["plan", "--disassemble", "--json"], "--json is not used where"),
        (["bench", "iteration", "--weights", "x", "--hidden", "64"], "--hidden is not used with --weights"),
        (["bench", "iteration", "--weights", "x", "--slices", "1"], "--slices is not used with --weights"),
        (["bench", "iteration", "--theta", "0.1"], "--theta is only used with --weights"),
        (["model", "check", "--hidden", "3"], "eta-lstm model check has no option --hidden, which is one of "),
        (["model", "--weights", "x", "--density", "1"], "--density is not used with --weights"),
        (["model", "--benchmark", "ptb", "--steps", "8"], "--steps is not used with --benchmark"),
        (["model", "--data", "x"], "--data is only used with --weights"),
    ],
    ids=str,
)
def test_an_option_that_would_be_ignored_is_refused(arguments, message, capsys):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


@pytest.fixture
def small_files():
    """No file may be larger than 1000 bytes: a write ends as on a full disk, after some of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("command", "name"), [("hw verilog --preset test", "top.v"), ("hw contract", "contract.md")])
def test_a_full_disk_is_named_and_leaves_no_cut_file(command, name, tmp_path, small_files, monkeypatch, capsys):
    monkeypatch.setattr("etalstm_hw.generate.verilog", lambda *_, **__: "x" * 10_000)  # Yosys writes large files too
    (tmp_path / name).write_text("older")
    assert run([*command.split(), "-o", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(tmp_path / name) in error
    assert (tmp_path / name).read_text() == "older" and len(list(tmp_path.iterdir())) == 1


def test_a_preset_may_be_a_file(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text('base = "test"\nchannels = 4\n')
    assert run(["plan", "--preset", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["placement"]["channels"] == 4
    assert run(["verify", "compare", "--devices", "golden,golden", "--preset", f"test,{path}"]) == 0
    assert run(["plan", "--preset", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("storage", ["all", "dense"])
def test_a_plan_shows_whole_numbers(columns, storage, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    sizes = ["--hidden", "1024", "--batch", "128", "--steps", "100", "--preset", "bench"]
    assert run(["plan", *sizes, "--storage", storage]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown and re.search(r"\d,\d{3},\d{3},\d{3}", shown)
    if storage == "all":
        assert max(map(len, shown.splitlines())) <= 80
