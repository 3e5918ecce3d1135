-- The fetch of that number, its row locked. One that runs but has been silent for a minute is lost, and ends here, when it
-- was last heard of: the process that asked has stopped. It has failed, or is cancelled where somebody had asked to stop
-- it; compute_fetch_status shows it so before. Errors: LQ404.
create or replace function lakequeue._compute_fetch(fetch_id bigint)
returns lakequeue.compute_fetches
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_fetch compute_fetches;
begin
  select f.* into v_fetch from compute_fetches f where f.id = fetch_id for no key update;
  if not found then
    raise exception using errcode = 'LQ404', message = format('there is no fetch %s', coalesce(fetch_id::text, 'null')),
      hint = 'lakequeue.begin_compute_fetch gives its number.';
  end if;
  if v_fetch.state = 'running' and v_fetch.seen_at <= _now() - interval '1 minute' then
    update compute_fetches f
    set state = case when f.cancel_requested_at is null then 'failed' else 'cancelled' end, ended_at = f.seen_at,
        problem = 'the process that asked has stopped'
    where f.id = v_fetch.id
    returning f.* into v_fetch;
  end if;
  return v_fetch;
end $$;

comment on function lakequeue._compute_fetch(bigint) is 'The fetch of that number, locked; one that is lost has ended.';
