"""Names of code: which passages define, import and use what, as far as each says so itself."""

from treering.core.evidence import Definition
from treering.core.locator import Lines
from treering.core.objects import Object, Source
from treering.derived.projection import entries_of
from treering.ports.ledger import Selection
from treering.ports.passages import PassageRequest
from treering.ports.reach import Reach
from treering.testing.index_contract.stage import IndexedSpace, IndexStage, LedgerWriter
from treering.testing.index_questions import seen

_CART, _SHOP = ("def total(): ...",), ("from app import cart", "cart.total()")
_USED = "u py app/cart#total"


class CodeNames(IndexStage):
    """`Passages.read` with `PassageRequest.named`."""

    def test_a_passage_of_code_is_found_by_what_it_defines_imports_and_uses(self, space: IndexedSpace) -> None:
        cart, shop = _shop(space)
        first, second = space.key(shop), space.key(shop, 1)
        wanted = {
            "m py /app/cart": [space.key(cart)],
            "m py cart": [space.key(cart)],
            "d py /app/cart#total": [space.key(cart)],
            "i py app/cart": [first],
            _USED: [second],
        }
        assert named(space, seen(), *wanted, "i py cart", "m py art") == wanted
        [found] = space.index.passages.read([PassageRequest((), seen(), named=tuple(wanted))])
        assert set(found.heads) == {space.key(cart), first, second}
        require_the_names_of_the_ledger(space)

    def test_nothing_is_found_by_name_where_nobody_says_what_may_be_seen(self, space: IndexedSpace) -> None:
        _shop(space)
        [found] = space.index.passages.read([PassageRequest((), named=(_USED,))])
        assert dict(found.named) == {}

    def test_only_what_is_current_and_in_scope_is_found_by_name(self, space: IndexedSpace) -> None:
        _, shop = _shop(space, scope="/a")
        there = {_USED: [space.key(shop, 1)]}
        assert named(space, seen("/a"), _USED) == there
        assert named(space, seen("/b"), _USED) == {}
        assert named(space, seen(where={"type": "knowledge"}), _USED) == {}
        space.move(shop, "invalid")
        assert named(space, seen(), _USED) == named(space, seen(withdrawn=True), _USED) == {}
        space.move(shop, "active")
        assert named(space, seen(), _USED) == {_USED: [space.key(shop, 1)]}

    def test_a_text_that_stays_is_found_by_what_it_uses_now(self, space: IndexedSpace) -> None:
        _, shop = _shop(space)
        as_code(space, shop, "app/shop.py", "i app.till#", "c app.till#total")
        assert named(space, seen(), _USED, "u py app/till#total") == {"u py app/till#total": [space.key(shop, 1)]}
        require_the_names_of_the_ledger(space)

    def test_what_is_erased_is_found_by_no_name(self, space: IndexedSpace) -> None:
        cart, shop = _shop(space)
        space.erase(shop)
        assert named(space, seen(), _USED, "i py app/cart", "m py cart") == {"m py cart": [space.key(cart)]}
        assert list(space.index.upkeep.differences()) == []


def named(space: IndexedSpace, reach: Reach, *names: str) -> dict[str, list[int]]:
    """Return the passages found by each name of code, by key."""
    [found] = space.index.passages.read([PassageRequest((), reach, named=names)])
    return {name: sorted(keys) for name, keys in found.named.items()}


def as_code(space: LedgerWriter, item: Object, path: str, *uses: str) -> None:
    """Make the segments of a source Python code at a path, each of which uses one thing and defines `run`."""
    source = space.ledger.get(item.id)
    assert isinstance(source, Source)
    parts = []
    for at, part in enumerate(source.segments):
        place = Lines(path=path, start=at + 1, end=at + 1)
        defined = (Definition(name="total" if "def total" in part.excerpt else "run", first=1, last=1),)
        code = {"locator": place, "definitions": defined, "uses": uses[at : at + 1], "role": "code"}
        parts.append(part.model_copy(update=code).model_dump())
    space.update(item, segments=parts, metadata={"language": "python"})


def require_the_names_of_the_ledger(space: IndexedSpace) -> None:
    """Raise `AssertionError` where passages are found by other names than the ledger's current ones vouch for."""
    wanted: dict[str, list[int]] = {}
    for item in space.ledger.select(Selection(descend=True)):
        entries = [entry for entry in entries_of(item) if entry.passage.live]
        keys = space.keys(item) if entries else {}
        for entry in entries:
            for name in entry.code_names:
                wanted.setdefault(name, []).append(keys[entry.passage.part])
    assert named(space, seen(), *wanted) == {name: sorted(keys) for name, keys in wanted.items()}


def _shop(space: IndexedSpace, scope: str = "/") -> tuple[Source, Source]:
    cart = space.make.source(*_CART, origin="repo:x#app/cart.py", title="app/cart.py", scope=scope)
    shop = space.make.source(*_SHOP, origin="repo:x#app/shop.py", title="app/shop.py", scope=scope)
    space.commit(cart, shop)
    as_code(space, cart, "app/cart.py")
    as_code(space, shop, "app/shop.py", "i app#cart", "c app#cart.total")
    return cart, shop
