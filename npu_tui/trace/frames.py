"""Frames of Python: ``train.py(160): main``, and whose code they are."""

from __future__ import annotations

import re
import sys

FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): ?(?P<function>.*)", re.DOTALL)
BETWEEN = ";\r\n"
"""What stands between the frames of a call stack, the innermost of which comes first."""

_LIBRARIES = frozenset({"site-packages", "dist-packages", "torch", "torch_npu"})
_STANDARD_LIBRARY = re.compile(r"(?:^|[/\\])lib[/\\]python3\.[^/\\]*[/\\]")
_MODULES = re.compile(
    r"(?:abc|argparse|asyncio|collections|concurrent|contextlib|copy|copyreg|dataclasses|enum|functools|heapq|importlib"
    r"|inspect|json|logging|multiprocessing|pickle|posixpath|queue|re|runpy|selectors|socket|subprocess|threading|typing"
    r"|types|uuid|warnings|weakref|_collections_abc|_weakrefset)(?:\.py)?"
)
"""Modules of the standard library, whose folder Kineto leaves out: ``enum.py(1266): __hash__``."""


# C++ and the interpreter, which ``stacks="all"`` records too, some of it without a file.
_NATIVE = re.compile(
    r"\?\?|\(\d+\): |$|[^(]*(?:\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|inl|so[.\d]*)|(?:^|/)python[.\d]*)(?:\(\d+\): |$)"
)


def is_native(frame: str) -> bool:
    """Whether ``frame``, or the file of one, is not of Python."""
    return _NATIVE.match(frame) is not None


def is_of_user(file: str) -> bool:
    """Whether ``file`` is neither of a library nor of Python itself."""
    # "<string>" is code that dataclasses and namedtuples generate.
    if file.startswith("<") or is_native(file) or _STANDARD_LIBRARY.search(file):
        return False
    parts = re.split(r"[/\\]", file)
    return _MODULES.fullmatch(parts[0]) is None and _LIBRARIES.isdisjoint(parts)


# Packages that training and inference import: profilers cut their folder off as they do that of the program.
_PACKAGES = frozenset(
    """IPython accelerate aiohttp apex cv2 datasets deepspeed diffusers einops fsspec h5py huggingface_hub joblib
    lightning matplotlib mindspeed numba numpy nltk omegaconf openpyxl pandas peft PIL psutil pyarrow pydantic
    pytorch_lightning ray redis regex requests safetensors scipy sentencepiece skimage sklearn sqlalchemy swanlab sympy
    tensorboard tensorboardX tiktoken timm tokenizers torchaudio torchdata torchvision tqdm transformers triton trl
    urllib3 wandb yaml zmq""".split()  # noqa: SIM905 - a list of names reads better
)


def is_of_program(file: str) -> bool:
    """Whether ``file`` is the program's own: of the user, and of no module or well-known package by its first name."""
    first = re.split(r"[/\\]", file)[0].removesuffix(".py")
    return is_of_user(file) and first not in _PACKAGES and first not in sys.stdlib_module_names


NO_STACK = "no stack"
"""Stands for the function that allocated memory, where no stack tells it."""


OPERATION = "<operation>(0): "
"""Begins a frame that names an operation of PyTorch, of a writer that tells these instead of lines."""


def function_of(stack: str) -> str:
    """The function of the innermost frame of Python in ``stack``, a frame a line, else of its innermost frame."""
    frames = stack.split("\n")
    return next((frame for frame in frames if not is_native(frame)), frames[0]).rpartition(": ")[2].rstrip(";")
