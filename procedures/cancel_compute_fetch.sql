-- Asks to stop the fetch of costs that runs; the process that asks the warehouse sees it and cancels the statement.
--
-- fetch_id: its id. actor: the person.
-- Returns cancelling, or over (it had ended).
-- Errors: LQ403 the person may not; LQ404 no such fetch.
-- Locks: the fetch's row.
create or replace function lakequeue.cancel_compute_fetch(fetch_id bigint, actor text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
declare
  v_actor text := _actor(actor);
begin
  if (_compute_fetch(fetch_id)).state <> 'running' then
    return 'over';
  end if;
  update compute_fetches f
  set cancel_requested_at = _now(), cancelled_by = v_actor
  where f.id = fetch_id and f.cancel_requested_at is null;
  if found then
    perform _log_event('costs_cancelled', actor => v_actor, detail => jsonb_build_object('fetch', fetch_id));
  end if;
  return 'cancelling';
end $$;

comment on function lakequeue.cancel_compute_fetch(bigint, text) is 'Asks to stop the fetch of costs that runs.';
