"""Recipes: functions from a few parameters to a Workload. A new one is a function and a line here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import get_args

from accelsim.errors import UnknownName, WorkloadError
from accelsim.units import did_you_mean
from accelsim.workload.graph import Workload
from accelsim.workload.models import plain_cnn
from accelsim.workload.models.cnn import inception_resnet_v1, resnet
from accelsim.workload.models.language_recipes import bert, gpt2, llama
from accelsim.workload.models.micro import blocked, matmul_chain, stream, strided, vector
from accelsim.workload.models.randwire import randwire
from accelsim.workload.models.transformer import gpt2_decode, gpt2_prefill

RECIPES: dict[str, Callable[..., Workload]] = {
    "cnn.inception_resnet_v1": inception_resnet_v1,
    "cnn.resnet": resnet,
    "micro.blocked": blocked,
    "micro.matmul_chain": matmul_chain,
    "micro.stream": stream,
    "micro.strided": strided,
    "micro.vector": vector,
    "plain_cnn.inception_resnet_v1": plain_cnn.inception_resnet_v1,
    "plain_cnn.mobilenet_v2": plain_cnn.mobilenet_v2,
    "plain_cnn.resnet": plain_cnn.resnet,
    "language.bert": bert,
    "language.gpt2": gpt2,
    "language.llama": llama,
    "randwire.randwire": randwire,
    "transformer.gpt2_decode": gpt2_decode,
    "transformer.gpt2_prefill": gpt2_prefill,
}


def build(model: str, parameters: Mapping[str, object]) -> Workload:
    """The workload of a recipe.

    Args:
        model: a name in :data:`RECIPES`.
        parameters: values for the recipe's parameters, by name; the others keep their defaults.

    Raises:
        UnknownName: no such recipe, or it has no such parameter.
        WorkloadError: a value of the wrong type, or one that the recipe refuses.
    """
    if model not in RECIPES:
        raise UnknownName(f"no recipe '{model}'{did_you_mean(model, RECIPES)}; there are {', '.join(RECIPES)}")
    known = inspect.signature(RECIPES[model], eval_str=True).parameters
    for name, value in parameters.items():
        if name not in known:
            raise UnknownName(
                f"recipe '{model}' has no parameter '{name}'{did_you_mean(name, known)}; it has {', '.join(known)}"
            )
        kind = known[name].annotation
        if get_args(kind):  # int | None: it may be left out
            kind = get_args(kind)[0]
            if value is None:
                continue
        allowed = (int, float) if kind is float else (kind,)
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise WorkloadError(f"recipe '{model}', parameter '{name}': found {value!r}; expected {_EXPECTED[kind]}")
    return RECIPES[model](**parameters)


_EXPECTED = {int: "a whole number", float: "a number", str: "a text"}
