"""The tables of the index, each keyed by the space first. All but vectors can be made anew from the ledger."""

_TEXT = 'text COLLATE "C"'

INDEX_TABLES = {
    # Numbers that the index remembers, by name (`index_state`).
    "index_state": f"space bigint NOT NULL, name {_TEXT} NOT NULL, value bigint NOT NULL, PRIMARY KEY(space, name)",
    "passage_scopes": (f"space bigint NOT NULL, id integer NOT NULL, scope {_TEXT} NOT NULL, PRIMARY KEY(space, id)"),
    # A row says how a passage stood from `from_seq` until before `until_seq`; a change makes a new row, but for
    # `updated_at`, `position` (its place in the object) and metadata, which change in place. `terms` and `trigrams`:
    # how long it is for the ranking by words and by names.
    "passages": (
        f"space bigint NOT NULL, key bigint NOT NULL, object_id {_TEXT} NOT NULL, part {_TEXT} NOT NULL, "
        f"position integer NOT NULL, type {_TEXT} NOT NULL, kind {_TEXT} NOT NULL, status {_TEXT} NOT NULL, "
        f"scope_id integer NOT NULL, role {_TEXT} NOT NULL, title {_TEXT} NOT NULL, heading {_TEXT} NOT NULL, "
        f"origin {_TEXT}, channel {_TEXT} NOT NULL, created_at {_TEXT} NOT NULL, updated_at {_TEXT} NOT NULL, "
        "live boolean NOT NULL, text_id bigint NOT NULL, from_seq bigint NOT NULL, until_seq bigint, "
        f"place_role {_TEXT} NOT NULL, metadata jsonb NOT NULL, terms integer NOT NULL, trigrams integer NOT NULL, "
        "PRIMARY KEY(space, key)"
    ),
    # What a passage is found by in full text, packed: for phrases, parts of names, and postings made anew.
    "passage_words": (
        "space bigint NOT NULL, key bigint NOT NULL, words bytea NOT NULL, names bytea NOT NULL, "
        "PRIMARY KEY(space, key)"
    ),
    # Postings of runs of passages (`index_rows.postings`): those of words (kind 0) and of trigrams of names (kind 1).
    "posting_runs": (
        "space bigint NOT NULL, run bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL, "
        "passages integer NOT NULL, word_buckets integer NOT NULL, name_buckets integer NOT NULL, "
        "PRIMARY KEY(space, run)"
    ),
    "postings": (
        "space bigint NOT NULL, run bigint NOT NULL, kind smallint NOT NULL, bucket integer NOT NULL, "
        "body bytea NOT NULL, PRIMARY KEY(space, run, kind, bucket)"
    ),
    # Last characters of titles, headings and origins, backwards, so that "ends with" is a range of an index.
    "passage_endings": (
        f"space bigint NOT NULL, ending {_TEXT} NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, ending, key)"
    ),
    # Days a turn was said on or speaks of, from the first to the last, counted as Python counts them (ordinals).
    "passage_days": (
        "space bigint NOT NULL, key bigint NOT NULL, first integer NOT NULL, last integer NOT NULL, "
        "PRIMARY KEY(space, key, first, last)"
    ),
    # By the number of a name of code (`derived.code_names`), the current passages that vouch for it.
    "code_names": "space bigint NOT NULL, name bigint NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, name, key)",
    # What current passages are tied to, by name; `digest` is of the name, which may be longer than an index takes.
    # The number of a name that is gone is never given to another, for a table in memory may remember it.
    "graph_nodes": (
        "space bigint NOT NULL, id bigint NOT NULL, digest bytea NOT NULL, name bytea NOT NULL, "
        "passages integer NOT NULL, PRIMARY KEY(space, id)"
    ),
    # By passage: its ties, as `derived.graph_records` writes them.
    "graph_passages": "space bigint NOT NULL, key bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY(space, key)",
    # A text is a row while any passage has it, current or not; its vectors live and die with it.
    "passage_texts": "space bigint NOT NULL, id bigint NOT NULL, hash bytea NOT NULL, PRIMARY KEY(space, id)",
    "passage_models": (
        f"space bigint NOT NULL, id integer NOT NULL, name {_TEXT} NOT NULL, dimension integer NOT NULL, "
        "PRIMARY KEY(space, id)"
    ),
    "passage_vectors": (
        "space bigint NOT NULL, text_id bigint NOT NULL, model_id integer NOT NULL, vector bytea NOT NULL, "
        "digest bytea NOT NULL, PRIMARY KEY(space, text_id, model_id)"
    ),
    "vector_queue": (
        "space bigint NOT NULL, model_id integer NOT NULL, text_id bigint NOT NULL, priority integer NOT NULL, "
        "PRIMARY KEY(space, model_id, text_id)"
    ),
    # Which passages came, went or got a vector: how tables in memory learn of it.
    "vector_log": "space bigint NOT NULL, position bigint NOT NULL, key bigint NOT NULL, PRIMARY KEY(space, position)",
    # Objects whose passages are still to be made, and the texts that were theirs: as long as one has a text, its
    # vectors are kept.
    "waiting_objects": f"space bigint NOT NULL, object_id {_TEXT} NOT NULL, PRIMARY KEY(space, object_id)",
    "waiting_texts": (
        f"space bigint NOT NULL, object_id {_TEXT} NOT NULL, text_id bigint NOT NULL, "
        "PRIMARY KEY(space, object_id, text_id)"
    ),
}

INDEX_INDEXES = """
CREATE INDEX passages_by_object ON {schema}.passages(space, object_id, position);
CREATE INDEX passages_by_part ON {schema}.passages(space, part) WHERE part <> '';
CREATE INDEX passages_by_text ON {schema}.passages(space, text_id);
CREATE UNIQUE INDEX passage_texts_by_hash ON {schema}.passage_texts(space, hash);
CREATE UNIQUE INDEX graph_nodes_by_digest ON {schema}.graph_nodes(space, digest);
CREATE INDEX passage_days_by_first ON {schema}.passage_days(space, first, last);
CREATE INDEX vector_queue_by_priority ON {schema}.vector_queue(space, model_id, priority, text_id);
CREATE INDEX waiting_texts_by_text ON {schema}.waiting_texts(space, text_id);
"""
