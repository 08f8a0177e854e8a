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
      AND c.relkind IN ('r', 'p') AND c.relname <> ALL('{migrations,servers,placements,membership}')
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
      AND c.relkind IN ('r', 'p') AND c.relname <> ALL('{migrations,servers,placements,membership}')
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
