"""Short ways to ask the parts of an index for one thing."""

import numpy as np

from treering.ports.passages import PassageRequest
from treering.ports.reach import Reach
from treering.ports.text import NamePart, TextRequest
from treering.ports.vectors import NearRequest

EVERYWHERE = Reach("/", descend=True)


def search_text(index, reach, limit, **wanted):
    """Search by text; return what was found in each arm."""
    (found,) = index.text.search([TextRequest(reach, limit, **wanted)])
    return found


def by_words(index, query, *, reach, limit):
    """Rank by the words and phrases of a query."""
    return list(search_text(index, reach, limit, words=(*query.words, *query.phrases)).words)


def by_names(index, query, *, reach, limit):
    """Rank by parts of names."""
    return list(search_text(index, reach, limit, names=tuple(map(NamePart, query.identifiers))).names)


def by_place(index, text, *, reach, limit):
    """Rank by an id, path, title or the end of one."""
    return list(search_text(index, reach, limit, place=text).places)


def by_days(index, asked, *, reach, limit):
    """Rank turns by the days asked for."""
    return list(search_text(index, reach, 1, days=tuple(asked), days_limit=limit).days)


def knows(index, words, *, reach):
    """Return those of the terms that occur in anything current."""
    return search_text(index, reach, 1, known=tuple(words)).known


def near(index, vector, *, reach, limit):
    """Return the cosines of the nearest passages, best first, by key."""
    (found,) = index.vectors.search([NearRequest(reach, (vector,), (limit,))])
    return dict(sorted(found.cosines[0].items(), key=lambda pair: (-pair[1], pair[0])))


def cosines(index, vector, keys):
    """Return the cosines of those of the keys that have a vector."""
    (found,) = index.vectors.search([NearRequest(EVERYWHERE, (vector,), (0,), tuple(keys))])
    return dict(found.cosines[0])


def read(index, keys, reach=None, **wanted):
    """Read passages by key."""
    (found,) = index.passages.read([PassageRequest(tuple(keys), reach, **wanted)])
    return found


def heads(index, keys):
    """Return the heads of passages."""
    return read(index, keys).heads


def visible(index, keys, *, reach):
    """Return those of the keys that a read in reach may see."""
    return read(index, keys, reach).visible


def beside(index, keys):
    """Return the turns before and after turns."""
    return read(index, keys, beside=True).beside


def on_days(index, asked, keys):
    """Return how well passages tell of days."""
    return read(index, keys, days=tuple(asked)).dated


def names_in(view, keys):
    """Return the entities and objects that passages are tied to, by name."""
    edges = view.edges(view.of_passages(np.array(keys, np.int64)))
    return set(view.names(edges.target.tolist()).values())
