"""Trains a classifier on golden, at last on sim: classify_csv.py FILE, a text and a label a line (extra `examples`)"""

import csv
import sys

import onnxruntime
import torch
from torch.nn.utils.rnn import pack_sequence, pad_sequence

import etalstm.nn


class Classifier(torch.nn.Module):  # knows PyTorch only
    def __init__(self, words, labels):
        super().__init__()
        self.embedding, self.lstm = torch.nn.Embedding(words, 16), torch.nn.LSTM(16, 16)
        self.output = torch.nn.Linear(16, labels)

    def forward(self, texts):
        packed = pack_sequence([self.embedding(text) for text in texts], enforce_sorted=False)
        return self.output(self.lstm(packed)[1][0][-1])


rows = [(text.split(), label) for text, label in csv.reader(open(sys.argv[1], newline="", encoding="utf-8"))]
words, labels = sorted({word for text, _ in rows for word in text}), sorted({label for _, label in rows})
texts = [torch.tensor([words.index(word) for word in text]) for text, _ in rows]
answers, model = torch.tensor([labels.index(label) for _, label in rows]), Classifier(len(words), len(labels))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for engine in ["golden"] * 30 + ["sim"] * 2:
    with etalstm.nn.accelerate(engine=engine):
        loss = torch.nn.functional.cross_entropy(model(texts), answers)
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    print(f"{engine}: loss {loss.item():.3f}")
etalstm.nn.write_onnx("classifier.onnx", model.lstm, model.embedding, model.output)
inputs = {"tokens": pad_sequence(texts).numpy(), "lengths": torch.tensor(list(map(len, texts))).int().numpy()}
logits = torch.tensor(onnxruntime.InferenceSession("classifier.onnx").run(["logits"], inputs)[0])
share, apart = (logits.argmax(1) == answers).float().mean(), (logits - model(texts)).abs().max()
print(f"onnxruntime: accuracy {share:.2f}, logits {apart:.1e} from PyTorch's")
