"""The log-probabilities that an evaluation keeps, for evaluations with other decoders."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, final

import pyarrow as pa
from fairseq2.gang import Gangs
from torch import Tensor

from danish_asr.base.errors import LogProbsError, RunFailedError
from danish_asr.decoding.log_probs import LogProbsFile, keep, to_batch, write_batches
from danish_asr.recipe.train.console import log
from danish_asr.scoring.predictions import Prediction, to_row

LOG_PROBS: Final = "log_probs.arrow"


@final
class LogProbsKeeper:
    """Writes ``log_probs.arrow``: each batch at once to a file of its own, in the end all to one.

    ``about`` is what the log-probabilities depend on. A batch is kept before its predictions are,
    so an evaluation that continues has the log-probabilities of all that was scored.
    """

    def __init__(
        self, directory: Path, gangs: Gangs, about: Mapping[str, Any], *, continues: bool
    ) -> None:
        self._file = directory / LOG_PROBS
        self._parts = directory / f"{LOG_PROBS}.part"
        self._gangs, self._about = gangs, dict(about)
        if gangs.root.rank == 0 and not continues:
            shutil.rmtree(self._parts, ignore_errors=True)
        gangs.root.barrier()

    def add(self, rows: Sequence[Prediction], logits: Tensor, lengths: Sequence[int]) -> None:
        """Keep a batch: ``logits`` are (N, S, V), ``lengths`` the frames of each row."""
        texts = [json.dumps(to_row(row), ensure_ascii=False) for row in rows]
        about = json.dumps(self._about | {"vocabulary": logits.size(-1)})
        name = sha256("\n".join(row.id for row in rows).encode()).hexdigest()[:20]
        batch = to_batch(texts, keep(logits, lengths), about)
        write_batches(self._parts / f"{name}.arrow", [batch])

    def finish(self, ids: Sequence[str]) -> None:
        """Write the file, with each of ``ids`` once; on the first rank, when all ranks have ended.

        The parts stay until `delete`: a kill before the predictions are written costs nothing.
        """
        left = set(ids)
        write_batches(self._file, self._collect(left))
        if left:
            self._file.unlink()
            raise RunFailedError(
                f"{self._parts} lacks the log-probabilities of {len(left)} rows; delete it and "
                f"{self._file.parent / 'predictions.jsonl.part'}, and run the same command again"
            )
        size = self._file.stat().st_size / 1e6
        log.info("Log-probabilities of {} rows ({:.1f} MB) kept in {}.", len(ids), size, self._file)

    def delete(self) -> None:
        """Delete the parts, on the first rank."""
        shutil.rmtree(self._parts)

    def _collect(self, left: set[str]) -> Iterator[pa.RecordBatch]:
        """Yield the parts, without rows that were kept twice, and take their ids out of ``left``.

        Another number of processes may continue with other batches of the same rows.
        """
        for part in sorted(self._parts.glob("*.arrow")):
            file = LogProbsFile(part)
            for number in range(len(file)):
                ids = [json.loads(row)["id"] for row in file.rows(number)]
                fresh = [each in left for each in ids]
                left.difference_update(ids)
                yield file.batch(number).filter(pa.array(fresh))


def kept_log_probs(directory: Path, about: Mapping[str, Any]) -> LogProbsFile | None:
    """Open what an evaluation into ``directory`` kept, if it depends on the same as ``about``."""
    file = directory / LOG_PROBS
    if not file.is_file():
        return None
    try:
        kept = LogProbsFile(file)
    except LogProbsError as error:
        log.warning("{}", error)
        return None
    then = {key: value for key, value in kept.about.items() if key != "vocabulary"}
    if changes := [key for key in {**then, **about} if then.get(key) != about.get(key)]:
        log.warning("{} is of another evaluation ({} changed).", file, ", ".join(changes))
        return None
    return kept
