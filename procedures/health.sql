-- Whether the queue and its server are well: a row per check, the gravest first, with what to do. README's runbook says more
-- about each name. Anybody who may call it sees whose transactions are open, never what they do.
--
-- with_attention: false leaves out what needs_attention tells agent by agent (the dashboard shows both).
-- Returns name; status: alarm (somebody has to do something now), warning, unknown (it cannot be told, and why), ok;
--   value with its unit; warns_at, alarms_at: the limits, null where there is none at the moment; words: what is wrong and
--   what to do, null where all is well. What each is and why it has these limits stands with _queue_checks and _server_checks.
-- Reads only what is open, a bounded number of rows by index, rollups of two days, and catalogs. Locks: none.
create or replace function lakequeue.health(with_attention boolean default true)
returns table (name text, status text, value numeric, unit text, warns_at numeric, alarms_at numeric, words text)
language plpgsql volatile security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
    with checks as (
      select q.* from _queue_checks(with_attention) q
      union all
      select s.* from _server_checks() s
    ), judged as (
      select c.*, case when coalesce(c.warns_at, c.alarms_at) is null then 'ok' when c.value is null then 'unknown'
                       when c.value >= c.alarms_at then 'alarm' when c.value >= c.warns_at then 'warning' else 'ok' end as status
      from checks c
    )
    select j.name, j.status, round(j.value, 3), j.unit, j.warns_at, j.alarms_at, case when j.status <> 'ok' then j.words end
    from judged j
    order by array_position('{alarm,warning,unknown,ok}', j.status), j.name;
end $$;

comment on function lakequeue.health(boolean) is 'Whether the queue and its server are well: a row per check, with what to do.';
