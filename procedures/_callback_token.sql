-- The token of an attempt (_derive_token), where the caller has not read the installation's secret.
create or replace function lakequeue._callback_token(attempt bigint, run_key uuid)
returns text
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  return (select _derive_token(attempt, run_key, i.secret) from installation i);
end $$;

comment on function lakequeue._callback_token(bigint, uuid) is 'The secret by which an agent reports on its attempt.';
