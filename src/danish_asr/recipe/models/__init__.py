"""Models: a name, a run, a checkpoint or a directory of Hugging Face comes in, an asset goes out.

``cards.py`` says what ``model.path`` means and where cards are searched; read it first.
``assets.py`` finds and opens what a configuration names; ``hugging_face.py`` reads a directory of
transformers in place, and writes the names and sizes of its models.
"""
