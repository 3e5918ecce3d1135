-- Moves on the place from which the open calls of an endpoint are read (running_books), so that reads pass few entries of
-- calls that have ended, which a snapshot held by somebody else keeps. One call whose end nobody reports, or that waits for
-- hours, would hold it back as long as its attempt lives, so one that was overtaken by more than 250 calls, and by four
-- times as many as are open, is moved as _note_running moves attempts: to the places from 2^62 on, where it is overtaken only
-- by what is moved later. So most are moved once. That matters, since each move leaves a version of the call, which its agent
-- passes when it asks again. Who waits first is said by id, which stays.
--
-- Locks: the caller holds the endpoint's throttle lock exclusively, so that nobody asks for a call meanwhile; the calls that
-- are moved, locked ones are skipped: it must be the last that a transaction locks.
create or replace function lakequeue._note_calls(endpoint_id integer)
returns void
language plpgsql volatile
set search_path = pg_catalog, lakequeue, pg_temp
set enable_bitmapscan = off
as $$
declare
  c_overtaken constant bigint := 1::bigint << 62;
  v_book running_books;
  v_newest bigint;
  v_ids bigint[];
  v_places bigint[];
  v_lead integer;
  v_moved bigint[];
begin
  select k.* into v_book from running_books k where k.endpoint_id = _note_calls.endpoint_id order by k.no desc limit 1;
  if not found then
    insert into running_books (endpoint_id) values (_note_calls.endpoint_id) returning * into v_book;
  end if;
  v_newest := greatest(pg_sequence_last_value('lakequeue.model_calls_id_seq'), v_book.call_from);  -- also if it was set back
  select coalesce(array_agg(o.id), '{}'), coalesce(array_agg(o.place), '{}') into v_ids, v_places
  from _open_calls(array[_note_calls.endpoint_id]) o;
  v_lead := greatest(250, 4 * cardinality(v_ids));
  with moved as (
    update model_calls c set place = c_overtaken + v_book.calls_overtaken
    where c.id = any(array(
      select r.id from model_calls r
      where r.id = any(array(
          select s.id from unnest(v_ids, v_places) s(id, place)
          where s.place < case when s.place < c_overtaken then v_newest else c_overtaken + v_book.calls_overtaken end - v_lead))
        and coalesce(r.ended_at, 'infinity') = 'infinity'  -- as no partial index has it, which a kept plan would read whole
      order by r.id
      for no key update skip locked))
    returning c.id
  )
  select coalesce(array_agg(m.id), '{}') into v_moved from moved m;
  update running_books k
  set no = k.no + 1,
      call_from = coalesce(s.call_from, v_newest),
      calls_overtaken = k.calls_overtaken + cardinality(v_moved),
      calls_overtaken_from = coalesce(s.overtaken_from, case when v_moved <> '{}' then c_overtaken + k.calls_overtaken end)
  from (select min(s.place) filter (where s.place < c_overtaken) as call_from,
               min(s.place) filter (where s.place >= c_overtaken) as overtaken_from
        from unnest(v_ids, v_places) s(id, place)
        where s.id <> all(v_moved)) s
  where k.endpoint_id = _note_calls.endpoint_id and k.no = v_book.no;
end $$;

comment on function lakequeue._note_calls(integer) is 'Moves on the place from which the open calls of an endpoint are read.';
