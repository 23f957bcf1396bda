"""A local web page that transcribes files and recordings: ``danish-asr serve``.

In: a model, and audio that a browser sends. Out: a page, and segments as they are ready. The server
is of the standard library, keeps audio in memory and writes no file.
Read server.py first: it has the command, the server and its requests. page.js runs in the browser.
"""
