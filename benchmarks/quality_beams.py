"""A beam search's best texts and processor time: ctc-beam-decoder against pyctcdecode.

python benchmarks/quality_beams.py MODEL LM FOLDER; FOLDER has recordings in FLAC.
"""

import sys
import time
from pathlib import Path

import numpy as np

from danish_asr.base.audio import to_mono
from danish_asr.decoding import beam_search
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.inference.model import load_model


def main(name: str, lm: str, folder: str) -> None:
    """Print both times and the number of equal lists, without and with noise."""
    model, draw = load_model(name, device="cpu"), np.random.default_rng(0)
    decoder = BeamDecoder(model.tokenizer, lm, nbest=10, workers=1)
    for noise in (0, 0.3):
        rows = []
        for file in sorted(Path(folder).glob("*.flac")):
            x = to_mono(file)
            x += noise * x.std() * draw.standard_normal(len(x), "float32")
            rows += decoder.columns(model.log_probs([x])[0][None], [len(x)])
        lists = []
        for native in (True, False):
            begin = time.process_time()
            found = [
                beam_search.search_best(decoder.search_settings, 10, row, native=native)
                for row in rows
            ]
            print(noise, native, f"{time.process_time() - begin:.2f} s")
            lists.append([[text.text for text in row] for row in found])
        print(sum(map(list.__eq__, *lists)), "of", len(rows), "lists are equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
