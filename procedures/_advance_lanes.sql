-- Moves on where the claimable tasks of an agent begin (claim_books), past the entries of tasks that were claimed, which a
-- snapshot held by somebody else keeps. dequeue_tasks calls it with every 64th claim or so. Three steps, each in a
-- transaction of its own:
-- 1. A time is noted, and another lane for what comes back. Whoever enqueues as of that time or earlier (the clock went
--    back) and has read the note takes that lane as well.
-- 2. Who else writes tasks now is noted (_writers): all who may not have read the note.
-- 3. None of them is left (at once, if there was none): whatever was enqueued as of the note, or came back to a former
--    lane, is committed by now. So in lane 0 nothing can be claimable before the first task that is there, or before the
--    noted time where that is earlier; and a former lane gets no more. The few left in it are moved to the current one, as
--    many as 16 for each step since the last move, or since there was nothing to move: or the first to come back after a
--    long time would all be moved at once, however many.
--
-- claimed: priorities of tasks claimed just now. Others are left as they are: nothing dead is in their way.
-- Locks: tried, one caller at a time in the database; the tasks that are moved, by id; locked ones are skipped.
create or replace function lakequeue._advance_lanes(agent_id integer, claimed smallint[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
  v_book claim_books;
  v_writers text[];
  v_some_left boolean;
  v_left bigint[];
  v_most integer;
begin
  if not pg_try_advisory_xact_lock(_lock_class(), -6) then
    return;
  end if;
  select k.* into v_book from claim_books k where k.agent_id = _advance_lanes.agent_id order by k.no desc limit 1;
  if not found then
    insert into claim_books (agent_id) values (_advance_lanes.agent_id) returning * into v_book;
  elsif v_book.noted_in = pg_current_xact_id() then
    return;  -- nobody else has read the note yet
  end if;

  select w.names, w.some_left into v_writers, v_some_left from _writers('lakequeue.tasks', v_book.holders) w;
  if v_book.noted_at is not null and v_book.holders is null and v_writers <> '{}' then
    update claim_books k set no = k.no + 1, holders = v_writers
    where k.agent_id = _advance_lanes.agent_id and k.no = v_book.no;
    return;
  elsif v_some_left then
    return;
  end if;

  v_most := 16 * (v_book.no - v_book.moved_no);
  -- Of many a look would read ever more, so it is taken ever more seldom: about 256 rows each time, on average.
  if hashint8(v_book.no) % greatest((v_book.no - v_book.moved_no) / 16, 1) = 0 then
    v_left := array(
      select t.id
      from unnest(v_book.lanes, v_book.highest, v_book.lowest, v_book.created_from, v_book.id_from)
        s(lane, highest, lowest, created_from, id_from)
      cross join lateral generate_series(s.lowest, s.highest) p(priority)
      cross join lateral (
        select f.id from tasks f
        where f.agent_id = _advance_lanes.agent_id and f.lane = s.lane and f.priority = p.priority
          and (f.created_at, f.id) >= (coalesce(s.created_from, '-infinity'), coalesce(s.id_from, 0))
          and f.status = 'enqueued' and f.retry_at is null
        order by f.created_at, f.id
        limit v_most + 1) t
      where s.lane between 1 and v_book.lane - 1
      limit v_most + 1);
  end if;
  if cardinality(v_left) between 1 and v_most then
    update tasks t set lane = v_book.lane
    where t.id = any(array(
      select l.id from tasks l
      where l.id = any(v_left) and l.status::text = 'enqueued' and l.retry_at is null  -- see _candidates
      order by l.id
      for no key update skip locked));
  end if;
  if cardinality(v_left) <= v_most then
    v_book.moved_no := v_book.no;
  end if;

  with places as materialized (
    select s.lane, p.priority, f.created_at, f.id
    from unnest(v_book.lanes, v_book.highest, v_book.lowest, v_book.created_from, v_book.id_from)
      s(lane, highest, lowest, created_from, id_from)
    cross join lateral generate_series(s.lowest, s.highest) p(priority)
    left join lateral (
      select t.created_at, t.id from tasks t
      where t.agent_id = _advance_lanes.agent_id and t.lane = s.lane and t.priority = p.priority
        and (t.created_at, t.id) >= (coalesce(s.created_from, '-infinity'), coalesce(s.id_from, 0))
        and t.status = 'enqueued' and t.retry_at is null
      order by t.created_at, t.id
      limit 1) f on true
    where v_book.noted_at is not null and s.lane between 0 and v_book.lane - 1
      and (s.lane > 0 or s.created_from is not null or p.priority = any(claimed))
  ), begun as materialized (
    select p.lane, p.priority, least(p.created_at, v_book.noted_at) as created_from,
           case when p.created_at <= v_book.noted_at then p.id else 9223372036854775807 end as id_from
    from places p
    where p.lane = 0 or p.id is not null
  ), next as (
    select b.lane, b.priority as highest, b.priority as lowest, b.created_from, b.id_from from begun b
    union all
    select 0, max(g.priority), min(g.priority), null, null
    from (
      select p.priority, p.priority - row_number() over (order by p.priority) as run
      from generate_series(0, 9) p(priority)
      where not exists (select from begun b where b.lane = 0 and b.priority = p.priority)) g
    group by g.run
    union all
    select l.lane, 9, 0, null, null
    from unnest(array[-1, v_book.lane, v_book.lane + 1]) l(lane)
    where l.lane <= v_book.lane or not exists (select from begun b where b.lane > 0)
  )
  select max(n.lane), array_agg(n.lane), array_agg(n.highest), array_agg(n.lowest), array_agg(n.created_from), array_agg(n.id_from)
  into v_book.lane, v_book.lanes, v_book.highest, v_book.lowest, v_book.created_from, v_book.id_from
  from next n;
  update claim_books k
  set no = k.no + 1, lane = v_book.lane, lanes = v_book.lanes, highest = v_book.highest, lowest = v_book.lowest,
      created_from = v_book.created_from, id_from = v_book.id_from, noted_at = greatest(_now(), v_book.noted_at),
      noted_in = pg_current_xact_id(), holders = null, moved_no = v_book.moved_no
  where k.agent_id = _advance_lanes.agent_id and k.no = v_book.no;
end $$;

comment on function lakequeue._advance_lanes(integer, smallint[]) is
  'Moves on where the claimable tasks of an agent begin, past the entries of those that were claimed.';
