"""Trains a text classifier on a CSV of texts and labels, on golden, at last on sim: python classify_csv.py FILE"""

import csv
import sys

import torch

import etalstm.nn


class Classifier(torch.nn.Module):
    """A model that knows PyTorch only."""

    def __init__(self, words, labels):
        super().__init__()
        self.embedding, self.lstm = torch.nn.Embedding(words, 16), torch.nn.LSTM(16, 16)
        self.output = torch.nn.Linear(16, labels)

    def forward(self, texts):
        """Give the scores of each text's labels."""
        packed = torch.nn.utils.rnn.pack_sequence([self.embedding(text) for text in texts], enforce_sorted=False)
        return self.output(self.lstm(packed)[1][0][-1])


with open(sys.argv[1], newline="") as file:
    rows = [(text.split(), label) for text, label in csv.reader(file)]
words, labels = sorted({word for text, _ in rows for word in text}), sorted({label for _, label in rows})
texts = [torch.tensor([words.index(word) for word in text]) for text, _ in rows]
answers, model = torch.tensor([labels.index(label) for _, label in rows]), Classifier(len(words), len(labels))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for engine in ["golden"] * 30 + ["sim"] * 2:
    with etalstm.nn.accelerate(engine=engine):
        scores = model(texts)
    loss = torch.nn.functional.cross_entropy(scores, answers)
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    print(f"{engine}: loss {loss.item():.3f}, accuracy {(scores.argmax(1) == answers).float().mean():.2f}")
