"""Speed and memory of a training step on a GPU, beside upstream's step in the same run.

    python -m benchmarks.gpu [--arch 300m] [--upstream CHECKOUT] [--output gpu.json]

Each row of the table is a training step of the recipe with one change: optimizer, activation
checkpointing, ``model.head: danish``, a batch without padding, or an idea that the recipe does not
have. Given a checkout of omnilingual-asr, its own train unit and criterion take the step in the
same way, on the same batch: the waveforms in bfloat16, no clipping, the whole head, AdamW as
PyTorch chooses it. Compare rows of one run only. ``--arch tiny`` is for a trial on a CPU.
``benchmarks/gpu_launch.py`` runs it where other versions are installed.

Audio hours per hour count the utterances without their padding. MFU is model FLOP/s, which
`model_flops` counts, over the peak of the device in bfloat16 without sparsity (data sheets of
NVIDIA), as in Chowdhery et al. (2022), PaLM, appendix B: what padding, checkpointing and the
optimizer compute in addition counts as lost time.
"""

import argparse
import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from torch.cuda import OutOfMemoryError

from benchmarks.gpu_rows import Row, Settings, lengths_of, model_config, planned_memory
from benchmarks.gpu_step import train_steps
from danish_asr.base.schema import SAMPLE_RATE

PEAKS: Final = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "A40": 150e12,
    "A10": 125e12,
}
"""Peak FLOP/s in bfloat16, dense, by what the device's name contains; the first that matches."""

LEAN: Final = "layerwise, adamw_8bit, danish head"
ROWS: Final = (
    Row("upstream", upstream=True),
    Row("adamw"),
    Row("danish head", danish_head=True),
    Row("upstream, no padding", padding=False, upstream=True),
    Row("no padding", padding=False),
    Row("danish head, no padding", danish_head=True, padding=False),
    Row("adamw_8bit", optimizer="adamw_8bit"),
    Row("adamw_offload", optimizer="adamw_offload"),
    Row("layerwise", checkpointing=True),
    Row(LEAN, optimizer="adamw_8bit", checkpointing=True, danish_head=True),
    Row("idea: mask of keys alone", key_mask=True),
    Row("idea: compiled layers", compiled=True),
)


MEMORY: Final = ("planned_bytes", "peak_bytes", "reserved_bytes")


def model_flops(config: Wav2Vec2AsrConfig, samples: Sequence[int]) -> dict[str, float]:
    """Floating-point operations of a training step on utterances of these lengths, by part.

    A multiplication and an addition are 2. With S frames of width E, F inner and V symbols:
    convolutions of the front end 2 k C_in C_out for each frame that they make; projection 2 D E S;
    positions 2 k E² S / groups; a layer (8 E² + 4 E F) S for its matrices and 4 E S² for attention;
    head 2 E V S. The backward pass takes twice that (Kaplan et al., 2020, arXiv:2001.08361, 2.1);
    the front end is frozen and has none. Norms, activations, softmax and CTC are left out.
    """
    encoder = config.encoder_config
    width, layers = encoder.model_dim, encoder.num_encoder_layers
    parts = dict.fromkeys(("front end", "positions", "matrices", "attention", "head"), 0.0)
    for length in samples:
        frames, channels = length, 1
        for out, kernel, stride in encoder.feature_extractor_layer_descs:
            frames = (frames - kernel) // stride + 1
            parts["front end"] += 2 * kernel * channels * out * frames
            channels = out
        matrices = layers * (8 * width**2 + 4 * width * encoder.ffn_inner_dim)
        if encoder.feature_dim != width:
            matrices += 2 * encoder.feature_dim * width
        position = 2 * encoder.pos_conv_kernel_size * width**2 / encoder.num_pos_conv_groups
        parts["positions"] += 3 * position * frames
        parts["matrices"] += 3 * matrices * frames
        parts["attention"] += 3 * layers * 4 * width * frames**2
        parts["head"] += 3 * 2 * width * config.target_vocab_size * frames
    return parts


def peak_flops(device: str) -> float | None:
    """Peak FLOP/s of a device; None if it is not in the table."""
    return next((peak for name, peak in PEAKS.items() if name in device), None)


def measure(settings: Settings, row: Row, name: str) -> dict[str, Any]:
    """The numbers of a row."""
    config = model_config(settings.arch, row)
    lengths = lengths_of(settings, row)
    planned = planned_memory(settings, row, config)
    try:
        found = train_steps(settings, row, config)
    except (OutOfMemoryError, ImportError) as error:
        return {"row": asdict(row), "failed": str(error).splitlines()[0]}
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    seconds = median(found["seconds"])
    parts = model_flops(config, lengths)
    flops, peak = settings.batches * sum(parts.values()), peak_flops(name)
    return {
        "row": asdict(row),
        "seconds_per_step": seconds,
        "hours_per_hour": settings.batches * sum(lengths) / SAMPLE_RATE / seconds,
        "padding": 1 - sum(lengths) / (len(lengths) * max(lengths)),
        "flops_per_step": flops,
        "flops_share": {part: each / sum(parts.values()) for part, each in parts.items()},
        "mfu": flops / seconds / peak if peak else None,
        "planned": planned,
        # Of tensors alone, as `peak_bytes`.
        "planned_bytes": sum(
            size for part, size in (planned or {}).items() if "assumed" not in part
        ),
        **found,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown; the ratio is to upstream's step on a batch with the same padding."""
    reference = {
        each["row"]["padding"]: each["seconds_per_step"]
        for each in rows
        if each["row"]["upstream"] and "failed" not in each
    }
    head = (
        "row",
        "s/step",
        "x upstream",
        "audio h/h",
        "MFU",
        "planned GiB",
        "peak GiB",
        "reserved GiB",
    )
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for each in rows:
        row = each["row"]
        if "failed" in each:
            lines.append(f"| {row['name']} | {each['failed']} |" + " |" * (len(head) - 2))
            continue
        seconds, usual = each["seconds_per_step"], reference.get(row["padding"])
        cells = [
            row["name"],
            f"{seconds:.3f}",
            f"{usual / seconds:.2f}" if usual else "",
            f"{each['hours_per_hour']:,.0f}",
            f"{each['mfu']:.1%}" if each["mfu"] else "",
            *(f"{each[name] / 2**30:.2f}" if each[name] else "" for name in MEMORY),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure the rows, print the table and write the numbers after each."""
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="300m", help="tiny, 300m, 1b, ...")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-seconds", type=float, default=240, help="with padding")
    parser.add_argument("--longest-seconds", type=float, default=15, help="of an utterance")
    parser.add_argument("--batches", type=int, default=1, help="accumulated in a step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--row", action="append", choices=names, help="only these")
    parser.add_argument("--profile", type=int, default=0, help="dearest operators of one more step")
    parser.add_argument("--upstream", type=Path, help="a checkout of omnilingual-asr")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    args = parser.parse_args()
    device = torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    settings = Settings(
        *(args.arch, device, args.batch_seconds, args.longest_seconds, args.batches),
        *(args.warm_up, args.steps, args.precision == "bf16", args.profile, args.upstream),
    )
    rows: list[dict[str, Any]] = []
    for row in ROWS:
        if row.name in (args.row or names) and (args.upstream or not row.upstream):
            print(row.name, flush=True)
            rows.append(measure(settings, row, name))
            result = {
                "device": name,
                "torch": torch.__version__,
                "settings": {key: str(value) for key, value in asdict(settings).items()},
                "rows": rows,
            }
            args.output.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"\n{name}, torch {torch.__version__}, {args.arch}, {args.precision}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
