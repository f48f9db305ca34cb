"""The tables of docs/trust.md, made of the specifications; run it after a change: ``python -m tests.formal.page``."""

import importlib
from pathlib import Path

from tests.formal.prove import ROOT, Proof

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "trust.md"
_BEGIN, _END = "<!-- proofs: made by tests/formal/page.py -->\n", "<!-- end of proofs -->\n"


def proofs() -> list[tuple[str, Proof]]:
    """Give every proof, with the name of its file."""
    files = [path for path in sorted(HERE.glob("test_*.py")) if path.stem != "test_specifications"]
    modules = [(path.name, importlib.import_module(f"tests.formal.{path.stem}")) for path in files]
    return [(name, proof) for name, module in modules for proof in module.PROOFS]


def tables() -> str:
    """Write a line for each component, and one for each mutant that is not found."""
    lines = ["| component | proved | for | mutants found |", "|---|---|---|---|"]
    for name, proof in proofs():
        found = sum(not mutant.survives for mutant in proof.mutants)
        link = f"[{proof.name}](../tests/formal/{name})"
        lines.append(f"| {link} | {proof.claim} | {_extent(proof)} | {found} of {len(proof.mutants)} |")
    lines += ["", "Mutants that no property finds:", "", "| file | change | why |", "|---|---|---|"]
    survivors = [mutant for _, proof in proofs() for mutant in proof.mutants if mutant.survives]
    lines += [f"| {m.module} | {_code(m.old)} → {_code(m.new)} | {m.survives} |" for m in survivors]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Give the page with its tables as they should be."""
    text = PAGE.read_text()
    begin, end = text.index(_BEGIN) + len(_BEGIN), text.index(_END)
    return text[:begin] + tables() + text[end:]


def _extent(proof: Proof) -> str:
    return f"the first {proof.method}" if proof.method.mode == "bmc" else f"all time, {proof.method}"


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|") if text else "nothing"


if __name__ == "__main__":
    PAGE.write_text(page())
