"""Wrong types of arguments: the error names the argument, what it takes, and what was given."""

import functools
import inspect
import numbers
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, is_typeddict

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class _Kind:
    """What an argument may be."""

    accepts: Callable[[object], bool]
    words: str
    values: "_Kind | None" = None
    """What the values of a dictionary may be."""

    def check(self, label: str, value: object) -> None:
        if not self.accepts(value):
            raise TypeError(f"{label}: expected {self.words}, not {named(value)}")
        if self.values and isinstance(value, Mapping):
            for key, one in value.items():
                self.values.check(f"{label} {key}", one)


_ANYTHING = _Kind(lambda _: True, "anything")
_PLAIN: dict[object, _Kind] = {
    Any: _ANYTHING,
    object: _ANYTHING,
    type(None): _Kind(lambda value: value is None, "None"),
    bool: _Kind(lambda value: isinstance(value, bool), "True or False"),
    # Numbers of NumPy are numbers, too; True is none.
    int: _Kind(lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool), "a whole number"),
    float: _Kind(lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool), "a number"),
    str: _Kind(lambda value: isinstance(value, str), "a text"),
    type: _Kind(callable, "a class"),
    os.PathLike: _Kind(lambda value: isinstance(value, os.PathLike), "a path"),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that checks the types of its arguments by its annotations. (Annotations that are texts are not looked at.)

    Raises:
        TypeError: an argument has another type.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    kinds = {name: _kind(one.annotation) for name, one in parameters.items() if not isinstance(one.annotation, str)}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            # Python says it better: an argument is missing, or unknown.
            return function(*args, **kwargs)
        for name, value in given.items():
            several = parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            for label, one in value.items() if several else [(name, value)]:
                kinds.get(name, _ANYTHING).check(label, one)
        return function(*args, **kwargs)

    return call


def named(value: object) -> str:
    """What was given, in a few words."""
    if isinstance(value, list | tuple | set) and value:
        kinds = sorted({type(one).__name__ for one in value})
        return f"a {type(value).__name__} of {' and '.join(kinds)}"
    return "None" if value is None else type(value).__name__


def _kind(annotation: object) -> _Kind:
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is inspect.Parameter.empty:
        return _ANYTHING
    if is_typeddict(annotation):
        return _Kind(lambda value: isinstance(value, Mapping), "a dictionary")
    if origin is Annotated:
        return _Kind(_kind(inner[0]).accepts, str(inner[1]))
    if origin in (types.UnionType, Union):
        return _one_of([_kind(one) for one in inner])
    if origin is Literal:
        # Which words they are, the function says.
        return _PLAIN[str]
    if origin is Callable:
        return _Kind(callable, "a function")
    if origin is Mapping:
        values = _kind(inner[1])
        return _Kind(lambda value: isinstance(value, Mapping), "a dictionary", values)
    if origin in (Iterable, Sequence):
        return _several(_kind(inner[0]))
    if (plain := _PLAIN.get(origin or annotation)) is not None:
        return plain
    assert isinstance(annotation, type), annotation
    return _Kind(lambda value: isinstance(value, annotation), f"a {annotation.__name__}")


def _one_of(kinds: Sequence[_Kind]) -> _Kind:
    words = list(dict.fromkeys(kind.words for kind in kinds))
    if "anything" in words:
        return _ANYTHING
    if "a path" in words and "a text" in words:
        words.remove("a text")
    *first, last = words
    text = f"{', '.join(first)} or {last}" if first else last
    values = next((kind.values for kind in kinds if kind.values), None)
    return _Kind(lambda value: any(kind.accepts(value) for kind in kinds), text, values)


def _several(each: _Kind) -> _Kind:
    def accepts(value: object) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        # What can be read only once is not read here.
        return not isinstance(value, Collection) or all(map(each.accepts, value))

    return _Kind(accepts, "a list of values" if each is _ANYTHING else f"a list of which each is {each.words}")
