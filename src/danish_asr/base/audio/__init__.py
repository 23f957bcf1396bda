"""Files of audio: their formats, decoding, resampling, and FLAC."""
