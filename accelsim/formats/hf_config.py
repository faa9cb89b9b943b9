"""Hugging Face ``config.json``: a transformer by its published architecture fields, without its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accelsim.errors import FormatError, UnknownName, WorkloadError
from accelsim.formats.hf_gpt_models import (
    BITS,
    BertConfig,
    BloomConfig,
    Config,
    FalconConfig,
    Gpt2Config,
    GptJConfig,
    GptNeoXConfig,
    OptConfig,
    PhiConfig,
)
from accelsim.formats.hf_llama_models import (
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)
from accelsim.units import did_you_mean
from accelsim.workload.graph import Workload
from accelsim.workload.models.language import language_workload
from accelsim.yaml_source import read_text

MODEL_TYPES: dict[str, type[Config]] = {
    "bert": BertConfig,
    "bloom": BloomConfig,
    "falcon": FalconConfig,
    "gemma": GemmaConfig,
    "gpt2": Gpt2Config,
    "gpt_neox": GptNeoXConfig,
    "gptj": GptJConfig,
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "mixtral": MixtralConfig,
    "opt": OptConfig,
    "phi": PhiConfig,
    "phi3": Phi3Config,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "qwen3_moe": Qwen3MoeConfig,
}


def read_hf_config(
    path: str | Path,
    *,
    phase: str = "prefill",
    sequence_length: int | None = None,
    context_length: int | None = None,
    logits: str = "all",
    bits: int | None = None,
) -> Workload:
    """Reads a ``config.json`` as a workload of one sample, named after its model type and phase.

    Phase and lengths as :func:`accelsim.workload.models.language.language_workload` takes them. ``bits`` per element
    are those of the file's ``torch_dtype`` unless given, and 8 where it has none.

    Raises:
        FormatError: the file cannot be read, is no JSON object, or has fields of the wrong type or out of range; all
            such mistakes at once.
        UnknownName: a ``model_type`` that is not known.
        WorkloadError: numbers that do not fit together, or lengths out of range.
    """
    return parse_hf_config(
        read_text(Path(path), FormatError),
        str(path),
        phase=phase,
        sequence_length=sequence_length,
        context_length=context_length,
        logits=logits,
        bits=bits,
    )


def parse_hf_config(text: str, place: str, *, bits: int | None = None, **options: Any) -> Workload:
    """As :func:`read_hf_config`, from the text itself; ``place`` is what messages call it."""
    config = _parse(text, place)
    if bits is None:
        bits = 8 if config.torch_dtype is None else BITS[config.torch_dtype]
    try:
        return language_workload(config.architecture(), bits=bits, **options)
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from None


def _parse(text: str, place: str) -> Config:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise FormatError(f"{place}: not readable as JSON: {error}") from None
    if not isinstance(content, dict) or "model_type" not in content:
        raise FormatError(f"{place}: not the configuration of a model: expected an object with a field model_type")
    kind = content["model_type"]
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        near = did_you_mean(kind, MODEL_TYPES) if isinstance(kind, str) else ""
        raise UnknownName(f"{place}: model_type: found {kind!r}{near}; known are {', '.join(MODEL_TYPES)}")
    try:
        return MODEL_TYPES[kind].model_validate(content)
    except ValidationError as error:
        lines = []
        for mistake in error.errors(include_url=False):
            field = ".".join(str(part) for part in mistake["loc"])
            found = repr(mistake["input"])
            shown = found if len(found) <= 60 else found[:57] + "..."
            message = mistake["msg"]
            lines.append(f"{place}: {field}: found {shown}; {message[:1].lower()}{message[1:]}")
        raise FormatError("\n".join(lines)) from None
