"""``danish-asr serve``: a model behind a page, until Ctrl-C."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.serve.server import Send, Server
from danish_asr.inference.settings import Settings
from danish_asr.recipe.run.run_directory import check_model

DOWNLOADS: Final = ("txt", "srt", "vtt", "json")


def serve(model: str, *, host: str, port: int, max_mb: int, lm: Path | None, device: str) -> None:
    """Load a model and serve its page until Ctrl-C.

    Args:
        model: As for `load_model`.
        host: Address to listen on.
        port: 0 for a free one.
        max_mb: Size limit of a file, in 10^6 bytes.
        lm: Directory of a language model, for beam search; None for greedy decoding.
        device: As for `load_model`.

    Raises:
        DanishAsrError: The address cannot be used, or a model cannot be loaded.
    """
    check_model(model)
    settings = Settings(lm=lm)
    options = settings.options()
    title = Path(model).resolve().name
    language_model = lm and lm.resolve().name
    about = {"model": title, "decoder": options["decoder"], "lm": language_model}

    def transcribe(audio: bytes, send: Send) -> None:
        duration = 0.0

        def progress(seconds: float, total: float | None) -> None:
            nonlocal duration
            duration = seconds
            send({"done": seconds, "duration": total})

        segments: list[Segment] = []
        for segment in loaded.stream(audio, progress=progress, **options):
            segments.append(segment)
            send({"segment": asdict(segment)})
        transcript = Transcript(duration, segments, about=about)
        files = {name: FORMATS[name](transcript) for name in DOWNLOADS}
        send({"files": files, "duration": duration})

    server = Server(transcribe, model=title, host=host, port=port, max_mb=max_mb)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"loading {model} ...", markup=False)
    loaded = settings.load(model, device)
    if not server.is_local:
        console.print(
            f"[yellow]warning:[/yellow] --host {host}: everybody who reaches port "
            f"{server.server_port} of this machine can use the page. Browsers record only on "
            "localhost or over HTTPS; for one user an SSH tunnel is better"
        )
    console.print(f"{model} on {loaded.device}: {server.url} (Ctrl-C ends it)", markup=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.close()
