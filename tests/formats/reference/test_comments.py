"""Comments are found where they belong."""

import ast

from etalstm.formats.reference.contract import Comments

SOURCE = '''"""Module."""
ONE = 1  #: first
# above,
# in two lines
TWO = 2
THREE = 3

# far away

FOUR = 4  # of # these
SET = {
    "a": 1,  # σ beside
    # above b
    "b": 2,
    # above c
    "c": 3, "d": 4,  # beside c
    **OTHER,
}


class Kind:
    """Kind."""

    SOME = 1  #: a kind
    NONE = 2
'''
COMMENTS = Comments(SOURCE)


def test_of_assignments():
    texts = {name: COMMENTS.text(node) for name, node in COMMENTS.assignments().items()}
    assert texts == {
        "ONE": "first", "TWO": "above, in two lines", "THREE": "", "FOUR": "of # these", "SET": ""
    }  # fmt: skip


def test_of_keys():
    found = COMMENTS.keys(COMMENTS.assignments()["SET"].value)
    texts = {"a": "σ beside", "b": "above b", "c": "above c beside c", "d": "", "**OTHER": ""}
    assert {name: text for name, (text, _) in found.items()} == texts
    assert isinstance(found["**OTHER"][1], ast.Name)


def test_of_members():
    assert COMMENTS.members("Kind") == {"SOME": "a kind", "NONE": ""}
