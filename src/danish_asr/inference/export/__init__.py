"""Models for other programs: Hugging Face's transformers, ONNX, sherpa-onnx.

In: a model. Out: a directory with weights, vocabulary and a README.md, which needs neither fairseq2
nor this package, and is compared with fairseq2's output before it gets its name.
Read export.py first: it has the command; to_hugging_face.py and to_onnx.py write the files.
"""

from danish_asr.inference.export.export import FORMATS, export_model

__all__ = ["FORMATS", "export_model"]
