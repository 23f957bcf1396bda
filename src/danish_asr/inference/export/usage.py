"""How an export is used, for its README.md; the tests run these examples."""

from importlib.metadata import version
from typing import Final

_PACKAGES: Final = {
    "hf": ("torch", "transformers", "soundfile"),
    "onnx": ("numpy", "onnxruntime", "soundfile"),
    "sherpa-onnx": ("sherpa-onnx==2.0.1", "soundfile"),
}

_SAMPLES: Final = """\
`samples` is a float32 array at 16 kHz, mono, as `soundfile.read(file, dtype="float32")` gives it.
"""
_INT8: Final = """\
`model.int8.onnx`, if there is one, has 8-bit weights: smaller, faster on most CPUs, a little less
exact. Its rounding depends on the whole batch: decode recordings one by one.
"""

_USAGE: Final = {
    "hf": """\
```python
from transformers import pipeline

asr = pipeline("automatic-speech-recognition", "OWNER/NAME")

text = asr(samples)["text"]
```

For long recordings and times of words, in seconds, from transformers alone:

```py
result = asr(samples, chunk_length_s=20, stride_length_s=4, return_timestamps="word")
text, words = result["text"], result["chunks"]  # a word: {"text": ..., "timestamp": (start, end)}
```

transformers normalises audio with another constant than the training did: it divides by
sqrt(variance + 1e-7) instead of sqrt(variance + 1e-5). Audio of usual level is the same. Quiet
audio is louder: by 5 % at an RMS of 0.01 (-40 dBFS), 45 % at 0.003 and 216 % at 0.001, which is
nearer to the level in training, so that it is usually recognised better. These lines normalise as
the training did, and give the text of danish-asr:

```python
import torch
from transformers import AutoModelForCTC, AutoTokenizer

model = AutoModelForCTC.from_pretrained("OWNER/NAME").eval()
tokenizer = AutoTokenizer.from_pretrained("OWNER/NAME")

inputs = torch.nn.functional.layer_norm(torch.from_numpy(samples), samples.shape)[None]
best = model(inputs).logits[0].argmax(-1)
text = tokenizer.decode(best.where(best > 2, 0))  # 1 is <s>, 2 is </s>
```

In a padded batch, what the model writes in the padding is garbage, so cut each row to its own
frames before it is decoded. The pipeline does not: leave its `batch_size` at 1. For two recordings,
`samples` and `more`:

```py
from transformers import AutoFeatureExtractor

extractor = AutoFeatureExtractor.from_pretrained("OWNER/NAME")

batch = extractor([samples, more], sampling_rate=16_000, padding=True, return_tensors="pt")
frames = model._get_feat_extract_output_lengths(batch.attention_mask.sum(-1))
best = model(**batch).logits.argmax(-1)
best = best.where(best > 2, 0)
texts = [tokenizer.decode(row[:count]) for row, count in zip(best, frames)]
```
""",
    "onnx": f"""\
```python
import itertools, numpy, onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
names = [line.rsplit(" ", 1)[0] for line in open("tokens.txt", encoding="utf-8")]

feed = {{"waveforms": samples[None], "lengths": numpy.array([len(samples)])}}
logits, frames = session.run(None, feed)
best = [symbol for symbol, _ in itertools.groupby(logits[0, : frames[0]].argmax(-1)) if symbol > 2]
text = "".join(names[symbol] for symbol in best).replace("▁", " ").strip()
```

The model normalises each row itself, as in training. Rows of a batch are padded at the right, with
anything; `frames` has the number of valid frames of each, 0 for a row that is too short for one.

{_INT8}""",
    "sherpa-onnx": f"""\
```python
import sherpa_onnx

recognizer = sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc("model.onnx", "tokens.txt")

stream = recognizer.create_stream()
stream.accept_waveform(16_000, samples)
recognizer.decode_stream(stream)
text = stream.result.text.strip()
```

`stream.result.timestamps` has the start of each symbol in seconds. Of its hot words, sherpa-onnx
says that it takes them for transducers only: `create_stream` with `hotwords` ends the process.

sherpa-onnx runs it on Android, iOS, Windows, in a browser, and from C, C++, C#, Go, Java, Kotlin,
Swift and JavaScript; see its documentation of omnilingual ASR models.

{_INT8}""",
}
"""By the name of the format; OWNER/NAME stands for the model."""

LANGUAGE_MODEL: Final = """\
An n-gram language model is in `language_model/`. After `pip install pyctcdecode==0.5.0
kenlm-ex==0.2.1`, `AutoProcessor.from_pretrained(...).decode(logits).text` decodes an array of
logits, (frames, symbols), with it.
"""


def usage(to: str, repo: str | None) -> str:
    """Return the section of a format, with the versions that the export was compared with.

    Without ``repo``, a repository of the hub, its lines run in the directory of the export.
    """
    packages = (
        package if "==" in package else f"{package}=={version(package).split('+')[0]}"
        for package in _PACKAGES[to]
    )
    text = _USAGE[to].replace("OWNER/NAME", repo or ".")
    place = "" if repo and to == "hf" else "Run these lines in the directory of this file.\n"
    return f"## Use\n\n    pip install {' '.join(packages)}\n\n{place}{_SAMPLES}\n{text}"
