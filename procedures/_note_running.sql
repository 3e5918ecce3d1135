-- Moves on the place from which what runs at these endpoints is read (running_books), so that counts pass few entries of
-- attempts that have ended, which a snapshot held by somebody else keeps. One long document would hold it back for ever,
-- so an attempt that was overtaken by more than 250 claims, and by four times as many as run, is moved: to the places from
-- 2^62 on, where it is overtaken only by what is moved later. So most are moved once however long they run: each time leaves
-- a version of the attempt, which whoever looks it up passes.
--
-- endpoints: ids.
-- Locks: the caller holds the throttle locks of the endpoints exclusively, so that no claim is under way; the attempts that
-- are moved, locked ones are skipped: without their tasks', so it must be the last that a transaction locks.
create or replace function lakequeue._note_running(endpoints integer[])
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  c_overtaken constant bigint := 1::bigint << 62;
  v_newest bigint := coalesce(pg_sequence_last_value('lakequeue.task_attempts_id_seq'), 0);
  v_endpoint_id integer;
  v_ids bigint[];
  v_places bigint[];
  v_lead integer;
  v_moved bigint[];
  v_book running_books;
begin
  foreach v_endpoint_id in array endpoints loop
    select coalesce(array_agg(r.id), '{}'), coalesce(array_agg(r.place), '{}') into v_ids, v_places
    from _running(array[v_endpoint_id]) r;
    v_lead := greatest(250, 4 * cardinality(v_ids));
    select k.* into v_book from running_books k where k.endpoint_id = v_endpoint_id order by k.no desc limit 1;
    if not found then
      insert into running_books (endpoint_id) values (v_endpoint_id) returning * into v_book;
    end if;
    with moved as (
      update task_attempts a set place = c_overtaken + v_book.overtaken
      where a.id = any(array(
        select r.id from task_attempts r
        where r.id = any(array(
            select s.id from unnest(v_ids, v_places) s(id, place)
            where s.place < case when s.place < c_overtaken then v_newest else c_overtaken + v_book.overtaken end - v_lead))
          and coalesce(r.run_ended_at, 'infinity') = 'infinity'  -- as no partial index has it, which a kept plan would read whole
        order by r.id
        for no key update skip locked))
      returning a.id
    )
    select coalesce(array_agg(m.id), '{}') into v_moved from moved m;
    update running_books k
    set no = k.no + 1,
        place_from = coalesce(s.place_from, v_newest),
        overtaken = k.overtaken + cardinality(v_moved),
        overtaken_from = coalesce(s.overtaken_from, case when v_moved <> '{}' then c_overtaken + k.overtaken end)
    from (select min(s.place) filter (where s.place < c_overtaken) as place_from,
                 min(s.place) filter (where s.place >= c_overtaken) as overtaken_from
          from unnest(v_ids, v_places) s(id, place)
          where s.id <> all(v_moved)) s
    where k.endpoint_id = v_endpoint_id and k.no = v_book.no;
  end loop;
end $$;

comment on function lakequeue._note_running(integer[]) is 'Moves on the place from which what runs at these endpoints is read.';
