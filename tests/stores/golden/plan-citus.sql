-- Run this with psql as the owner of the tables, after the first space was opened: that makes them.
-- psql --set ON_ERROR_STOP=1 --file PLAN DATABASE

-- A distributed Postgres (Citus). Run this at its coordinator, with all workers added, as the owner of the database,
-- and again after a version of Treering that adds tables.
-- All rows of a space are on one server, in all tables: a commit uses one server.
-- One space is as fast as one server. Programs connect to the coordinator.
DO $$ BEGIN
  IF EXISTS (
    SELECT FROM pg_class c WHERE c.relnamespace = 'treering'::regnamespace AND c.relkind = 'p'
      AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
  ) THEN
    RAISE EXCEPTION USING MESSAGE = 'The tables have partitions: they were made before this server loaded Citus.',
      HINT = 'Make a new database with the extension citus, open a space there, run this plan there, '
        'and copy the spaces with treering move.';
  END IF;
END $$;
-- Row-level security on the workers goes by settings of the transaction, which Citus hands on only if it is told to.
-- Without this line a role that is held to row-level security sees no rows at all.
DO $$ BEGIN
  EXECUTE format($q$ALTER DATABASE %I SET citus.propagate_set_commands = 'local'$q$, current_database());
END $$;
SET citus.propagate_set_commands = 'local';
-- A shard is moved, and a worker added, by a subscription of the owner of the tables. Row-level security that is forced
-- on the owner stops it. Programs need a role of their own, which row-level security holds in any case.
DO $$ DECLARE one regclass; BEGIN
  FOR one IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'treering'::regnamespace AND c.relforcerowsecurity
  LOOP EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', one); END LOOP;
END $$;
SET citus.shard_count = 16;
SET citus.shard_replication_factor = 1;
SELECT create_reference_table('treering.space_names') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.space_names'::regclass);
SELECT create_reference_table('treering.migrations') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.migrations'::regclass);
SELECT create_distributed_table('treering.spaces', 'space') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.spaces'::regclass);
SELECT create_distributed_table('treering.objects', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.objects'::regclass);
SELECT create_distributed_table('treering.revisions', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.revisions'::regclass);
SELECT create_distributed_table('treering.texts', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.texts'::regclass);
SELECT create_distributed_table('treering.segments', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.segments'::regclass);
SELECT create_distributed_table('treering.dependencies', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.dependencies'::regclass);
SELECT create_distributed_table('treering.referrers', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.referrers'::regclass);
SELECT create_distributed_table('treering.links', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.links'::regclass);
SELECT create_distributed_table('treering.patches', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.patches'::regclass);
SELECT create_distributed_table('treering.receipts', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.receipts'::regclass);
SELECT create_distributed_table('treering.audit', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.audit'::regclass);
SELECT create_distributed_table('treering.jobs', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.jobs'::regclass);
SELECT create_distributed_table('treering.leases', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.leases'::regclass);
SELECT create_distributed_table('treering.index_state', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.index_state'::regclass);
SELECT create_distributed_table('treering.passage_scopes', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_scopes'::regclass);
SELECT create_distributed_table('treering.passages', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passages'::regclass);
SELECT create_distributed_table('treering.passage_words', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_words'::regclass);
SELECT create_distributed_table('treering.posting_runs', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.posting_runs'::regclass);
SELECT create_distributed_table('treering.postings', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.postings'::regclass);
SELECT create_distributed_table('treering.passage_endings', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_endings'::regclass);
SELECT create_distributed_table('treering.passage_days', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_days'::regclass);
SELECT create_distributed_table('treering.code_names', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.code_names'::regclass);
SELECT create_distributed_table('treering.graph_nodes', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.graph_nodes'::regclass);
SELECT create_distributed_table('treering.graph_passages', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.graph_passages'::regclass);
SELECT create_distributed_table('treering.passage_texts', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_texts'::regclass);
SELECT create_distributed_table('treering.passage_models', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_models'::regclass);
SELECT create_distributed_table('treering.passage_vectors', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.passage_vectors'::regclass);
SELECT create_distributed_table('treering.vector_queue', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.vector_queue'::regclass);
SELECT create_distributed_table('treering.vector_log', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.vector_log'::regclass);
SELECT create_distributed_table('treering.waiting_objects', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.waiting_objects'::regclass);
SELECT create_distributed_table('treering.waiting_texts', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.waiting_texts'::regclass);
SELECT create_distributed_table('treering.promised_work', 'space', colocate_with => 'treering.spaces') WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'treering.promised_work'::regclass);

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
