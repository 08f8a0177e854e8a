"""Random histories with an erasure at the end, and a search for the erased words in the bytes of all files."""

import random

import pytest

from space_parts import decide
from treering.stores.sqlite.free_space import _used_free_space

PAGE = 4096
COMMON = [f"word{number}" for number in range(60)]


class History:
    """Sources with words that occur nowhere else, added, changed and erased at random."""

    def __init__(self, space, seed):
        self.space = space
        self.chance = random.Random(seed)
        self.words: dict[str, set[str]] = {}
        """The words that only this source has or had, by id."""
        self.origins: dict[str, str] = {}

    def word(self):
        return "".join(self.chance.choices("bcdfghjklmnpqrstvwxz", k=12))

    def text(self, words):
        """A text with these words, long enough to be compressed or not, of one or several paragraphs."""
        common = self.chance.choices(COMMON, k=self.chance.choice([4, 30, 200]))
        mixed = [*common, *words]
        self.chance.shuffle(mixed)
        cut = self.chance.randrange(len(mixed))
        return " ".join(mixed[:cut]) + "\n\n" + " ".join(mixed[cut:])

    def write(self, origins):
        """Write a source for each origin, or the next version of it."""
        items, new = [], {}
        for origin in origins:
            new[origin] = {self.word() for _ in range(4)}
            title = self.word()
            items.append({"kind": "note", "origin": origin, "title": title, "text": self.text(new[origin])})
            new[origin].add(title)
        report = self.space.ingest("source", input={"items": items}, options={"max_items": 100})
        for result, origin in zip(report.items, origins, strict=True):
            source = result.source_id
            self.words.setdefault(source, {self.origins.setdefault(source, origin)}).update(new[origin])

    def grow(self):
        for _ in range(6):
            known = list(self.origins.values())
            changed = self.chance.sample(known, min(len(known), 3))
            self.write([*changed, *(f"{self.word()}.md" for _ in range(self.chance.choice([1, 8])))])
        self.space.embed_pending()

    def erase(self):
        """Erase a source and a decision about it; return the words that must be gone."""
        source = self.chance.choice(list(self.words))
        words = {self.word(), *self.words.pop(source)}
        title = " ".join(sorted(words)[:1])
        known = decide(self.space, f"Use {title} for everything", source)
        del self.origins[source]
        assert self.space.erase([source, known]).remaining == ()
        return words


def parts_of(words):
    """Return what files contain of words: also reversed, and without a beginning that FTS5 takes from another term."""
    return {part.encode() for word in words for part in (word, word[::-1], word[4:], word[4:][::-1])}


def left_in(folder, words):
    data = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {(name, part) for name, content in data.items() for part in parts_of(words) if part in content}


def used_free_space(file):
    content = file.read_bytes()
    return list(_used_free_space(content, PAGE, PAGE))


@pytest.mark.parametrize("seed", range(3))
def test_no_file_contains_a_word_of_an_erased_source(open_space, tmp_path, seed):
    file = tmp_path / "space.db"
    history = History(open_space(f"sqlite:{file}", channel="user"), seed)
    history.grow()
    for _ in range(3):
        words = history.erase()
        assert left_in(tmp_path, words) == set()
        assert used_free_space(file) == []
        history.write([f"{history.word()}.md"])
    assert history.space.lint("structure").findings == ()
    assert history.space.engine.index.upkeep.differences() == []
    history.space.engine.ledger.verify()


def test_a_merge_that_erases_leaves_no_word(open_space, tmp_path):
    history = History(open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user"), 7)
    history.grow()
    history.space.backup(tmp_path / "copy.db")
    words = history.erase()
    copy = open_space(f"sqlite:{tmp_path / 'copy.db'}", channel="user")
    assert left_in(tmp_path, words)
    assert copy.merge(f"sqlite:{tmp_path / 'space.db'}").warnings == ()
    assert left_in(tmp_path, words) == set()
