-- The token that lets an attempt's agent report: sha256 over the installation's secret, the attempt and its run key.
-- Derived, not stored, so that a worker that adopts the attempt hands the same one to the same run; a new secret
-- makes every token of a copied database worthless.
create or replace function lakequeue._callback_token(attempt bigint, run_key uuid)
returns text
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (select encode(sha256(i.secret || int8send(attempt) || uuid_send(run_key)), 'hex') from installation i);
end $$;

comment on function lakequeue._callback_token(bigint, uuid) is 'The secret by which an agent reports on its attempt.';
