-- The token that lets an attempt's agent report: sha256 over the installation's secret, the attempt and its run key.
-- Derived, not stored, so that a worker that adopts the attempt hands the same one to the same run; a new secret
-- makes every token of a copied database worthless.
--
-- secret: the installation's.
create or replace function lakequeue._derive_token(attempt bigint, run_key uuid, secret bytea)
returns text
language sql immutable
return encode(sha256(secret || int8send(attempt) || uuid_send(run_key)), 'hex');

comment on function lakequeue._derive_token(bigint, uuid, bytea) is 'An attempt''s token, from the installation''s secret.';
