"""A page in the browser that transcribes a file or a recording: ``danish-asr serve``."""
