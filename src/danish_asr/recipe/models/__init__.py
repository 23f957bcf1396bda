"""Models: a name, a run, a checkpoint or a directory of Hugging Face comes in, a card goes out.

``cards.py`` says what ``model.path`` means and opens what a configuration names; read it first.
``trained.py`` is the forward pass of what was trained. ``hugging_face.py`` converts models of
transformers, in both directions.
"""
