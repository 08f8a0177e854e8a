-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE

-- A role that writes. Row-level security holds it to the space it has opened; a role that it does not
-- hold is refused here: superusers, the owner of the tables, and their members are for administration.
DO $treering$ DECLARE exempt text; BEGIN
  exempt := (SELECT CASE
  WHEN r.rolsuper THEN 'is a superuser'
  WHEN r.rolbypassrls THEN 'has BYPASSRLS'
  WHEN EXISTS (SELECT FROM pg_roles s WHERE (s.rolsuper OR s.rolbypassrls) AND pg_has_role(r.oid, s.oid, 'MEMBER'))
    THEN 'is a member of a superuser, or of a role with BYPASSRLS'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'treering'
      AND (pg_has_role(r.oid, c.relowner, 'MEMBER') OR pg_has_role(r.oid, n.nspowner, 'MEMBER'))
  ) THEN 'owns tables of Treering, or is a member of their owner, and may lift row-level security'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'treering'
      AND c.relkind IN ('r', 'p') AND c.relname <> ALL('{migrations,access_keys,servers,placements,membership}')
      AND NOT c.relrowsecurity AND has_table_privilege(r.oid, c.oid, 'SELECT')
  ) THEN 'may read a table whose row-level security was disabled'
  ELSE '' END FROM pg_roles r WHERE r.rolname = 'app');
  IF exempt <> '' THEN
    RAISE EXCEPTION USING MESSAGE = format('The role %L %s: spaces are not protected from it.', 'app', exempt),
      HINT = 'Name a role of its own for programs, which owns nothing: CREATE ROLE name LOGIN.';
  END IF;
END $treering$;
GRANT USAGE ON SCHEMA treering TO "app";
GRANT SELECT ON treering.migrations TO "app";
GRANT SELECT, INSERT, UPDATE, DELETE ON treering.space_names, treering.spaces, treering.objects, treering.revisions, treering.texts, treering.segments, treering.dependencies, treering.referrers, treering.links, treering.patches, treering.receipts, treering.audit, treering.jobs, treering.leases, treering.index_state, treering.passage_scopes, treering.passages, treering.passage_words, treering.posting_runs, treering.postings, treering.passage_endings, treering.passage_days, treering.code_names, treering.graph_nodes, treering.graph_passages, treering.passage_texts, treering.passage_models, treering.passage_vectors, treering.vector_queue, treering.vector_log, treering.waiting_objects, treering.waiting_texts, treering.promised_work TO "app";
-- Statements about a space name its partitions. Without these rights they name the tables, which costs the server more.
DO $treering$ DECLARE one regclass; BEGIN
  FOR one IN SELECT i.inhrelid::regclass FROM pg_inherits i JOIN pg_class t ON t.oid = i.inhparent
    WHERE t.relnamespace = 'treering'::regnamespace AND t.relkind = 'p'
  LOOP EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %I', one, 'app'); END LOOP;
END $treering$;

-- A server with access keys reads them and records their use. Only the owner of the tables makes and revokes keys.
CREATE SCHEMA IF NOT EXISTS treering;
CREATE TABLE IF NOT EXISTS treering.access_keys(
  id text COLLATE "C" PRIMARY KEY, name text COLLATE "C" NOT NULL, digest bytea NOT NULL, space text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL,
  granted text COLLATE "C" NOT NULL, channel text COLLATE "C" NOT NULL, created text COLLATE "C" NOT NULL, expires text COLLATE "C", revoked text COLLATE "C",
  used text COLLATE "C", per_minute bigint, at_once bigint, max_body bigint, read_up_to text COLLATE "C"
);
ALTER TABLE treering.access_keys ADD COLUMN IF NOT EXISTS per_minute bigint, ADD COLUMN IF NOT EXISTS at_once bigint,
  ADD COLUMN IF NOT EXISTS max_body bigint, ADD COLUMN IF NOT EXISTS read_up_to text COLLATE "C";
CREATE UNIQUE INDEX IF NOT EXISTS access_keys_by_name ON treering.access_keys(name) WHERE revoked IS NULL;
GRANT SELECT, UPDATE (used) ON treering.access_keys TO "app";

-- A role that only reads. Row-level security holds it to the space it has opened; a role that it does not
-- hold is refused here: superusers, the owner of the tables, and their members are for administration.
DO $treering$ DECLARE exempt text; BEGIN
  exempt := (SELECT CASE
  WHEN r.rolsuper THEN 'is a superuser'
  WHEN r.rolbypassrls THEN 'has BYPASSRLS'
  WHEN EXISTS (SELECT FROM pg_roles s WHERE (s.rolsuper OR s.rolbypassrls) AND pg_has_role(r.oid, s.oid, 'MEMBER'))
    THEN 'is a member of a superuser, or of a role with BYPASSRLS'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'treering'
      AND (pg_has_role(r.oid, c.relowner, 'MEMBER') OR pg_has_role(r.oid, n.nspowner, 'MEMBER'))
  ) THEN 'owns tables of Treering, or is a member of their owner, and may lift row-level security'
  WHEN EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'treering'
      AND c.relkind IN ('r', 'p') AND c.relname <> ALL('{migrations,access_keys,servers,placements,membership}')
      AND NOT c.relrowsecurity AND has_table_privilege(r.oid, c.oid, 'SELECT')
  ) THEN 'may read a table whose row-level security was disabled'
  ELSE '' END FROM pg_roles r WHERE r.rolname = 'report');
  IF exempt <> '' THEN
    RAISE EXCEPTION USING MESSAGE = format('The role %L %s: spaces are not protected from it.', 'report', exempt),
      HINT = 'Name a role of its own for programs, which owns nothing: CREATE ROLE name LOGIN.';
  END IF;
END $treering$;
GRANT USAGE ON SCHEMA treering TO "report";
GRANT SELECT ON treering.migrations TO "report";
GRANT SELECT ON treering.space_names, treering.spaces, treering.objects, treering.revisions, treering.texts, treering.segments, treering.dependencies, treering.referrers, treering.links, treering.patches, treering.receipts, treering.audit, treering.jobs, treering.leases, treering.index_state, treering.passage_scopes, treering.passages, treering.passage_words, treering.posting_runs, treering.postings, treering.passage_endings, treering.passage_days, treering.code_names, treering.graph_nodes, treering.graph_passages, treering.passage_texts, treering.passage_models, treering.passage_vectors, treering.vector_queue, treering.vector_log, treering.waiting_objects, treering.waiting_texts, treering.promised_work TO "report";
-- Statements about a space name its partitions. Without these rights they name the tables, which costs the server more.
DO $treering$ DECLARE one regclass; BEGIN
  FOR one IN SELECT i.inhrelid::regclass FROM pg_inherits i JOIN pg_class t ON t.oid = i.inhparent
    WHERE t.relnamespace = 'treering'::regnamespace AND t.relkind = 'p'
  LOOP EXECUTE format('GRANT SELECT ON %s TO %I', one, 'report'); END LOOP;
END $treering$;
