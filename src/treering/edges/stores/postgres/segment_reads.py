"""Segments, read and checked: what a segment costs does not depend on how large its source is."""

from collections.abc import Callable, Iterable, Sequence

from treering.core.evidence import Segment
from treering.edges.ledger_rows.packing import unpack, unpack_json
from treering.edges.ledger_rows.read_checks import HINT, Body, SourceParts, Stored, unreadable, unreadable_segment
from treering.edges.ledger_rows.row_failures import row_of
from treering.edges.stores.postgres.columns import body_of
from treering.edges.stores.postgres.revision_reads import ONE_REVISION, TEXTS, RevisionReads
from treering.ports.ledger import Altered, noted


class SegmentReads(RevisionReads):
    """The segments of one space, in a transaction, checked as its revisions are."""

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the words a segment id stands for, also where the segment has vanished from its source."""
        segment = self.segment(source_id, segment_id)
        return segment.excerpt if segment else None

    def segment(self, source_id: str, segment_id: str) -> Segment | None:
        """Return a segment as it last stood in its source, also one that has vanished from it."""
        sql = f"SELECT s.vanished, s.place, t.body {TEXTS} s.source_id = %(source)s AND s.segment_id = %(segment)s"
        rows = self._transaction.rows(sql, source=source_id, segment=segment_id)
        if not rows:
            self._require_absent([(source_id, segment_id)], None)
            return None
        vanished, place, body = rows[0]
        parts = self._parts([source_id]) if vanished is None else self._earlier_parts(source_id, vanished - 1)
        return self._segment(source_id, parts, body_of(place), body_of(body))

    def segments(
        self, places: Sequence[tuple[str, str]], altered: Altered | None = None
    ) -> dict[tuple[str, str], Segment]:
        """Return those of the segments (source id, segment id) that are in their sources now.

        What does not verify is left out where `altered` takes it.
        """
        sql = (
            "SELECT s.source_id, s.segment_id, s.place, t.body "
            "FROM unnest(%(sources)s::text[], %(segments)s::text[]) AS wanted(source_id, segment_id) "
            "JOIN segments s ON s.space = %(space)s AND s.source_id = wanted.source_id "
            "AND s.segment_id = wanted.segment_id "
            "JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.vanished IS NULL"
        )
        sources, segments = [one for one, _ in places], [other for _, other in places]
        rows = self._transaction.rows(sql, sources=sources, segments=segments) if places else []
        parts = self._parts({row[0] for row in rows})
        found: dict[tuple[str, str], Segment] = {}
        for source_id, segment_id, place, body in rows:
            with noted(altered):
                found[source_id, segment_id] = self._segment(source_id, parts, body_of(place), body_of(body))
        self._require_absent([place for place in dict.fromkeys(places) if place not in found], altered)
        return found

    def _parts(self, source_ids: Iterable[str]) -> Callable[[str], SourceParts | None]:
        """Return what gives what the newest revision of a source says of its segments, once it was checked."""
        checks, newest = self._checks, self.newest(source_ids) if self._checks else {}

        def parts(source_id: str) -> SourceParts | None:
            if checks is None:
                return None
            if source_id not in newest:
                raise unreadable(Stored(source_id, 0, 0, ""))
            return checks.newest_parts(self._events, newest[source_id])

        return parts

    def _earlier_parts(self, source_id: str, number: int) -> Callable[[str], SourceParts | None]:
        def parts(_: str) -> SourceParts | None:
            if self._checks is None:
                return None
            found = self._stored_rows(ONE_REVISION, id=source_id, number=number)
            if not found:
                raise unreadable(Stored(source_id, number, 0, ""))
            return self._checks.earlier_parts(self._events, found[0])

        return parts

    def _require_absent(self, places: Sequence[tuple[str, str]], altered: Altered | None) -> None:
        """Raise `Corrupt` where a segment that was not found is in its source by what the log says."""
        if not self._checks or not places:
            return
        newest = self.newest(source_id for source_id, _ in places)
        for source_id, segment_id in places:
            with noted(altered):
                known = newest.get(source_id)
                if known and segment_id in self._checks.newest_parts(self._events, known).segments:
                    raise unreadable_segment(source_id)

    def _segment(self, source_id: str, parts: Callable[[str], SourceParts | None], place: Body, body: Body) -> Segment:
        with row_of(source_id, hint=HINT):
            segment = Segment.model_validate({**unpack_json(place), "excerpt": unpack(body)})
        if self._checks and (known := parts(source_id)):
            self._checks.check_segment(known, segment, place)
        return segment
