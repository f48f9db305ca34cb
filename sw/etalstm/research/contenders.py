"""The machines that η-LSTM is measured beside: an architecture, with or without the source paper's savings.

The savings are those of its cases. MS1 keeps local gradients, pruned and compressed. MS2 skips cells. Combine-MS does
both. Delta inputs, a pruned δ, narrow weights and shared tokens are our own, and no contender has them.
"""

from dataclasses import dataclass, replace
from typing import Any

from etalstm.network.architecture import ARCHITECTURES, SWING
from etalstm.network.execution import FLOAT32
from etalstm.network.shared_tokens import OFF
from etalstm.network.storage import DENSE
from etalstm.train.settings import Settings

OTHERS = {"dynamic": "Dyn-Arch", "static": "Static-Arch", "inference": "LSTM-Inf"}
NONE, MS1, MS2, COMBINE = "none", "ms1", "ms2", "combine"
CASES = {NONE: "", MS1: " + MS1", MS2: " + MS2", COMBINE: " + Combine-MS"}
EVERY_CASE = "cases"  # stands for all cases of Dyn-Arch and of the swinging PEs that skip zeros
PLAIN: dict[str, Any] = {
    "storage": DENSE, "theta": 0.0, "delta_target": None, "ms2": None, "ms2_steps": None, "input_threshold": "0",
    "refresh": None, "weight_format": FLOAT32, "shared_tokens": OFF,
}  # fmt: skip


@dataclass(frozen=True)
class Contender:
    """An architecture in one case; `text` is as a user writes it: ``ARCHITECTURE``, or ``ARCHITECTURE+CASE``."""

    text: str
    architecture: str
    case: str = NONE

    @property
    def name(self) -> str:
        """Its name in tables."""
        return OTHERS.get(self.architecture, self.architecture) + CASES[self.case]

    def settings(self, chosen: Settings) -> Settings:
        """Give the settings of η-LSTM with all savings off but those of the case.

        ``ValueError`` if the settings lack what the case has, or the architecture has no such storage.
        """
        taken: dict[str, Any] = {}
        if self.case in (MS1, COMBINE):
            if chosen.policy == DENSE:
                raise ValueError(f"{self.text} keeps local gradients: storage must not be dense with it")
            taken |= {"storage": chosen.storage, "theta": chosen.theta}
        if self.case in (MS2, COMBINE):
            if chosen.ms2 is None:
                raise ValueError(f"{self.text} skips cells: ms2 must be a number with it, got off")
            taken["ms2"] = chosen.ms2
        return replace(chosen, architecture=self.architecture, **(PLAIN | taken))


def read_contenders(text: str) -> list[Contender]:
    """Read contenders with commas between; ``cases`` stands for eight of them.

    ``ValueError`` if there is no such architecture or case. The swinging PEs must have a case: without, they are η-LSTM
    itself.
    """
    found = []
    for word in text.split(","):
        if word == EVERY_CASE:
            found += [Contender(f"{name}+{case}", name, case) for name in ("dynamic", SWING.name) for case in CASES]
            continue
        name, plus, case = word.partition("+")
        if name not in ARCHITECTURES or (plus and case not in CASES) or (name == SWING.name and not plus):
            expected = f"{', '.join(OTHERS)}, each of these or {SWING.name} with +{', +'.join(CASES)}, or {EVERY_CASE}"
            raise ValueError(f"against must be of {expected}, got {word!r}")
        found.append(Contender(word, name, case or NONE))
    return found
