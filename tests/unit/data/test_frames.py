from __future__ import annotations

import pytest
import torch

from danish_asr.data.frames import WAV2VEC2_LAYERS, frame_count, shortest_input


@pytest.mark.parametrize("samples", [1, 399, 400, 401, 719, 720, 16_000, 123_457])
def test_frames_are_those_of_the_convolutions(samples: int) -> None:
    lengths = [samples]
    for kernel, stride in WAV2VEC2_LAYERS:
        if lengths[-1] < kernel:
            lengths.append(0)
            break
        wave = torch.zeros(1, 1, lengths[-1])
        lengths.append(
            torch.nn.functional.conv1d(wave, torch.ones(1, 1, kernel), stride=stride).shape[2]
        )

    assert frame_count()(samples) == lengths[-1]


@pytest.mark.parametrize("layers", [WAV2VEC2_LAYERS, ((10, 5), (3, 2)), ((1, 1),)])
def test_the_shortest_input_gives_the_first_frame(layers: tuple[tuple[int, int], ...]) -> None:
    count = frame_count(layers)

    shortest = shortest_input(count)

    assert (count(shortest), count(shortest - 1)) == (1, 0)
