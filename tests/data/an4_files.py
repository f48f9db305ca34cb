"""Small archives in the form of AN4's."""

import io
import tarfile

import numpy as np

TEXTS = ("YES", "NO", "A B", "ENTER", "ON", "B A")
SPEAKERS = ("fa", "mb", "mc", "fd", "me")


def contents(rounds=2):
    """Give the members of an archive of 5 training speakers and 1 of test, each with 2 · `rounds` utterances."""
    random = np.random.default_rng(0)
    found = {}
    for split, folder, speakers in (("train", "an4_clstk", SPEAKERS), ("test", "an4test_clstk", ("fz",))):
        names = [(speaker, f"an{n}-{speaker}-b") for speaker in speakers for n in range(2 * rounds)]
        texts = [TEXTS[n % len(TEXTS)] for n in range(len(names))]
        ids = [f"{folder}/{speaker}/{name}" for speaker, name in names]
        found[f"etc/an4_{split}.fileids"] = "".join(f"{one}\n" for one in ids).encode()
        lines = [f"{text} ({name})\n" for text, (_, name) in zip(texts, names, strict=True)]
        found[f"etc/an4_{split}.transcription"] = "".join(lines).encode()
        for one, text in zip(ids, texts, strict=True):
            found[f"feat/{one}.mfc"] = features(random.normal(ord(text[0]), 3, (6 + 3 * len(text), 13)))
    return found


def features(frames):
    """Give the bytes of a file of features."""
    numbers = np.asarray(frames, ">f4").tobytes()
    return (len(numbers) // 4).to_bytes(4, "big") + numbers


def write_an4(directory, members=None):
    """Write an archive; of `members`, by their names below ``an4/``, None leaves one out."""
    directory.mkdir(exist_ok=True)
    with tarfile.open(directory / "an4_mfcc13.tar.xz", "w:xz", preset=0) as archive:
        for name, content in (contents() | (members or {})).items():
            if content is not None:
                member = tarfile.TarInfo(f"an4/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return directory
