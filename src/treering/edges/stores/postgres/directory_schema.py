"""The tables of a directory of servers, and what a server keeps of the directory that it belongs to.

Every database has them; they are empty where nobody uses a directory. They are keyed by names, not by a space.
"""

_TEXT = 'text COLLATE "C"'

DIRECTORY_TABLES = ("servers", "placements", "membership")
"""Tables that are not keyed by the number of a space."""

DIRECTORY_STEP = f"""
CREATE TABLE {{schema}}.servers(
  name {_TEXT} PRIMARY KEY, address {_TEXT} NOT NULL, draining boolean NOT NULL DEFAULT false,
  spaces bigint NOT NULL DEFAULT 0
);
CREATE TABLE {{schema}}.placements(
  name {_TEXT} PRIMARY KEY, server {_TEXT} NOT NULL REFERENCES {{schema}}.servers(name), target {_TEXT}, move {_TEXT},
  left_on {_TEXT}
);
CREATE INDEX placements_by_server ON {{schema}}.placements(server);
CREATE TABLE {{schema}}.membership(
  one boolean PRIMARY KEY DEFAULT true CHECK (one), server {_TEXT} NOT NULL, directory {_TEXT} NOT NULL
);
-- What makes a space looks here, whatever it was granted before there were directories. Nothing in it is secret.
GRANT SELECT ON {{schema}}.membership TO PUBLIC;
-- The owner of the tables sees all placements: it moves spaces. Other roles see the space that they have named.
ALTER TABLE {{schema}}.placements ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_space ON {{schema}}.placements USING (name = current_setting('treering.space_name', true));
"""
"""`servers.spaces` counts placements. A placement with a `target` has a move that was begun and not switched;
`left_on` names a server that still keeps the copy that a finished move left."""

MARK_STEP = f"ALTER TABLE {{schema}}.spaces ADD COLUMN moving {_TEXT}"
"""`spaces.moving` says whether this database serves the space (`marks`)."""
