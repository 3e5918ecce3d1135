-- The event log, newest first, a page at a time: what people did, and what happened out of the ordinary. A page reads from
-- the index of one of the conditions given (task, actors, kinds, agents, in this order); where others are rare among
-- these, it reads on until it has found enough.
--
-- from_day, to_day: inclusive days in the reporting time zone, null for open. kinds, actors, agents: null for all.
-- task: its events only; null: all. page_size: 1 to 1000. after_at, after_id: at and event_id of the last row of the page
--   before; null: first page.
-- Errors: LQ400 page_size out of range; LQ404 an unknown agent.
create or replace function lakequeue.list_events(
  from_day date default null, to_day date default null, kinds text[] default null, actors text[] default null,
  agents text[] default null, task bigint default null, page_size integer default 50,
  after_at timestamptz default null, after_id bigint default null)
returns table (
  event_id bigint, at timestamptz, kind text, task_id bigint, attempt_number integer, agent text, actor text, login text,
  reason text, detail jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_sort = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_agent_ids integer[] := case when agents is not null then _agent_ids(agents) end;
  v_zone text := (select i.time_zone from installation i);
  v_from timestamptz := coalesce(_in_calendar(from_day)::timestamp at time zone v_zone, '-infinity');
  v_at timestamptz := coalesce(after_at, 'infinity');
  -- no later than the place, since an index scan begins there (as in _finished_tasks)
  v_last timestamptz := least(
    coalesce((_in_calendar(to_day) + 1)::timestamp at time zone v_zone - interval '1 microsecond', 'infinity'), v_at);
  v_id bigint := coalesce(after_id, 9223372036854775807);
  v_by text := case when task is not null then 'task' when actors is not null then 'actor'
                    when kinds is not null then 'kind' when agents is not null then 'agent' else 'all' end;
begin
  if page_size is null or page_size not between 1 and 1000 then
    raise exception using errcode = 'LQ400', message = 'page_size must be 1 to 1000', hint = 'The default is 50.';
  end if;
  return query
    with page as (
      select v.* from task_events v
      where v_by = 'task' and v.task_id = task
        and (actors is null or v.actor = any(actors)) and (kinds is null or v.kind = any(kinds))
        and (v_agent_ids is null or v.agent_id = any(v_agent_ids))
        and v.at between v_from and v_last and (v.at, v.id) < (v_at, v_id)
      union all
      select e.*
      from (select distinct n.actor from unnest(actors) n(actor) where v_by = 'actor') n
      cross join lateral (
        select v.* from task_events v
        where v.actor = n.actor and (kinds is null or v.kind = any(kinds))
          and (v_agent_ids is null or v.agent_id = any(v_agent_ids))
          and v.at between v_from and v_last and (v.at, v.id) < (v_at, v_id)
        order by v.at desc, v.id desc limit page_size) e
      union all
      select e.*
      from (select distinct n.kind from unnest(kinds) n(kind) where v_by = 'kind') n
      cross join lateral (
        select v.* from task_events v
        where v.kind = n.kind and (v_agent_ids is null or v.agent_id = any(v_agent_ids))
          and v.at between v_from and v_last and (v.at, v.id) < (v_at, v_id)
        order by v.at desc, v.id desc limit page_size) e
      union all
      select e.*
      from (select n.id from unnest(v_agent_ids) n(id) where v_by = 'agent') n
      cross join lateral (
        select v.* from task_events v
        where v.agent_id = n.id and v.at between v_from and v_last and (v.at, v.id) < (v_at, v_id)
        order by v.at desc, v.id desc limit page_size) e
      union all
      (select v.* from task_events v
       where v_by = 'all' and v.at between v_from and v_last and (v.at, v.id) < (v_at, v_id)
       order by v.at desc, v.id desc limit page_size)
    )
    select p.id, p.at, p.kind, p.task_id, (select a.number from task_attempts a where a.id = p.attempt_id), g.name, p.actor,
           p.session_actor, p.reason, p.detail
    from (select p.* from page p order by p.at desc, p.id desc limit page_size) p
    left join agents g on g.id = p.agent_id
    order by p.at desc, p.id desc;
end $$;

comment on function lakequeue.list_events(date, date, text[], text[], text[], bigint, integer, timestamptz, bigint) is
  'The event log, newest first, a page at a time: who did what, when and why.';
