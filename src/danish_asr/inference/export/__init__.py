"""Models for other programs: Hugging Face's transformers, ONNX, sherpa-onnx.

None of the exports needs fairseq2 or this package. Each is compared with fairseq2's output before
it gets its name.
"""

from danish_asr.inference.export.export import FORMATS, export_model

__all__ = ["FORMATS", "export_model"]
