-- Moves on the place from which what runs at these endpoints is read (running_books), so that counts pass few entries of
-- attempts that have ended, which a snapshot held by somebody else keeps. One long document would hold it back for ever, so
-- what many have overtaken is moved (_overtaken).
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
  v_newest bigint := coalesce(pg_sequence_last_value('lakequeue.task_attempts_id_seq'), 0);
  v_endpoint_id integer;
  v_ids bigint[];
  v_places bigint[];
  v_overtaken record;
  v_book running_books;
begin
  foreach v_endpoint_id in array endpoints loop
    select coalesce(array_agg(r.id), '{}'), coalesce(array_agg(r.place), '{}') into v_ids, v_places
    from _running(array[v_endpoint_id]) r;
    select k.* into v_book from running_books k where k.endpoint_id = v_endpoint_id order by k.no desc limit 1;
    if not found then
      insert into running_books (endpoint_id) values (v_endpoint_id) returning * into v_book;
    end if;
    select o.* into v_overtaken from _overtaken(v_ids, v_places, v_newest, v_book.overtaken, '{}') o;
    if v_overtaken.to_move <> '{}' then
      with moved as (
        update task_attempts a set place = v_overtaken.move_to
        where a.id = any(array(
          select r.id from task_attempts r
          where r.id = any(v_overtaken.to_move)
            and coalesce(r.run_ended_at, 'infinity') = 'infinity'  -- as no partial index has it, which a kept plan would read whole
          order by r.id
          for no key update skip locked))
        returning a.id
      )
      select o.* into v_overtaken
      from (select coalesce(array_agg(m.id), '{}') as moved from moved m) m
      cross join lateral _overtaken(v_ids, v_places, v_newest, v_book.overtaken, m.moved) o;
    end if;
    update running_books k
    set no = k.no + 1,
        place_from = v_overtaken.place_from,
        overtaken = v_overtaken.overtaken,
        overtaken_from = v_overtaken.overtaken_from
    where k.endpoint_id = v_endpoint_id and k.no = v_book.no;
  end loop;
end $$;

comment on function lakequeue._note_running(integer[]) is 'Moves on the place from which what runs at these endpoints is read.';
