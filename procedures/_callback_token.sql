-- The token that lets an attempt's agent report: sha256 over the installation's secret, the attempt and its run key.
-- Derived, not stored, so that a worker that adopts the attempt hands the same one to the same run; a new secret
-- makes every token of a copied database worthless.
--
-- secret: the installation's, where the caller has read it already, for many.
create or replace function lakequeue._callback_token(attempt bigint, run_key uuid, secret bytea default null)
returns text
language plpgsql stable
set search_path = pg_catalog, lakequeue, pg_temp
as $$
begin
  if secret is null then
    select i.secret into secret from installation i;
  end if;
  return encode(sha256(secret || int8send(attempt) || uuid_send(run_key)), 'hex');
end $$;

comment on function lakequeue._callback_token(bigint, uuid, bytea) is 'The secret by which an agent reports on its attempt.';
