"""Entry points of the CTC recipe under upstream's module names; the code is `danish_asr.recipe`."""
