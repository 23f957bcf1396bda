"""A pickle module for ``torch.load``: files hold tensors and plain values, and cannot run code.

PyTorch's ``weights_only`` does the same, but cannot read pickle's protocol 5, in which fairseq2
writes the states of trainer, optimizer and data reader.
"""

import pickle
import sys
import warnings
from pathlib import Path
from typing import IO, Any, Final

from typing_extensions import override

_VALUES: Final = {
    "collections": {"OrderedDict"},
    "torch": {"Size", "device", "float16", "bfloat16", "float32", "float64", "int64", "uint8"},
    "torch._tensor": {"_rebuild_from_type_v2"},
    "torch._utils": {"_rebuild_tensor_v2", "_rebuild_wrapper_subclass"},
    # The optimizer's state under FSDP.
    "torch.distributed.device_mesh": {"DeviceMesh"},
    "torch.distributed.tensor": {"DTensor"},
    "torch.distributed.tensor._dtensor_spec": {"DTensorSpec", "TensorMeta"},
    "torch.distributed.tensor.placement_types": {"Partial", "Replicate", "Shard"},
    "torch.serialization": {"_get_layout"},
}
"""What may be imported, by module; PyTorch allows these too. It reads storages itself."""


class Unpickler(pickle.Unpickler):
    """Raises ``UnpicklingError`` where a file names anything else."""

    @override
    def find_class(self, module: str, name: str, /) -> Any:
        if name not in _VALUES.get(module, ()):
            raise pickle.UnpicklingError(f"GLOBAL {module}.{name} is no value")
        return super().find_class(module, name)


def load_values(file: Path, map_location: Any = "cpu", **options: Any) -> dict[str, Any]:
    """Return what a file of PyTorch holds; ``options`` are those of ``torch.load``.

    Raises:
        UnpicklingError: It holds code.
        RuntimeError, EOFError: It is damaged, or TorchScript.
    """
    import torch  # noqa: PLC0415 - slow

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol")
            values: dict[str, Any] = torch.load(file, map_location, weights_only=True, **options)
    except pickle.UnpicklingError:  # it may be of protocol 5; TorchScript is another error
        own = sys.modules[__name__]
        values = torch.load(file, map_location, pickle_module=own, weights_only=False, **options)
    return values


def load(file: IO[bytes], **options: Any) -> Any:
    """Return what a file holds; PyTorch calls this for its oldest format."""
    return Unpickler(file, **options).load()
