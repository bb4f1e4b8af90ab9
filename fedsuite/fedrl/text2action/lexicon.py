"""The words of the generated how-to texts: four topics, each with verbs, nouns and adjectives, and words for all.

Many words are both verbs and nouns ("click", "print", "cut", "water"), as in real instructions.
"""

from dataclasses import dataclass


def _words(text: str) -> tuple[str, ...]:
    """The different words of a text."""
    return tuple(dict.fromkeys(text.split()))


@dataclass(frozen=True)
class Topic:
    """Base forms of verbs, nouns (singular) and adjectives, each the most frequent first."""

    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]


COMPUTER = Topic(
    _words(
        "click open type select close press save drag set start print choose enter copy clear change check move "
        "search scroll install rename delete tap turn restart type switch log point paste view sort share filter "
        "format display update record scan mark lock list mail name drop reset connect insert"
    ),
    _words(
        "menu button window file folder box name icon list password tab page printer screen key file link message "
        "account keyboard panel search setting start copy program document tool toolbar option cursor click picture "
        "disk cable monitor print address field address format view mouse network change update table scan record "
        "display share column server filter drive letter mail backup switch paste driver desktop line lock font "
        "border layout modem signal speaker archive template browser"
    ),
    _words(
        "new right default blank local main next large small remote hidden correct current second empty advanced "
        "active shared public recent temporary bold"
    ),
)
KITCHEN = Topic(
    _words(
        "add mix heat stir pour cut place cook boil cover remove chop serve bake drain peel slice rinse season dry "
        "wash grate melt fill fry roast cool whisk spread roll fold squeeze butter salt chill sprinkle layer grill "
        "top crush simmer dust toast freeze soak steam knead glaze oil"
    ),
    _words(
        "water bowl oil salt pan butter onion sugar mix pot oven flour heat egg sauce dough lid knife pepper milk "
        "cheese spoon cover rice garlic tray plate cream potato tomato juice towel lemon cut slice soup fork chicken "
        "roll sieve stock yeast noodle layer steam carrot honey mushroom grill bean vinegar toast cake top bread "
        "season peel dish glaze basil chop crust filling blender ginger"
    ),
    _words(
        "large hot cold small fresh warm deep clean dry medium thick whole soft ripe thin sharp golden heavy raw "
        "sweet smooth crisp"
    ),
)
GARDEN = Topic(
    _words(
        "plant water dig cut remove cover place trim spread fill rake mow pull prune clear loosen clean sow spray "
        "mulch weed tie fertilize move harvest pick edge shovel stake seed pot gather shade transplant thin support "
        "level soak dump hose dust drain fence label burn scatter line turn"
    ),
    _words(
        "soil plant water seed hole root pot bed shovel leaf garden tree flower hose bulb branch lawn weed fence "
        "bucket rake compost stem cut bag mulch grass row stake shade edge cover spray bush glove wall moss insect "
        "gravel harvest path vine label layer wheelbarrow stone dust line support drain pick string pond sprout "
        "blossom hedge cutting ladder net trellis burlap straw level turn"
    ),
    _words(
        "dry wet young deep dead new loose small healthy tall shallow sunny rich sandy strong bare early old long "
        "sharp wooden green"
    ),
)
REPAIR = Topic(
    _words(
        "remove turn place clean cut paint drill attach sand tighten check measure replace pull screw push apply wipe "
        "loosen mark fill glue cover hammer lift fit nail seal wash test brush dry patch align scrape saw clamp coat "
        "file hook bolt plug level tape oil strip wire twist polish charge line secure"
    ),
    _words(
        "screw wall board paint hole wire pipe nut bolt cover drill handle hammer battery panel tape nail valve surface "
        "glue saw cut edge brush switch door cloth seal plug engine tire patch coat file frame hinge joint chain level "
        "filter wrench mark hook oil test bracket tile gasket lever fuse charge clamp pedal drain lamp polish rim "
        "socket washer shelf ladder putty rod spring motor"
    ),
    _words(
        "loose old new clean rusty sharp flat wooden small heavy rough thin electric dirty broken steel wet plastic "
        "upper lower front rear"
    ),
)
TOPICS = (COMPUTER, KITCHEN, GARDEN, REPAIR)

ADVERBS = _words("carefully slowly again well gently quickly evenly twice firmly thoroughly")
OPENERS = _words("then next now first finally afterwards")
PREPOSITIONS = _words("in on with from under near into beside over behind")
PEOPLE = _words("beginners people experts neighbors children users owners")
STATES = _words("ready visible damaged warm full stuck safe important ugly useful complete")
EVENTS = _words("happens appears works moves stops opens closes changes breaks starts falls")
DOUBLED = frozenset(_words("cut set chop stir plug scan drag drop pot dig trim tap log top strip"))


def third_person(verb: str) -> str:
    """opens, presses, dries."""
    if verb.endswith(("s", "x", "ch", "sh", "z")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def gerund(verb: str) -> str:
    """mixing, placing, cutting."""
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + "ing"
