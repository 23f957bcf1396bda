"""What an evaluation has scored so far, on disk: one that was stopped or killed continues there."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self, final

import torch
from fairseq2.gang import Gangs

from danish_asr.base.files import publish
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.readers import SplitsReader
from danish_asr.scoring.predictions import Prediction, from_row, to_row


class ScoredBatch(NamedTuple):
    """The predictions of a batch and its loss in bits per utterance."""

    bits: float
    predictions: list[Prediction]

    def to_line(self) -> bytes:
        """Return the batch as a line of JSON."""
        row = {"bits": self.bits, "rows": [to_row(each) for each in self.predictions]}
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes, where: str) -> Self:
        """Build the batch from its line."""
        row = json.loads(line)
        return cls(row["bits"], [from_row(each, where) for each in row["rows"]])


@final
class ScoredBatches:
    """Files beside ``predictions`` that get a line per batch; a kill costs unfinished lines only.

    ``<predictions>.part`` begins with what is evaluated and holds what earlier starts scored;
    each rank of this start adds its batches to ``<predictions>.part_<rank>``.

    Attributes:
        earlier: What earlier starts scored, on the first rank; empty on the others.
    """

    def __init__(self, predictions: Path, gangs: Gangs) -> None:
        self._root, self._gang = gangs.root, gangs.dp
        self._base: Final = predictions.with_name(f"{predictions.name}.part")
        self.earlier: list[ScoredBatch] = []

    def _of_rank(self, rank: int) -> Path:
        return self._base.with_name(f"{self._base.name}_{rank}")

    def _of_all_ranks(self) -> list[Path]:
        return sorted(self._base.parent.glob(f"{self._base.name}_*"))

    def resume(self, about: Mapping[str, object], reader: SplitsReader) -> None:
        """Let the reader continue after what earlier starts scored, if they scored the same.

        ``about`` is all that the predictions depend on, as JSON has it.
        """
        found = self._read_earlier(about) if self._root.rank == 0 else []
        ids: dict[str | None, set[str]] = {name: set() for name in reader.readers}
        for batch in found:
            ids[batch.predictions[0].split].update(each.id for each in batch.predictions)
        after = {name: each.position_after(ids[name]) for name, each in reader.readers.items()}
        # Another host might not see yet what was written, so the first rank decides.
        positions = torch.tensor([position for position, _ in after.values()])
        positions = positions.to(self._root.device)
        self._root.broadcast(positions, 0)
        for each, position in zip(reader.readers.values(), positions.tolist(), strict=True):
            each.begin_at(position)
        if self._root.rank == 0:
            done: dict[str | None, set[str]] = {n: set(rows) for n, (_, rows) in after.items()}
            found = [b for b in found if b.predictions[0].id in done[b.predictions[0].split]]
            self._begin(about, found, sum(reader.rows.values()))
        self._root.barrier()

    def resume_rows(self, about: Mapping[str, object], rows: int) -> None:
        """Take over what earlier starts scored of ``rows`` rows, where no reader reads them."""
        self._begin(about, self._read_earlier(about), rows)

    def _begin(self, about: Mapping[str, object], found: list[ScoredBatch], rows: int) -> None:
        # A kill in these lines may have left a batch in two files.
        self.earlier = [*{batch.predictions[0].id: batch for batch in found}.values()]
        with publish(self._base) as stream:
            stream.write(json.dumps(about).encode() + b"\n")
            stream.writelines(batch.to_line() for batch in self.earlier)
        self._delete_ranks()
        if self.earlier:
            done = sum(len(batch.predictions) for batch in self.earlier)
            log.info("{} of {} rows were scored before.", done, rows)

    def _read_earlier(self, about: Mapping[str, object]) -> list[ScoredBatch]:
        lines = [*_complete_lines(self._base)]
        then = json.loads(lines[0]) if lines else about
        if changes := [key for key in {**then, **about} if then.get(key) != about.get(key)]:
            log.warning("Another evaluation stopped here ({} changed).", ", ".join(changes))
            lines = []
        if not lines:
            self._delete_ranks()  # of the other evaluation
            return []
        for part in self._of_all_ranks():
            lines += _complete_lines(part)
        return [ScoredBatch.from_line(line, str(self._base)) for line in lines[1:]]

    def _delete_ranks(self) -> None:
        for part in self._of_all_ranks():
            part.unlink()

    def add(self, batch: ScoredBatch) -> None:
        """Save a batch of this rank."""
        # Closed each time, so that a network file system has it, too.
        with self._of_rank(self._gang.rank).open("ab") as stream:
            stream.write(batch.to_line())

    def collect(self) -> list[Prediction]:
        """Return the predictions of all starts and ranks, on the first rank.

        It needs all ranks. They may be on several hosts and share only the output directory.
        """
        self._root.barrier()
        if self._root.rank != 0:
            return []
        files = [self._of_rank(rank) for rank in range(self._gang.size)]
        found = [
            ScoredBatch.from_line(x, str(file)) for file in files for x in _complete_lines(file)
        ]
        return [each for batch in [*self.earlier, *found] for each in batch.predictions]

    def delete(self) -> None:
        """Delete the files, on the first rank."""
        self._base.unlink()
        self._delete_ranks()


def _complete_lines(file: Path) -> Iterator[bytes]:
    if file.is_file():
        with file.open("rb") as stream:
            yield from (line for line in stream if line.endswith(b"\n"))
