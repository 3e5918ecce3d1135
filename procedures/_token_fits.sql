-- Whether a token is the one of this attempt. The two are compared by their hashes, so that the time of the comparison
-- tells nothing about the right one. The only place where tokens are compared.
--
-- attempt, run_key: as they stand in task_attempts. token: what the caller has; null fits nothing. secret: the
-- installation's.
create or replace function lakequeue._token_fits(attempt bigint, run_key uuid, token text, secret bytea)
returns boolean
language sql stable
return coalesce(
  sha256(convert_to(token, 'UTF8')) = sha256(convert_to(lakequeue._derive_token(attempt, run_key, secret), 'UTF8')), false);

comment on function lakequeue._token_fits(bigint, uuid, text, bytea) is 'Whether a token is the one of this attempt.';
