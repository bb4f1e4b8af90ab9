"""What the arrays of a model tell: which model it is, its sizes, and where two of them differ."""

from collections.abc import Collection, Mapping

Shapes = Mapping[str, tuple[int, ...]]
AGENT, SPEAKER, ENCODER = "an agent", "a speaker", "a language encoder without an agent"
WORDS, VIEWS, DEAD = "words", "view width", "agent.dead-layers"
_MARKS = {  # by the beginning of a name that no other model has
    "encoder.attention.": SPEAKER,
    "decoder.to_words.": SPEAKER,
    "critic.": AGENT,
    "decoder.candidate_attention.": AGENT,
    "encoder.to_hidden.": ENCODER,
}
_STAGES = {AGENT: "train or augment", SPEAKER: "speaker", ENCODER: "pre-explore"}
_AGENT_SIZES = {
    WORDS: ("encoder.embedding.weight", 0),
    "agent.word-embedding-size": ("encoder.embedding.weight", 1),
    "agent.hidden-size": ("encoder.to_hidden.weight", 0),
    "agent.action-embedding-size": ("decoder.action.weight", 0),
    "agent.angle-feature-size": ("decoder.action.weight", 1),
    VIEWS: ("decoder.view_attention.query.weight", 0),
}
_SPEAKER_SIZES = {
    WORDS: ("decoder.embedding.weight", 0),
    "agent.word-embedding-size": ("decoder.embedding.weight", 1),
    "agent.hidden-size": ("decoder.lstm.weight_hh_l0", 1),
    VIEWS: ("encoder.attention.query.weight", 0),
}
_DEAD = (
    "decoder.view_attention.output.",
    "decoder.candidate_attention.output.",
    "decoder.baseline.",
)


def kind_of(names: Collection[str]) -> str:
    """AGENT, SPEAKER or ENCODER; "" if the names are of none of them."""
    found = (kind for mark, kind in _MARKS.items() if any(n.startswith(mark) for n in names))
    return next(found, "")


def is_dead(name: str) -> bool:
    """Whether an array belongs to a layer that never gets a gradient."""
    return name.startswith(_DEAD)


def sizes_of(shapes: Shapes) -> dict[str, int]:
    """Sizes by the key that sets them, WORDS and VIEWS: the width of a view and its angles; what is not there is left out.

    DEAD: 1 if the layers that are never trained are there.
    """
    places = _SPEAKER_SIZES if kind_of(shapes) == SPEAKER else _AGENT_SIZES
    sizes = {
        key: shapes[name][axis]
        for key, (name, axis) in places.items()
        if len(shapes.get(name, ())) > axis
    }
    return {**sizes, DEAD: int(any(map(is_dead, shapes)))}


def _decoder(names: Collection[str]) -> set[str]:
    return {name for name in names if name.startswith("decoder.") and not is_dead(name)}


def difference(theirs: Shapes, ours: Shapes, words_file: str) -> str:
    """The setting in which a model differs from this run's, and what to do about it; "" if no setting accounts for it.

    words_file: where the words of their model stand.
    """
    wanted, found = kind_of(ours), kind_of(theirs)
    lacking = sorted(ours.keys() - theirs.keys())
    if wanted and found and wanted != found and lacking:
        what = f"is {found}, where {wanted} is needed (it lacks {lacking[0]})"
        return f"{what}; give a run of stage {_STAGES[wanted]}"
    here, there = _decoder(ours), _decoder(theirs)
    if wanted == found == AGENT and here - there and there - here:
        return "has another decoder; set agent.decoder as in the run that it comes from"
    own, other = sizes_of(ours), sizes_of(theirs)
    for key in (k for k in own if k in other and own[k] != other[k]):
        if key == WORDS:
            return (
                f"knows {other[key]} words, this run {own[key]}; use the data of the run it comes from, or its words "
                f"with data.vocabulary={words_file}"
            )
        if key == VIEWS:
            return (
                f"sees views and angles of together {other[key]} numbers, this run's have {own[key]}; give "
                "data.features of the width that it was trained with"
            )
        if key == DEAD:
            with_, value = ("with", "true") if other[key] else ("without", "false")
            return f"is {with_} the layers that are never trained; set {DEAD}={value}"
        return f"has {key} {other[key]}, this run {own[key]}; set {key}={other[key]}"
    return ""
