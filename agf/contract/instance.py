"""An object made of copies of its arguments, which it remembers: what a run file records, and a pickle rebuilds."""

from __future__ import annotations

import inspect
import re
from abc import ABC, ABCMeta
from typing import Any

from agf.asked import refuse
from agf.contract.copies import copied, frozen
from agf.errors import ProblemError, explain

#: What Python says of a property to which a value is given.
_NO_SETTER = re.compile(r"property '(\w+)' of .* has no setter")


class _FromCopies(ABCMeta):
    """Makes instances from copies of their arguments: what a caller does to his arrays afterwards changes nothing."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*copied(args), **copied(kwargs))
        except Exception as error:
            refuse(cls, args, kwargs, error)
            if isinstance(error, AttributeError) and (fixed := _NO_SETTER.search(str(error))):
                name = fixed[1]
                words = f"`{name}` is a property, and a value is set for it."
                remedy = f"The class returns it, or has a plain {name} = None for __init__ to set, and no property."
                raise ProblemError(explain(words, where=f"class {cls.__name__}", remedy=remedy)) from error
            raise

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, cls._taken(name, value))

    def _taken(cls, name: str, value: Any) -> Any:
        """What the class is given under a name after it was made, as it is kept."""
        return value

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the constructor takes, for `help` and editors."""
        taken = inspect.signature(cls.__init__)  # type: ignore[misc]
        return taken.replace(parameters=list(taken.parameters.values())[1:])


class Instance(ABC, metaclass=_FromCopies):
    """Made of copies of its arguments, and built again from them when it is unpickled or deep-copied."""

    #: Constructor arguments as given, for run files.
    arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
        except TypeError:
            self.arguments = {}  # __init__ is about to raise the same, with its own message
        else:
            given = dict(list(bound.arguments.items())[1:])
            given.update(given.pop("kwargs", {}))
            self.arguments = frozen(given)
        return self

    def __reduce__(self) -> Any:
        return _built, (type(self), self.arguments)


def _built(cls: type[Instance], arguments: dict[str, Any]) -> Instance:
    return cls(**arguments)
