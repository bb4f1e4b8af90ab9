"""What a client exchanges with the server: one value that both sides ask.

The share of a model goes to the server and back; what it does not cover is personal: it stays with the client as private
state (FedPer: Arivazhagan et al. 2019, 1912.00818). A codec makes the change that a client sends smaller; it is computed on
the way out, and undone before anything is merged.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedsuite.arrays import Arrays, Form, Named, Share, forms_of, range_complaint, under_prefix
from fedsuite.errors import InputError, suggestion
from fedsuite.settings.values import check_callable, chosen, shown, tried

Shape = tuple[int, ...]
_NAME = re.compile(r"!?[\w.*-]+")
RESIDUAL = "residual."  # what a codec left out so far, in a client's private state
_PART = "/"  # between an array's name and that of a part of its coded form


@dataclass(frozen=True)
class Codec:
    """How one float32 array that is sent is coded.

    encode: the change of an array, float32 -> the parts that travel, by name; decode: (parts, shape of the array) -> the
    change that they stand for, ValueError if there is none; shapes: shape of the array -> shape and type of every part,
    which depend on nothing else. residual: what was left out is added to the client's next change (error feedback: Seide et
    al. 2014; Karimireddy et al. 2019, 1901.09847).
    """

    encode: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    decode: Callable[[Mapping[str, np.ndarray], Shape], np.ndarray]
    shapes: Callable[[Shape], Mapping[str, Form]]
    residual: bool = True


WORDS: Mapping[str, Share] = {"all": Share()}
CODECS: Mapping[str, Codec | None] = {"none": None}


@dataclass(frozen=True)
class Exchange:
    """share: what of the model travels; keeps: what of it stays with the client from round to round, "all", or the "rest".

    codec: of the changes that clients send.
    """

    share: Share = Share()
    keeps: Literal["rest", "all"] = "rest"
    codec: Codec | None = None

    @property
    def whole(self) -> bool:
        """Whether the server has the whole model."""
        return self.share == Share()

    @property
    def personal(self) -> bool:
        """Whether a client has a model of its own."""
        return self.keeps == "all" or not self.whole

    def kept(self, model: Mapping[str, np.ndarray]) -> Arrays:
        """What stays with the client of a model that it has trained, or starts from."""
        everything = self.keeps == "all"
        return {k: v for k, v in model.items() if everything or not self.share.covers(k)}

    def check(self, key: str, names: Collection[str]) -> None:
        """InputError where a part of the share is of no array of a model that has arrays of these `names`."""
        for pattern in (*self.share.prefixes, *self.share.but):
            if pattern and not any(Share((pattern,)).covers(name) for name in names):
                raise InputError(
                    f"{key}: no array is named {shown(pattern.rstrip('.'))}; {suggestion(pattern.rstrip('.'), names)}"
                )
        if self.share.prefixes and not any(map(self.share.covers, names)):
            raise InputError(f"{key}: leaves nothing to be shared; name arrays that stay in it")

    # --- coded changes -----------------------------------------------------------------------

    def coded(self, forms: Mapping[str, Form]) -> dict[str, Form]:
        """Of these arrays those that a codec codes: float32, with numbers in them."""
        given = forms if self.codec else {}
        return {k: f for k, f in given.items() if f[1] == "float32" and np.prod(f[0]) > 0}

    def wire(self, forms: Mapping[str, Form]) -> dict[str, Form]:
        """What travels in the place of arrays of these forms."""
        found, coded = dict(forms), self.coded(forms)
        for name, (shape, _) in coded.items():
            del found[name]
            assert self.codec is not None
            found |= {name + _PART + k: f for k, f in self.codec.shapes(shape).items()}
        return found

    def encode(
        self, start: Arrays, model: Arrays, residual: Mapping[str, np.ndarray]
    ) -> tuple[Arrays, Arrays]:
        """What travels of a trained model, and the next residual. start: the same arrays as they were received."""
        if self.codec is None:
            return model, {}
        coded = self.coded(forms_of(model))
        sent, left = {k: v for k, v in model.items() if k not in coded}, {}
        for name, (shape, _) in coded.items():
            change = model[name] - start[name] + residual.get(name, np.float32(0))
            parts = {k: np.asarray(v) for k, v in self.codec.encode(change).items()}
            sent |= {name + _PART + k: v for k, v in parts.items()}
            if self.codec.residual:
                left[name] = (change - self.codec.decode(parts, shape)).astype(np.float32)
        return sent, left

    def decode(self, start: Arrays, sent: Named) -> Arrays:
        """The model that was sent; ValueError where its parts stand for no finite change."""
        if self.codec is None:
            return dict(sent)
        found: Arrays = {}
        coded = self.coded(forms_of(start))
        for name in coded:
            change = self.codec.decode(under_prefix(sent, name + _PART), coded[name][0])
            found[name] = (start[name] + change).astype(np.float32)
        parts = tuple(name + _PART for name in coded)
        if complaint := range_complaint(found):
            raise ValueError(f"once it is decoded {complaint}")
        plain = {k: v for k, v in sent.items() if not k.startswith(parts)}
        both = {**plain, **found}
        return {k: both[k] for k in (*(k for k in start if k in both), *plain)}


WHOLE = Exchange()


def exchange_of(
    own: Any, names: Collection[str] = (), words: Mapping[str, Share] = WORDS
) -> Exchange:
    """What the section `federation` of a run says; InputError where it does not fit a model with arrays of these `names`."""
    key = "federation.share"
    exchange = Exchange(
        named_share(key, own.share, words), codec=chosen_codec("federation.codec", own.codec)
    )
    if names:
        exchange.check(key, names)
    return exchange


def exchange_of_rows(own: Any) -> Exchange:
    """What a section `federation` without a share says, for clients whose arrays have a row for each of their models."""
    codec = chosen_codec("federation.codec", own.codec)
    return Exchange(codec=by_row(codec) if codec else None)


def by_row(codec: Codec) -> Codec:
    """The codec of arrays [S, ...] whose S rows are coded one by one, each as an array of its own; so are its parts."""

    def encode(change: np.ndarray) -> Arrays:
        rows = [{k: np.asarray(v) for k, v in codec.encode(np.asarray(r)).items()} for r in change]
        return {k: np.stack([row[k] for row in rows]) for k in rows[0]}

    def decode(parts: Mapping[str, np.ndarray], shape: Shape) -> np.ndarray:
        rows = [{k: np.asarray(v[i]) for k, v in parts.items()} for i in range(shape[0])]
        return np.stack([codec.decode(row, shape[1:]) for row in rows])

    def shapes(shape: Shape) -> dict[str, Form]:
        own = codec.shapes(shape[1:])
        return {k: ((shape[0], *form), kind) for k, (form, kind) in own.items()}

    return Codec(encode, decode, shapes, codec.residual)


def named_share(key: str, text: str, words: Mapping[str, Share]) -> Share:
    """The share that `key = text` stands for: one of `words`, or names of arrays and of modules with commas between them.

    A name stands for all below it too, * for any characters; one after ! is left out, of all arrays if no others are named.
    """
    if text in words:
        return words[text]
    names = [name.strip() for name in text.split(",")]
    if bad := [name for name in names if not _NAME.fullmatch(name)]:
        raise InputError(
            f"{key}: {shown(text)} has {shown(bad[0])} where a name is expected; give {', '.join(words)}, or names of "
            'arrays or modules such as "encoder, !decoder.bias"'
        )
    own = tuple(f"{name}." for name in names if not name.startswith("!"))
    return Share(own or ("",), tuple(f"{name[1:]}." for name in names if name.startswith("!")))


def chosen_codec(key: str, name: str) -> Codec | None:
    """The codec that `key = name` stands for, tried on a small array; None for none."""
    codec: Any = chosen(key, name, CODECS)
    if codec is None:
        return None
    if not isinstance(codec, Codec):
        raise InputError(
            f"{key}: {name} is a {type(codec).__name__}, expected a Codec of fedsuite.averaging.exchange"
        )
    for function, takes in ((codec.encode, 1), (codec.decode, 2), (codec.shapes, 1)):
        check_callable(key, name, function, ("change", "shape")[:takes])
    change = np.array([[0.5, -2.0, 0.0], [1.0, 0.25, -0.125]], np.float32)
    with tried(key, name):
        parts = {k: np.asarray(v) for k, v in codec.encode(change).items()}
        forms = {k: (tuple(s), str(t)) for k, (s, t) in codec.shapes(change.shape).items()}
        found = codec.decode(parts, change.shape)
        if forms != forms_of(parts):
            raise ValueError(f"encode gives {forms_of(parts)}, shapes says {forms}")
        if np.shape(found) != change.shape:
            raise ValueError(f"decode gives an array {np.shape(found)} in place of {change.shape}")
    return codec
