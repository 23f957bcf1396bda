"""How texts are normalised, for training targets and for scores.

In: a raw transcript. Out: the same text under a profile, such as CoRal's official rules.
Profiles are pure functions in one table; your own is named ``package.module:function``.
Read first: ``profiles.py``; ``danish.py`` has the rules of how numbers are said.
"""
