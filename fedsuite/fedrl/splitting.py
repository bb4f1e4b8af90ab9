"""What each party of FedRL may have, split from a file that has it all: `fedsuite data split-parties`.

FOLDER/PARTY/ is then that party's data.dir, with a file of the name that a run looks for. Maps: alpha, whose rewards follow
from the paths, has the file as it is; beta and gamma have maps and starts (gridworld/own_maps.py). Texts: alpha has tags and
labels, beta has words (text2action/own_texts.py).
"""

from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.fedrl.gridworld.own_maps import write_own_maps
from fedsuite.fedrl.gridworld.reader import file_of, read_maps
from fedsuite.fedrl.text2action.own_texts import PARTIES, write_own_texts
from fedsuite.fedrl.text2action.reader import read_file
from fedsuite.storage.files import make_private, write_atomically

MAPS, TEXTS = ".npz", ".json.gz"


def split_parties(source: Path, folder: Path, parties: int, task: str) -> list[str]:
    """Write FOLDER/PARTY/ for each of the parties, two or three; task: of texts, "" = names. Their names.

    InputError if `source` cannot be read, is a party's own already, or has nothing for so many parties.
    """
    if source.name.endswith(MAPS):
        if task:
            raise InputError(
                "--task: texts alone have one, maps are split alike for all; leave it out"
            )
        return _split_maps(source, folder, ("alpha", "beta", "gamma")[:parties])
    if source.name.endswith(TEXTS):
        if parties > len(PARTIES):
            raise InputError("--parties: texts have two parties, a third exists for maps only")
        return _split_texts(source, folder, task or "names")
    raise InputError(
        f"{source}: expected maps (frl_grid_N.npz) or texts (t2a_NAME.json.gz); name such a file"
    )


def _split_maps(source: Path, folder: Path, parties: tuple[str, ...]) -> list[str]:
    if not source.is_file():
        raise InputError(f"{source}: no such file; name one of frl_grid_N.npz")
    maps = read_maps(source, 0, "fetch it again, or generate it anew")
    _check_whole(source, maps.party)
    for party in parties:
        make_private(folder / party)
        file = file_of(folder / party, maps.size)
        if party == "alpha":
            write_atomically(file, source.read_bytes())
        else:
            write_own_maps(file, maps, party)
    return list(parties)


def _split_texts(source: Path, folder: Path, task: str) -> list[str]:
    corpus = read_file(source)
    _check_whole(source, corpus.own.party if corpus.own else "")
    for party in PARTIES:
        make_private(folder / party)
        write_own_texts(folder / party / source.name, corpus, party, task)
    return list(PARTIES)


def _check_whole(source: Path, party: str) -> None:
    if party:
        raise InputError(
            f"{source}: holds what {party} alone may have; name the file that it was split from"
        )
