#!/bin/sh
# Run once, when the database is made: a role of its own for Treering, since row-level security does not hold superusers.
set -eu
psql --username="$POSTGRES_USER" --dbname=postgres --set=ON_ERROR_STOP=1 --set=password="$TREERING_PASSWORD" <<'SQL'
CREATE ROLE treering LOGIN PASSWORD :'password';
CREATE DATABASE treering OWNER treering;
SQL
