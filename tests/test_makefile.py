import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGETS = (
    "help",
    "setup",
    "train",
    "test",
    "test-torch",
    "formal",
    "coverage",
    "campaign",
    "lint",
    "verilog",
    "resources",
    "contract",
    "bench",
)


def test_make_alone_lists_every_target():
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(TARGETS)


def test_the_front_door_is_short():
    assert len((ROOT / "Makefile").read_text().splitlines()) < 60
