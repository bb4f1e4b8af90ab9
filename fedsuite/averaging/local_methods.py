"""The local methods that `federation.local-method` names, and how one of anybody's own is found."""

from collections.abc import Mapping

from fedsuite.averaging.local_method import PLAIN, LocalMethod
from fedsuite.averaging.personal.apfl import APFL
from fedsuite.averaging.personal.ditto import DITTO
from fedsuite.averaging.personal.fedrep import FEDREP
from fedsuite.averaging.personal.layer_mixing import LAYER_MIXING
from fedsuite.errors import InputError
from fedsuite.settings.values import check_callable, chosen

LOCAL_METHODS: Mapping[str, LocalMethod] = {
    "plain": PLAIN,
    "fedrep": FEDREP,
    "ditto": DITTO,
    "apfl": APFL,
    "layer-mixing": LAYER_MIXING,
}


def chosen_method(key: str, name: str) -> LocalMethod:
    """The method that `key = name` stands for; InputError if there is none."""
    method = chosen(key, name, LOCAL_METHODS)
    if not isinstance(method, LocalMethod):
        raise InputError(
            f"{key}: {name} is a {type(method).__name__}, expected a LocalMethod of fedsuite.averaging.local_method"
        )
    check_callable(key, name, method.train, ("visit",))
    check_callable(key, name, method.scored, ("received", "kept"))
    return method
