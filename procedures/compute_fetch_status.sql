-- The newest fetch of costs, in one row; state is never where there was none.
--
-- Returns elapsed: how long it has run, or ran. as_of: when the last fetch that succeeded ended. The others are the
-- columns of compute_fetches. One that has been silent for a minute is lost, and shown as _compute_fetch will end it:
-- failed, or cancelled where somebody had asked to stop it, when it was last heard of.
create or replace function lakequeue.compute_fetch_status()
returns table (
  fetch_id bigint, state text, phase text, asked_by text, started_at timestamptz, ended_at timestamptz, elapsed interval,
  statement_id text, cancelled_by text, runs integer, billed integer, ignored integer, more boolean, problem text,
  as_of timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _now();
begin
  return query
    select n.id,
           coalesce(case when n.lost then case when n.cancel_requested_at is null then 'failed' else 'cancelled' end else n.state end,
                    'never'),
           n.phase, n.asked_by, n.started_at,
           case when n.lost then n.seen_at else n.ended_at end,
           coalesce(case when n.lost then n.seen_at else n.ended_at end, v_now) - n.started_at,
           n.statement_id, n.cancelled_by, n.runs, n.billed, n.ignored, n.more,
           case when n.lost then 'the process that asked has stopped' else n.problem end,
           (select f.ended_at from compute_fetches f where f.state = 'done' order by f.id desc limit 1)
    from (values (1)) one(row)
    left join lateral (
      select f.*, f.state = 'running' and f.seen_at <= v_now - interval '1 minute' as lost
      from compute_fetches f order by f.id desc limit 1) n on true;
end $$;

comment on function lakequeue.compute_fetch_status() is 'The newest fetch of costs, and when the last good one ended.';
