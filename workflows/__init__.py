"""The recipes under upstream's module names.

A regular package: ``workflows`` of a checkout of omnilingual-asr, which has no such file, loses
against it wherever it is on the path.
"""
