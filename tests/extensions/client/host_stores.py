"""Vector stores as hosts have them: each ranks by the words that a text shares with a question."""

from dataclasses import dataclass, field


@dataclass
class Document:
    id: str
    content: str
    metadata: dict = field(default_factory=dict)


@dataclass
class SearchResult:
    document: Document
    score: float


class KeywordStore:
    """An asynchronous store, which other documents lie in, too."""

    def __init__(self):
        self.documents = {"foreign": Document("foreign", "A finding of somebody else about BWA and a kinase")}
        self.searches = []

    async def add_documents(self, documents):
        assert all(isinstance(one, Document) for one in documents)
        assert not self.documents.keys() & {one.id for one in documents}
        self.documents |= {one.id: one for one in documents}
        return [one.id for one in documents]

    async def search(self, query, search_type, top_k=10):
        assert search_type == "similarity"
        self.searches.append(query)
        words = set(query.casefold().split())
        found = [SearchResult(one, len(words & set(one.content.casefold().split()))) for one in self.documents.values()]
        return sorted(found, key=lambda one: -one.score)[:top_k]

    async def delete_documents(self, document_ids):
        for one in document_ids:
            self.documents.pop(one, None)
        return True


class PlainStore:
    """A store without coroutines that takes chunks, and returns ids alone, five at most."""

    def __init__(self):
        self.chunks = {}

    def add_document_chunks(self, chunks):
        self.chunks |= {one.id: one.content for one in chunks}

    def search(self, query, search_type):
        words = set(query.casefold().split())
        return sorted(self.chunks, key=lambda one: -len(words & set(self.chunks[one].casefold().split())))[:5]

    def delete_documents(self, ids):
        for one in ids:
            del self.chunks[one]


class IdsOfItsOwn(KeywordStore):
    """A store that keeps documents under ids that it makes."""

    async def add_documents(self, documents):
        made = [Document(f"own-{len(self.documents) + number}", one.content) for number, one in enumerate(documents)]
        return await super().add_documents(made)


class OutOfOrder(KeywordStore):
    """A store whose searches fail."""

    async def search(self, query, search_type):
        raise RuntimeError("the collection is locked")
