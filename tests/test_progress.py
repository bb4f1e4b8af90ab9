"""How preparations say how far they are."""

from fedsuite.storage.progress import in_lines


def test_lines_say_what_began_and_of_many_things_only_that_all_are_done() -> None:
    said: list[str] = []
    progress = in_lines(said.append)
    progress("reading the corpus")
    for done in range(1, 4):
        progress("generated houses", done, 3)
    progress("found files", 7)  # nobody knows how many there are
    assert said == ["reading the corpus", "generated houses: 3"]
