"""The notebook with a PyTorch model runs."""

import re

from tests.notebooks import EXAMPLES, execute


def test_a_pytorch_model_learns_and_answers_as_with_its_own_lstm(tmp_path):
    printed = execute(EXAMPLES / "pytorch_model.ipynb", tmp_path, "torch")
    assert re.findall(r"^sim +(\d): loss", printed, re.M) == ["1", "2", "3"]
    right, apart = map(float, re.search(r"right: ([\d.]+), apart: (\S+)", printed).groups())
    assert right > 0.8 and apart < 1e-5, printed
